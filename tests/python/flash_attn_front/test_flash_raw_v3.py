"""FlashAttention-3's separate passes, and the operators of its extension."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
from flash_cases import Case, close, leaves  # noqa: E402

import regard.flash_attn  # noqa: E402
from regard.flash_attn.v3 import _flash_attn_backward, _flash_attn_forward, flash_attn_func  # noqa: E402


@pytest.fixture
def operators():
    regard.flash_attn.register()
    yield torch.ops.flash_attn_3
    regard.flash_attn.unregister()


def poisoned(*tensors):
    return [torch.full_like(tensor, float("nan")) for tensor in tensors]


@pytest.mark.parametrize(
    "case",
    [
        Case(113, 128, 96, causal=True, softcap=15.0, hk=1),
        Case(40, 60, 59, window=(20, 7), dtype=torch.bfloat16),
        Case(1, 7, 40),
    ],
)
def test_both_passes(case):
    *inputs, grad_o = tensors = case.numbers()
    scores = (case.causal, *case.window, case.softcap)
    out_ = torch.full((case.b, case.hq, case.sq, case.d), float("nan"), dtype=case.dtype).transpose(1, 2)
    options = {"window_size_left": case.window[0], "window_size_right": case.window[1], "softcap": case.softcap}
    out, lse, *parts = _flash_attn_forward(*leaves(*inputs), out_=out_, causal=case.causal, **options)
    assert out is out_ and not out.requires_grad and all(part.numel() == 0 for part in parts)
    gradients = dq, dk, dv = poisoned(*inputs)
    words = {"dq": dq, "dk": dk, "dv": dv, "is_causal": scores[0], **options}
    returned = _flash_attn_backward(grad_o, *inputs, out, lse, **words)
    assert all(got is given for got, given in zip(returned, gradients))
    assert [gradient._version for gradient in gradients] == [1, 1, 1]  # autograd knows
    expected = close([out, *gradients], tensors, case.options())
    torch.testing.assert_close(lse, expected.float(), rtol=1e-4, atol=1e-4)


def test_packed_sequences_that_are_used_in_part(operators):
    tensors = Case(40, 60, 64, b=1).numbers()
    q, k, v, grad_o = (tensor[0] for tensor in tensors)
    starts = [torch.tensor([0, 0, longest], dtype=torch.int32) for longest in (40, 60)]  # the first is empty
    used = [torch.tensor([0, count], dtype=torch.int32) for count in (33, 50)]
    out, lse, *_ = operators.fwd(
        q, k, v, None, None, None, None, *starts, None, *used, max_seqlen_q=40, max_seqlen_k=60, is_causal=True
    )
    gradients = poisoned(q, k, v)
    operators.bwd(grad_o, q, k, v, out, lse, *gradients, *starts, *used, 40, 60, None, True)
    made = _flash_attn_backward(grad_o, q, k, v, out, lse, *starts, *used, 40, 60, None, None, None, None, True)
    for given, own, rows in zip(gradients, made, (33, 50, 50)):
        assert given[rows:].isnan().all() and not own[rows:].any() and torch.equal(given[:rows], own[:rows])
    assert not out[33:].any()
    case = Case(33, 50, 64, b=1, causal=True)
    parts = [tensor[:, :rows] for tensor, rows in zip(tensors, (33, 50, 50, 33))]
    close([tensor[None, :rows] for tensor, rows in zip((out, *gradients), (33, 33, 50, 50))], parts, case.options())


def test_operators_are_the_functions(operators):
    q, k, v, grad_o = Case(12, 12, 16, hk=4).numbers()
    given = torch.empty_like(q)
    out, lse, *_ = operators.fwd(q, k, v, out=given, is_causal=True, num_splits=3, pack_gqa=True, sm_margin=2)
    expected = flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    assert out.data_ptr() == given.data_ptr() and all(map(torch.equal, (out, lse), expected))
    gradients = operators.bwd(grad_o, q, k, v, out, lse, is_causal=True, deterministic=True)
    assert len(gradients) == 8 and not any(part.numel() for part in gradients[3:])
    expected = _flash_attn_backward(grad_o, q, k, v, out, lse, is_causal=True, deterministic=True)
    assert all(map(torch.equal, gradients, expected))
    chunked = operators.fwd(q, k, v, attention_chunk=5)[0]
    assert torch.equal(chunked, flash_attn_func(q, k, v, attention_chunk=5))


Q = torch.zeros(2, 4, 2, 8)
STARTS = torch.tensor([0, 4, 8], dtype=torch.int32)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda to: to.fwd(Q, Q, Q, cu_seqlens_k=STARTS), NotImplementedError, "cu_seqlens_k must be given together"),
        (lambda to: to.fwd(Q[0], Q, Q, cu_seqlens_q=STARTS), ValueError, "packed queries need max_seqlen_q"),
        (
            lambda to: to.fwd(Q[0], Q[0], Q[0], cu_seqlens_q=STARTS, cu_seqlens_k=STARTS),
            ValueError,
            "need max_seqlen_q and max_seqlen_k as well as",
        ),
        (lambda to: to.fwd(Q, Q, Q, out=Q[0]), ValueError, "'o' has rank 3"),
        (lambda to: to.bwd(Q, Q, Q, Q, Q, Q[0]), ValueError, "lse"),
    ],
)
def test_what_is_wrong_is_said(operators, call, kind, sentence):
    with pytest.raises(kind, match=sentence) as error:
        call(operators)
    assert "\n" not in str(error.value)


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_operators_come_and_go():
    out = run("""
import torch, regard.flash_attn
operators, q = torch.ops.flash_attn_3, torch.ones(1, 2, 2, 8)
assert not hasattr(operators, "fwd")
regard.flash_attn.register()
import flash_attn_3._C, flash_attn_interface
assert flash_attn_interface.flash_attn_3_gpu is operators
kept = operators.fwd
assert kept(q, q, q)[0].equal(q)
regard.flash_attn.unregister()
for gone in kept, kept.default, operators.fwd:
    try:
        gone(q, q, q)
    except NotImplementedError as error:
        print(str(error).partition(".")[0])
regard.flash_attn.register()
regard.flash_attn.register("ck")
assert kept(q, q, q)[0].equal(q)
""")
    assert out.splitlines() == ["Could not run 'flash_attn_3::fwd' with arguments from the 'CPU' backend"] * 3


def test_operators_of_an_extension_that_is_loaded_are_not_replaced():
    out = run("""
import torch, regard.flash_attn
theirs = torch.library.Library("flash_attn_3", "DEF")
theirs.define("fwd(Tensor q) -> Tensor")
try:
    regard.flash_attn.register()
except ImportError as error:
    print(error)
import importlib.util
assert importlib.util.find_spec("flash_attn_3") is None
""")
    assert (
        out.startswith("an extension has already defined the operators torch.ops.flash_attn_3") and out.count("\n") == 1
    )
