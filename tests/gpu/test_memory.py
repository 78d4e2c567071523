"""Tensors without memory, or on another device, never reach a kernel; with PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
from no_memory import cut, freed, freed_behind, labelled  # noqa: E402

import regard  # noqa: E402
from here import KIND, families_of  # noqa: E402

PROBLEMS = (
    "fwd bf16 lse b=2 hq=4 hk=2 sq=200 sk=300 d=64 mask=causal",
    "fwd bf16 lse b=2 h=2 s=200 d=64 bits ranges sink bias=b1 lengths dropout=0.2",
    "fwd bf16 lse varlen b=2 h=2 sq=200 sk=200 tq=300 tk=300 d=64",
    "bwd bf16 b=2 hq=4 hk=2 sq=200 sk=300 d=64 mask=causal",
    "bwd bf16 b=2 h=2 s=200 d=64 bits ranges sink bias=b1 dbias lengths dropout=0.2",
    "bwd bf16 varlen b=2 h=2 sq=200 sk=200 tq=300 tk=300 d=64",
)
TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "int32": torch.int32, "uint32": torch.int32}
TYPES |= {"uint8": torch.uint8, "uint64": torch.int64}


KINDS = {
    "freed": freed,
    "freed behind": freed_behind,
    "cut": cut,
    "freed subclass": labelled(freed),
    "cut subclass": labelled(cut),
    "meta": lambda x: x.to("meta"),
    "host": lambda x: x.cpu(),
}


def tensors(problem):
    given = {
        spec.name: torch.zeros(spec.shape, dtype=TYPES[spec.dtype], device="cuda") for spec in problem.tensors.values()
    }
    for name in ("offsets_q", "offsets_k"):
        if name in given:
            given[name] = torch.tensor([0, 100, 300], dtype=torch.int32, device="cuda")
    return given


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("words", "family"), [(words, family) for words in PROBLEMS for family in families_of(words)])
def test_every_tensor_is_refused_by_name(words, kind, family):
    problem = regard.Problem(words)
    try:
        plan = regard.plan(problem, target=KIND, family=family)
    except regard.RefusedError as refusal:
        pytest.skip(str(refusal)[-300:])
    given = tensors(problem)
    plan.run(**given)
    for name in problem.tensors:
        with pytest.raises(regard.InvalidError, match=rf"^(tensor ')?{name}\b"):
            plan.run(**{**given, name: KINDS[kind](given[name])})
    room = torch.zeros(max(plan.workspace_bytes, 1), dtype=torch.uint8, device="cuda")
    if plan.workspace_bytes > 0:
        with pytest.raises(regard.InvalidError, match="^workspace"):
            plan.run(**given, workspace=KINDS[kind](room))
    plan.run(**given)
    torch.cuda.synchronize()


def test_a_call_like_an_earlier_one_looks_again():
    q, k, v = torch.randn(3, 1, 90, 2, 64, device="cuda", dtype=torch.bfloat16).unbind(0)
    for _ in range(2):
        expected = regard.attention(q, k, v)
        with pytest.raises(regard.InvalidError, match="^k .*does not cover"):
            regard.attention(q, freed(k), v)
        with pytest.raises(regard.InvalidError, match="^o .*does not cover"):
            regard.attention(q, k, v, out=freed(q))
        with pytest.raises(regard.InvalidError, match="^k .*resolve_neg"):
            regard.attention(q, torch._neg_view(k), v)
        assert torch.equal(regard.attention(q, k, v), expected)
        with pytest.raises(regard.InvalidError, match="^o .*resolve_neg"):
            regard.attention(q, k, v, out=torch._neg_view(torch.empty_like(q)))


def test_a_bias_and_bits_are_broadcast():
    q, k, v = torch.randn(3, 2, 90, 4, 64, device="cuda", dtype=torch.bfloat16).unbind(0)
    bias = torch.randn(2, 1, 1, 90, device="cuda", dtype=torch.bfloat16)
    mask = torch.rand(2, 1, 1, 90, device="cuda") < 0.7
    bits = regard.pack_bits(mask)
    assert torch.equal(regard.attention(q, k, v, bias=bias), regard.attention(q, k, v, bias=bias.repeat(1, 4, 90, 1)))
    assert torch.equal(
        regard.attention(q, k, v, bits=bits), regard.attention(q, k, v, bits=bits.view(torch.int32).repeat(1, 4, 90, 1))
    )


def test_a_batch_of_nothing():
    q = torch.zeros(0, 5, 2, 64, device="cuda", dtype=torch.bfloat16)
    o, lse = regard.attention(q, q, q, lse=True)
    assert o.shape == q.shape and lse.shape == (0, 2, 5)
    sink, bias = torch.zeros(2, device="cuda"), torch.zeros(1, 2, 5, 5, device="cuda", dtype=torch.bfloat16)
    given = {"sink": sink, "bias": bias}
    given_outputs = {"grad_bias": torch.full_like(bias, float("nan")), "grad_sink": torch.full_like(sink, float("nan"))}
    *gradients, grad_bias, grad_sink = regard.attention_backward(q, q, q, q, o, lse, **given, **given_outputs)
    assert all(gradient.shape == q.shape for gradient in gradients)
    assert not grad_bias.any() and not grad_sink.any()


@pytest.mark.parametrize("sizes", [(0, 70), (70, 0), (0, 0)])
def test_gradients_of_no_rows_and_of_no_keys_are_zero(sizes):
    sq, sk = sizes
    q, k = (torch.randn(2, s, 4, 64, device="cuda", dtype=torch.bfloat16) for s in (sq, sk))
    sink = torch.zeros(4, device="cuda")
    o, lse = regard.attention(q, k, k, sink=sink, lse=True)
    written = [torch.full_like(x, float("nan")) for x in (q, k, k, sink)]
    names = ("grad_q", "grad_k", "grad_v", "grad_sink")
    regard.attention_backward(o, q, k, k, o, lse, sink=sink, **dict(zip(names, written)))
    assert not any(gradient.any() for gradient in written)
