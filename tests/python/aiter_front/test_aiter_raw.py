"""AITER's operators of one pass each, against its differentiable functions."""

import subprocess
import sys

import places
import pytest

torch = pytest.importorskip("torch")
import regard.aiter as aiter  # noqa: E402
from regard.aiter.ops import mha  # noqa: E402

pytestmark = pytest.mark.no_compiler


def leaf(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


Q, K, V = [leaf(seed, 2, s, h, 16) for seed, s, h in ((1, 9, 4), (2, 12, 2), (3, 12, 2))]
GRAD_O = leaf(4, 2, 9, 4, 16).detach()
BIAS, SINK = leaf(5, 9, 12), leaf(6, 4)
STARTS_Q, STARTS_K = (torch.tensor([0, s, 2 * s], dtype=torch.int32) for s in (9, 12))
LENGTHS = STARTS_Q, STARTS_K, 9, 12


def gradients(out, *inputs):
    return torch.autograd.grad(out, inputs, GRAD_O.view(out.shape))


def packed():
    return [tensor.flatten(0, 1) for tensor in (Q, K, V)]


def equal(found, expected):
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other)


def test_dense_passes():
    expected, expected_lse = aiter.flash_attn_func(Q, K, V, causal=True, bias=BIAS, sink_ptr=SINK, return_lse=True)
    dq, dk, dv, dbias, d_sink = of_expected = gradients(expected, Q, K, V, BIAS, SINK)
    out, lse, s_dmask, _ = aiter.mha_fwd(
        Q, K, V, 0.0, 0.25, True, -1, -1, 0, True, False, bias=BIAS, sink_ptr=SINK, out=torch.empty_like(Q)
    )
    equal((out, lse), (expected, expected_lse))
    assert not out.requires_grad and s_dmask.numel() == 0
    memory = [torch.full_like(gradient, torch.nan) for gradient in of_expected[:4]] + [torch.zeros(4)]
    bias, sink = BIAS.detach(), SINK.detach()
    scores = (0.0, 0.25, True, -1, -1, True)
    results = aiter.mha_bwd(
        GRAD_O, Q, K, V, out, lse, *scores, *memory[:4], bias, sink=sink.expand(2, 4), d_sink=memory[4]
    )
    equal(memory, of_expected)
    assert all(one is other for one, other in zip(results[:3], memory)) and results[3].numel() == 0
    equal(aiter.mha_bwd(GRAD_O, Q, K, V, out, lse, *scores, bias=bias)[:3], (dq, dk, dv))
    names = {"rng_state": None, "sink": sink, "d_sink": torch.zeros(4)}
    memory = [torch.empty_like(tensor) for tensor in (Q, K, V, BIAS)]
    mha._flash_attn_backward(GRAD_O, Q, K, V, out, lse, *memory, 0.0, 0.25, True, -1, -1, bias, None, True, **names)
    equal((*memory, names["d_sink"]), of_expected)


def test_packed_passes():
    expected, expected_lse = aiter.flash_attn_varlen_func(
        *packed(), *LENGTHS, causal=True, window_size=(4, 0, 1), sink_ptr=SINK, return_lse=True
    )
    out, lse, *_ = aiter.mha_varlen_fwd(
        *packed(), *LENGTHS, 0, 0.0, 0.25, 0.0, False, True, 4, 0, 1, True, False, sink_ptr=SINK
    )
    equal((out, lse), (expected, expected_lse))
    again = mha._flash_attn_varlen_forward(
        *packed(),
        STARTS_Q,
        STARTS_K,
        None,
        None,
        9,
        12,
        0,
        0.0,
        0.25,
        True,
        0.0,
        4,
        0,
        1,
        sink_ptr=SINK,
        return_lse=True,
    )
    equal(again[:2], (expected, expected_lse))
    # AITER's backward takes no sink tokens: the reference is a window without them.
    expected, lse = aiter.flash_attn_varlen_func(*packed(), *LENGTHS, window_size=(4, 2), return_lse=True)
    of_expected = [gradient.flatten(0, 1) for gradient in gradients(expected, Q, K, V)]
    inputs = (GRAD_O.flatten(0, 1), *packed(), expected.detach(), lse, *LENGTHS)
    equal(aiter.mha_varlen_bwd(*inputs, 0.0, 0.25, False, False, 4, 2, True)[:3], of_expected)
    equal(aiter.fmha_v3_varlen_bwd(*inputs, 0.0, 0.25, False, False, 4, 2, True, True, 1)[:3], of_expected)
    memory = [torch.empty_like(gradient) for gradient in of_expected]
    mha._flash_attn_varlen_backward(*inputs[:6], *memory, *LENGTHS, 0.0, 0.25, False, 4, 2, None, True)
    equal(memory, of_expected)


def test_dropout_is_that_of_the_state():
    out, lse, s_dmask, state = mha._flash_attn_forward(
        Q, K, V, 0.5, 0.25, False, -1, -1, 0, None, None, None, None, None, True, True
    )
    assert s_dmask.dtype == torch.uint8 and 0 < (s_dmask == 0).float().mean() < 1
    first, second = (
        aiter.mha_fwd(Q, K, V, 0.5, 0.25, False, -1, -1, 0, False, False, gen=torch.Generator().manual_seed(3))[0]
        for _ in range(2)
    )
    assert torch.equal(first, second) and not torch.equal(first, out)
    dq, dk, dv, _ = aiter.fmha_v3_bwd(
        GRAD_O, Q, K, V, out, lse, 0.5, 0.25, False, -1, -1, True, True, 1, rng_state=state
    )
    # The gradient of V is a product with the same weights: <dv, v> is <grad_o, out>.
    torch.testing.assert_close((dv * V).sum(), (GRAD_O * out).sum(), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="dropout_p is not 0: give the rng_state"):
        aiter.mha_bwd(GRAD_O, Q, K, V, out, lse, 0.5, 0.25, False, -1, -1, True)
    with pytest.raises(ValueError, match="return_dropout_randval needs dropout_p above 0"):
        aiter.mha_fwd(Q, K, V, 0.0, 0.25, False, -1, -1, 0, False, True)


def test_memory_that_is_given_is_zeroed_where_asked_for():
    starts = torch.tensor([0, 9], dtype=torch.int32), torch.tensor([0, 12], dtype=torch.int32)
    for zero_tensors in (False, True):
        memory = [torch.full_like(tensor, 7.0) for tensor in packed()]
        out, lse, *_ = aiter.mha_varlen_fwd(
            *packed(), *starts, 9, 12, 0, 0.0, 0.25, 0.0, zero_tensors, False, -1, -1, 0, True, False, memory[0]
        )
        beyond = 0.0 if zero_tensors else 7.0
        assert (out[9:] == beyond).all() and (out[:9] != 7).all()
        memory[0] = torch.full_like(out, 7.0)
        grad_o = GRAD_O.flatten(0, 1)
        aiter.mha_varlen_bwd(
            grad_o, *packed(), out, lse, *starts, 9, 12, 0.0, 0.25, zero_tensors, False, -1, -1, True, *memory
        )
        assert all((tensor[rows:] == beyond).all() for tensor, rows in zip(memory, (9, 12, 12)))


def test_each_sequence_has_its_own_sinks():
    """Dense and packed, with padding in between: as if each sequence were a separate batch."""
    sinks = leaf(7, 2, 4)
    lengths_q, lengths_k = (8, 5), (12, 7)
    expected, results = [], []
    for b, (sq, sk) in enumerate(zip(lengths_q, lengths_k)):
        q, k, v = Q[b : b + 1, :sq], K[b : b + 1, :sk], V[b : b + 1, :sk]
        out, lse = aiter.flash_attn_func(q, k, v, sink_ptr=sinks[b], return_lse=True)
        results.append((out, lse))
        expected.append(torch.autograd.grad(out, sinks, GRAD_O[b : b + 1, :sq], retain_graph=True)[0].sum(0))
    out, lse = torch.full((18, 4, 16), torch.nan), torch.full((4, 18), torch.nan)
    for b, (one, of_one) in enumerate(results):
        out[9 * b : 9 * b + one.shape[1]], lse[:, 9 * b : 9 * b + one.shape[1]] = one[0].detach(), of_one[0].detach()
    starts = [
        torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
        for lengths in (lengths_q, lengths_k)
    ]
    padded = {"cu_seqlens_q_padded": STARTS_Q, "cu_seqlens_k_padded": STARTS_K}
    d_sink = torch.ones(4)
    inputs = (GRAD_O.flatten(0, 1), *packed(), out, lse, *starts, 9, 12)
    aiter.mha_varlen_bwd(*inputs, 0.0, 0.25, False, False, -1, -1, True, **padded, sink=sinks, d_sink=d_sink)
    equal([d_sink], [1 + expected[0] + expected[1]])
    out, lse = results[0]
    d_sink = torch.zeros(4)
    dense = (GRAD_O[:1, :8], Q[:1, :8], K[:1], V[:1], out, lse)
    aiter.mha_bwd(*dense, 0.0, 0.25, False, -1, -1, True, sink=sinks[:1], d_sink=d_sink)
    equal([d_sink], [expected[0]])
    with pytest.raises(ValueError, match=r"sink has shape \[2, 4\] .* must be \[1, 4\] or \[4\]"):
        aiter.mha_bwd(*dense, 0.0, 0.25, False, -1, -1, True, sink=sinks, d_sink=d_sink)


def test_functions_of_single_kernels():
    expected, lse = aiter.flash_attn_func(Q, K, V, softmax_scale=0.3, causal=True, return_lse=True)
    with_sink, lse_of_sink = aiter.flash_attn_func(
        Q, K, V, softmax_scale=0.3, causal=True, sink_ptr=SINK, return_lse=True
    )
    equal([aiter.fmha_fwd_bf16_opus_fwd(Q, K, V, 0.3, True)], [expected])
    equal(aiter.fmha_fwd_with_sink_asm(Q, K, V, 0.3, True, True), (expected, lse))
    equal(aiter.fmha_fwd_with_sink_asm(Q, K, V, 0.3, True, True, SINK), (with_sink, lse_of_sink))
    equal(aiter.mha_fwd_native_splitkv(Q, K, V, None, 0.3, True, True, 2), (expected, lse))
    out = torch.empty_like(packed()[0])
    found = aiter.fmha_fwd_bf16_opus_varlen_fwd(*packed(), 0.3, True, *LENGTHS, out)
    assert found is out
    equal([out], [expected.flatten(0, 1)])
    out, of_rows = aiter.fmha_fwd_with_sink_varlen_asm(*packed(), STARTS_Q, STARTS_K, 9, 0.3, True, True, SINK)
    equal((out, of_rows), (with_sink.flatten(0, 1), lse_of_sink.transpose(1, 2).flatten(0, 1)[..., None]))
    out = mha.fmha_v3_fwd(Q, K, V, 0.0, 0.3, True, -1, -1, False, False, 1)
    equal(out[:1], [expected])
    equal(
        mha.fmha_v3_varlen_fwd(*packed(), *LENGTHS, 0, 0.0, 0.3, 0.0, False, True, -1, -1, False, False, 1)[:1],
        [expected.flatten(0, 1)],
    )


def test_classes():
    dense = mha.FlashAttnFunc.apply(
        Q, K, V, 0.0, 0.3, True, (-1, -1), None, None, True, False, False, True, True, 1, None, None, SINK, 0
    )
    expected = aiter.flash_attn_func(Q, K, V, softmax_scale=0.3, causal=True, sink_ptr=SINK)
    equal(gradients(dense, Q, SINK), gradients(expected, Q, SINK))
    rows = mha.FlashAttnVarlenFunc.apply(
        *packed(), *LENGTHS, 0, 0.0, 0.3, 5.0, True, (4, 0), None, None, False, False, False, None, None, True
    )
    expected = aiter.flash_attn_varlen_func(
        *packed(), *LENGTHS, softmax_scale=0.3, logits_soft_cap=5.0, causal=True, window_size=(4, 0)
    )
    equal(gradients(rows, Q), gradients(expected, Q))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: aiter.fmha_fwd_mxfp8_asm(*[None] * 6), "one scale for each block of 32 numbers"),
    ],
)
def test_what_is_not_there_is_said(call, sentence):
    with pytest.raises(NotImplementedError, match=sentence):
        call()


AFTER_THE_PAGE = """
import importlib.metadata, sys
import aiter, aiter.mla
from aiter import flash_attn_func, mha_fwd
from aiter.ops.mha import _flash_attn_forward
assert aiter.__name__ == "aiter" and flash_attn_func is regard.aiter.flash_attn_func
assert aiter.__version__ == importlib.metadata.version("amd-aiter")
assert importlib.metadata.packages_distributions()["aiter"] == ["amd-aiter"]
try:
    import aiter.ops.rmsnorm
    raise AssertionError("there are no norms here")
except ModuleNotFoundError:
    pass
regard.aiter.unregister()
assert not [name for name in sys.modules if name.split(".")[0] == "aiter"]
try:
    import aiter
    raise AssertionError("the name is free again")
except ModuleNotFoundError:
    pass
sys.modules["aiter"] = sys
try:
    regard.aiter.register()
    raise AssertionError("it would not be replaced")
except ImportError as error:
    assert "aiter is already imported" in str(error) and "regard.aiter.register() before" in str(error)
"""


def test_the_code_of_the_page_runs_and_registers():
    page = (places.ROOT / "docs/aiter.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```python\n")[1:]]
    done = subprocess.run([sys.executable, "-c", "\n".join([*blocks, AFTER_THE_PAGE])], capture_output=True, text=True)
    assert done.returncode == 0 and len(blocks) == 3, done.stderr
