"""Results, gradients and the library's fp64 oracle against PyTorch, for the features that PyTorch has."""

import math

import pytest

torch = pytest.importorskip("torch")
import regard  # noqa: E402

sdpa = torch.nn.functional.scaled_dot_product_attention


def bottom_right(sq, sk):
    return torch.ones(sq, sk, dtype=torch.bool).tril(sk - sq)


# name: (hq, hk, sq, sk, words of the problem, options of regard, arguments of SDPA)
CASES = {
    "full": (4, 4, 50, 70, "", {}, lambda b: {}),
    "gqa": (6, 2, 50, 70, "", {}, lambda b: {"enable_gqa": True}),
    "scale": (4, 4, 50, 70, "scale=0.25", {"scale": 0.25}, lambda b: {"scale": 0.25}),
    "causal_square": (4, 4, 65, 65, "mask=causal", {"causal": True}, lambda b: {"is_causal": True}),
    "causal_top_left": (
        4,
        4,
        50,
        70,
        "mask=causal_top_left",
        {"causal": "top_left"},
        lambda b: {"is_causal": True},
    ),
    "causal_bottom_right": (
        4,
        2,
        50,
        70,
        "mask=causal",
        {"causal": True},
        lambda b: {"attn_mask": bottom_right(50, 70), "enable_gqa": True},
    ),
    "bias": (4, 4, 50, 70, "bias=bh", {}, lambda b: {"attn_mask": b}),
}


def tensors(hq, hk, sq, sk, d=32, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    shapes = (2, hq, sq, d), (2, hk, sk, d), (2, hk, sk, d), (2, hq, sq, d)
    return [torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype) for shape in shapes]


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_agree_with_sdpa(name):
    hq, hk, sq, sk, words, options, given = CASES[name]
    q, k, v, grad_o = tensors(hq, hk, sq, sk, dtype=torch.float32)
    options = dict(options, layout="bhsd")
    bias = None
    if name == "bias":
        bias = torch.randn(2, hq, sq, sk)
        options["bias"] = bias

    exact = [x.double().requires_grad_() for x in (q, k, v)]
    exact_bias = bias.double().requires_grad_() if bias is not None else None
    expected = sdpa(*exact, **given(exact_bias))
    leaves = [*exact, exact_bias] if bias is not None else exact
    expected_grads = torch.autograd.grad(expected, leaves, grad_o.double())

    o, lse = regard.attention(q, k, v, lse=True, **options)
    assert isinstance(o, torch.Tensor) and o.shape == expected.shape and o.dtype == torch.float32
    torch.testing.assert_close(o.double(), expected.detach(), rtol=2e-5, atol=2e-5)
    grads = regard.attention_backward(grad_o, q, k, v, o, lse, grad_bias=bias is not None, **options)
    assert len(grads) == len(leaves)
    for actual, correct in zip(grads, expected_grads):
        torch.testing.assert_close(actual.double(), correct, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize("name", CASES)
def test_the_oracle_accepts_pytorch_s_fp64_results(name):
    """The oracle judges PyTorch's results, rounded to fp32, as right; and a slight error in them as wrong."""
    hq, hk, sq, sk, words, options, given = CASES[name]
    q, k, v, grad_o = tensors(hq, hk, sq, sk, dtype=torch.float32)
    bias = torch.randn(2, hq, sq, sk) if name == "bias" else None
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    exact_bias = bias.double().requires_grad_() if bias is not None else None
    o = sdpa(*exact, **given(exact_bias))
    leaves = [*exact, exact_bias] if bias is not None else exact
    grads = torch.autograd.grad(o, leaves, grad_o.double())

    keys = exact[1].repeat_interleave(hq // hk, dim=1)
    scores = exact[0] @ keys.mT * (options.get("scale") or 1 / math.sqrt(q.shape[-1]))
    if bias is not None:
        scores = scores + exact_bias
    shown = given(None).get("attn_mask") if bias is None else None
    if given(None).get("is_causal"):
        shown = torch.ones(sq, sk, dtype=torch.bool).tril()
    if shown is not None:
        scores = scores.masked_fill(~shown, -math.inf)
    lse = scores.logsumexp(-1)

    sizes = f"fp32 b=2 hq={hq} hk={hk} sq={sq} sk={sk} d=32 layout=bhsd {words}"
    inputs = {"q": q, "k": k, "v": v}
    if bias is not None:
        inputs["bias"] = bias
    results = {"o": o.detach().float(), "lse": lse.detach().float()}
    assert regard.check(f"fwd {sizes} lse", **inputs, **results)["ok"]
    backward = dict(zip(("grad_q", "grad_k", "grad_v", "grad_bias"), [grad.float().contiguous() for grad in grads]))
    problem = f"bwd {sizes} {'dbias' if bias is not None else ''}"
    assert regard.check(problem, **inputs, **results, grad_o=grad_o, **backward)["ok"]
    for name in backward:
        wrong = dict(backward)
        wrong[name] = wrong[name] * 1.01
        assert not regard.check(problem, **inputs, **results, grad_o=grad_o, **wrong)["ok"], name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("d", [64, 128])
def test_half_precision_is_as_close_to_the_truth_as_pytorch(dtype, d):
    q, k, v, grad_o = tensors(4, 4, 130, 200, d, dtype)
    options = {"layout": "bhsd", "causal": True}
    o, lse = regard.attention(q, k, v, lse=True, **options)
    grads = regard.attention_backward(grad_o, q, k, v, o, lse, **options)
    assert o.dtype == dtype and grads[1].dtype == dtype and lse.dtype == torch.float32

    exact = [x.double().requires_grad_() for x in (q, k, v)]
    rounded = [x.clone().requires_grad_() for x in (q, k, v)]
    mask = bottom_right(130, 200)
    expected, theirs = (sdpa(*x, attn_mask=mask) for x in (exact, rounded))
    expected = [expected, *torch.autograd.grad(expected, exact, grad_o.double())]
    theirs = [theirs, *torch.autograd.grad(theirs, rounded, grad_o)]
    for ours, peer, truth in zip((o, *grads), theirs, expected):
        error, peer_error = (x.double() - truth for x in (ours, peer))
        # A weight of 1 has no rounding; weights may be relative to another score than the highest.
        assert error.square().mean().sqrt() <= 1.15 * peer_error.square().mean().sqrt() + 1e-5
        # One element's error is as large as a single rounding makes it, up or down.
        unit = truth.abs().max() * torch.finfo(dtype).eps
        assert error.abs().max() <= peer_error.abs().max() + unit


def test_tensors_that_require_gradients_are_refused():
    q = torch.randn(1, 4, 2, 8, requires_grad=True)
    with pytest.raises(ValueError, match=r"q requires a gradient.*detach"):
        regard.attention(q, q, q)


def test_results_own_their_memory():
    q = torch.randn(1, 4, 2, 8)
    o = regard.attention(q, q, q)
    kept = o.clone()
    del q
    for _ in range(10):
        regard.attention(*(torch.randn(1, 4, 2, 8) for _ in range(3)))
    assert torch.equal(o, kept)
    o.add_(1)  # writable


class Labelled(torch.Tensor):
    """A subclass, which is read through DLPack where plain tensors are not."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_plain_tensors_and_those_by_dlpack_give_the_same_bits(dtype):
    q, k, v, _ = tensors(4, 2, 50, 70, dtype=dtype)
    expected = regard.attention(q, k, v, layout="bhsd", causal=True, lse=True)
    got = regard.attention(*(x.as_subclass(Labelled) for x in (q, k, v)), layout="bhsd", causal=True, lse=True)
    for one, other in zip(expected, got):
        assert torch.equal(one, other.as_subclass(torch.Tensor))


def test_strides_of_a_tensor_are_its_own():
    q, k, v, _ = tensors(4, 2, 50, 70, dtype=torch.float32)
    expected = regard.attention(q, k, v, layout="bhsd")
    wide = [torch.cat([x, x], dim=-1)[..., : x.shape[-1]] for x in (q, k, v)]
    out = torch.full((2, 50, 4, 32), torch.nan).transpose(1, 2)
    result = regard.attention(*wide, layout="bhsd", out=out)
    assert result is out
    assert torch.equal(out, expected)


def test_the_negative_bit_is_not_lost():
    q, k, v, _ = tensors(4, 2, 50, 70, dtype=torch.float32)
    negative = torch.complex(torch.zeros_like(q), -q).conj().imag
    assert negative.is_neg() and torch.equal(negative, q)
    assert torch.equal(regard.attention(negative, k, v, layout="bhsd"), regard.attention(q, k, v, layout="bhsd"))


def test_sparse_tensors_and_those_without_memory_are_refused():
    q, k, v, _ = tensors(4, 2, 50, 70, dtype=torch.float32)
    with pytest.raises((regard.RegardError, BufferError, RuntimeError)):
        regard.attention(q.to_sparse(), k, v, layout="bhsd")
    with pytest.raises((regard.RegardError, BufferError, RuntimeError, ValueError)):
        regard.attention(q.to("meta"), k, v, layout="bhsd")
    with pytest.raises((regard.RegardError, BufferError, RuntimeError)):
        torch.func.vmap(lambda x: regard.attention(x, k, v, layout="bhsd"))(torch.stack([q, q]))


@pytest.mark.parametrize("kind", [torch.Tensor, Labelled])
def test_a_tensor_serves_as_workspace(kind):
    q, k, v, _ = tensors(4, 2, 50, 70, dtype=torch.float32)
    plan = regard.plan("fwd fp32 b=2 hq=4 hk=2 sq=50 sk=70 d=32 layout=bhsd")
    room = torch.empty(2 * plan.workspace_bytes + 128, dtype=torch.uint8)
    start = -room.data_ptr() % 64
    o = torch.empty_like(q)
    plan.run(q=q, k=k, v=v, o=o, workspace=room[start : start + plan.workspace_bytes].as_subclass(kind))
    assert torch.equal(o, regard.attention(q, k, v, layout="bhsd"))
    with pytest.raises(ValueError, match="workspace has"):
        plan.run(q=q, k=k, v=v, o=o, workspace=room[start : start + plan.workspace_bytes - 1].as_subclass(kind))
    with pytest.raises(ValueError, match="workspace must be a contiguous"):
        plan.run(q=q, k=k, v=v, o=o, workspace=room[::2].as_subclass(kind))
