"""regard.torch on a GPU: features and their gradients, compiled calls, CUDA graphs, streams, generators."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
import torch.utils.checkpoint  # noqa: E402

import regard.torch  # noqa: E402
from here import Crowd  # noqa: E402
from planned import captured  # noqa: E402
from regard.torch.taking import refusal  # noqa: E402

attention = regard.torch.attention
B, HQ, HK, SQ, SK, D = 2, 4, 2, 100, 130, 64


def numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def inputs(dtype=torch.bfloat16, d=D, device="cuda"):
    sizes = (B, SQ, HQ, d), (B, SK, HK, d), (B, SK, HK, d)
    return [numbers(i, *size).to(dtype).to(device) for i, size in enumerate(sizes)]


def whole(*values):
    return torch.tensor(values, dtype=torch.int32)


FEATURES = {
    "plain": {},
    "causal": {"causal": True, "lse": True},
    "window": {"window": (20, 5)},
    "softcap": {"softcap": 3.0},
    "bias": {"bias": numbers(5, 1, HQ, SQ, SK)},
    "bias of float32": {"bias": 64 + numbers(5, 1, HQ, SQ, SK), "causal": True},
    "alibi": {"alibi": numbers(6, HQ).abs()},
    "sink": {"sink": numbers(7, HQ)},
    "bits": {"bits": regard.pack_bits(numbers(8, B, 1, SQ, SK) > 0)},
    "lengths": {"lengths_k": whole(SK, 41)},
    "dropout": {"dropout": 0.2, "seed": torch.tensor([3, 4])},
}


def on_gpu(option):
    return option.cuda() if isinstance(option, torch.Tensor) else option


def close(one, other):
    one, other = ((x if isinstance(x, tuple) else (x,)) for x in (one, other))
    for a, b in zip(one, other):
        torch.testing.assert_close(a.cpu().float(), b.cpu().float(), rtol=2e-2, atol=2e-2)


def leaves(inputs):
    return [x.detach().clone().requires_grad_() for x in inputs]


def gradients(inputs, options, grad_o):
    """The gradients of q, k and v, and of a bias and a sink."""
    learned = {name: x.detach().clone().requires_grad_() for name, x in options.items() if name in ("bias", "sink")}
    given = leaves(inputs)
    o = attention(*given, **{**options, **learned})
    return torch.autograd.grad(o[0] if isinstance(o, tuple) else o, (*given, *learned.values()), grad_o)


def close_gradients(got, expected):
    """Asserts that gradients, sums of many products, are close relative to the largest element of each."""
    for a, b in zip(got, expected, strict=True):
        assert (a.cpu().float() - b.cpu().float()).abs().max() <= 0.02 * b.float().abs().max()


def problem_of(feature, dtype, d):
    """Inputs, options and dO on the host."""
    options = {name: x.to(dtype) if feature == "bias" else x for name, x in FEATURES[feature].items()}
    return inputs(dtype, d, "cpu"), options, numbers(10, B, SQ, HQ, d).to(dtype)


def of_cpu(feature, dtype, d):
    """Results and gradients from the CPU, whose kernels are compiled."""
    given, options, grad_o = problem_of(feature, dtype, d)
    return attention(*given, **options), gradients(given, options, grad_o)


crowd = Crowd(of_cpu)


@pytest.mark.parametrize("d", [40, 64, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("feature", FEATURES)
def test_results_are_those_of_the_cpu(feature, dtype, d):
    given, options, _ = problem_of(feature, dtype, d)
    got = attention(*map(on_gpu, given), **{name: on_gpu(x) for name, x in options.items()})
    expected, _ = crowd.result(feature, dtype, d)
    close(got, expected)


@pytest.mark.parametrize("d", [40, 64, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("feature", FEATURES)
def test_gradients_are_those_of_the_cpu(feature, dtype, d):
    given, options, grad_o = problem_of(feature, dtype, d)
    given, of_gpu = [x.cuda() for x in given], {name: on_gpu(x) for name, x in options.items()}
    _, expected = crowd.result(feature, dtype, d)
    close_gradients(gradients(given, of_gpu, grad_o.cuda()), expected)
    again = [gradients(given, {**of_gpu, "deterministic": True}, grad_o.cuda()) for _ in range(2)]
    close_gradients(again[0], expected)
    assert all(map(torch.equal, *again))


def test_packed_sequences():
    offsets = whole(0, 30, 30, SQ).cuda()
    q = inputs()[0][0]
    got = regard.torch.attention_varlen(q, q, q, offsets, offsets, 70, 70, causal=True)
    close(got, regard.torch.attention_varlen(*[x.cpu() for x in (q, q, q, offsets, offsets)], 70, 70, causal=True))


def test_gradients_of_packed_sequences():
    offsets, x, grad_o = whole(0, 30, 30, SQ), inputs()[0][0], numbers(10, SQ, HQ, D).to(torch.bfloat16)

    def of(device):
        given = leaves([x.to(device)] * 3)
        at = offsets.to(device)
        o = regard.torch.attention_varlen(*given, at, at, 70, 70, causal=True)
        return torch.autograd.grad(o, given, grad_o.to(device))

    close_gradients(of("cuda"), of("cpu"))


@pytest.mark.parametrize("mask", [None, torch.bool, torch.bfloat16])
def test_sdpa(mask):
    q, k, v = (x.transpose(1, 2) for x in inputs())
    options = {} if mask is None else {"attn_mask": (numbers(9, B, 1, SQ, SK) > 0).cuda()}
    if mask == torch.bfloat16:
        options["attn_mask"] = numbers(9, SQ, SK).to(mask).cuda()
    theirs = torch.nn.functional.scaled_dot_product_attention
    close(regard.torch.sdpa(q, k, v, enable_gqa=True, **options), theirs(q, k, v, enable_gqa=True, **options))


def test_compiled_calls():
    def call(q, k, v):
        return attention(q * 2, k, v, causal=True) + 1

    close(torch.compile(call, fullgraph=True)(*inputs()), call(*inputs()))
    given = leaves(inputs())
    results = [torch.autograd.grad(step(*given).square().sum(), given) for step in (torch.compile(call), call)]
    close_gradients(*results)


def test_gradients_that_there_are_not_are_refused_in_a_sentence():
    q, k, v = inputs()
    _, lse = attention(q.requires_grad_(), k, v, lse=True)
    with pytest.raises(NotImplementedError) as caught:
        lse.sum().backward()
    assert "\n" not in str(caught.value) and "lse has no gradient" in str(caught.value)


def test_replacing_has_the_gradients_of_what_it_replaces():
    q, k, v = (x.transpose(1, 2).requires_grad_() for x in inputs())
    theirs = torch.nn.functional.scaled_dot_product_attention
    assert refusal(q, k, v, None, 0.0) is None
    with regard.torch.replace_sdpa():
        torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True).sum().backward()
    expected = torch.autograd.grad(theirs(q, k, v, enable_gqa=True).sum(), (q, k, v))
    close_gradients((q.grad, k.grad, v.grad), expected)


def test_a_cuda_graph_replays_with_new_inputs_and_new_masks():
    q, k, v = inputs()
    for options in ({}, {"dropout": 0.3}):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            attention(q, k, v, **options)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o = attention(q, k, v, **options)
        graph.replay()
        first = o.clone()
        graph.replay()
        assert torch.equal(first, o) != bool(options)
        q.mul_(2)
        graph.replay()
        if not options:
            close(o, attention(q, k, v))


def test_a_cuda_graph_of_a_step_replays_with_new_inputs():
    """Forward and backward, whose workspace PyTorch's allocator keeps for the graph."""
    given, grad_o = leaves(inputs()), numbers(10, B, SQ, HQ, D).to(torch.bfloat16).cuda()

    def step():
        return torch.autograd.grad(attention(*given, causal=True, deterministic=True), given, grad_o)

    replay, results = captured(step)
    for factor in (1, 2):
        with torch.no_grad():
            given[0].mul_(factor)
        expected = step()
        for _ in range(3):
            replay()
            assert all(map(torch.equal, results, expected))


def test_calls_run_in_the_current_stream():
    q, k, v = inputs()
    expected = attention(q, k, v)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late = q * 1
        o = attention(late, k, v)
        done = stream.record_event()
    assert not done.query()  # the host has not waited
    stream.synchronize()
    assert torch.equal(o, expected)


def test_generators():
    q, k, v = inputs()
    generator = torch.Generator("cuda").manual_seed(5)
    first = attention(q, k, v, dropout=0.4, generator=generator)
    assert not torch.equal(first, attention(q, k, v, dropout=0.4, generator=generator))
    assert torch.equal(first, attention(q, k, v, dropout=0.4, generator=generator.manual_seed(5)))
    torch.manual_seed(6)
    first = attention(q, k, v, dropout=0.4)
    torch.manual_seed(6)
    assert torch.equal(first, attention(q, k, v, dropout=0.4))
    with pytest.raises(ValueError, match="generator is for cpu"):
        attention(q, k, v, dropout=0.4, generator=torch.Generator())


def test_devices_are_not_mixed():
    q, k, v = inputs()
    with pytest.raises(ValueError, match="k is in host memory"):
        attention(q, k.cpu(), v)
    with pytest.raises(ValueError, match="k is not in host memory"):
        attention(q.cpu(), k, v.cpu())


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_what_forward_replaced_its_recompute_replaces_in_a_thread_of_autograd(use_reentrant, dropout):
    """As O is linear in V, <O, W> = <V, dV>."""
    q, v = (numbers(i, B, HQ, SQ, D).cuda().requires_grad_() for i in range(2))
    w = numbers(2, B, HQ, SQ, D).cuda()

    def call(q, v):
        return torch.nn.functional.scaled_dot_product_attention(q, q, v, dropout_p=dropout)

    with regard.torch.replace_sdpa(strict=True) as block:
        loss = (torch.utils.checkpoint.checkpoint(call, q, v, use_reentrant=use_reentrant) * w).sum()
        loss.backward()
    assert not block.handed_back  # a recompute stops once it has what backward needs, so it may not be counted
    torch.testing.assert_close((v * v.grad).sum(), loss, rtol=1e-3, atol=1e-2)
