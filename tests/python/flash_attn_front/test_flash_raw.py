"""Separate forward and backward passes, as ring attention calls them."""

import inspect

import pytest

torch = pytest.importorskip("torch")
from flash_cases import Case, close, kept_of, leaves  # noqa: E402

from regard.flash_attn import flash_attn_interface as interface  # noqa: E402
from regard.flash_attn.flash_attn_interface import (  # noqa: E402
    _flash_attn_backward,
    _flash_attn_forward,
    _flash_attn_varlen_backward,
    _flash_attn_varlen_forward,
    flash_attn_gpu,
)


@pytest.mark.parametrize("dropout", [0.0, 0.17])
def test_both_passes(dropout):
    case = Case(40, 60, 59, causal=True)
    q, k, v, grad_o = tensors = case.numbers()
    scores = (dropout, case.d**-0.5, True, -1, -1, 0.0, None)
    out, lse, s, state = _flash_attn_forward(q, k, v, *scores, dropout > 0)
    assert state.shape == (2,) and state.dtype == torch.int64
    packed = torch.full((2, 60, 2, 2, 59), float("nan"), dtype=q.dtype)
    grads = torch.full_like(q, float("nan")), packed[:, :, 0], packed[:, :, 1]  # written in place, rows in between
    assert _flash_attn_backward(grad_o, q, k, v, out, lse, *grads, *scores, False, rng_state=state) is None
    assert [grad._version for grad in grads] == [1, 2, 2]  # autograd knows; the last two share their memory
    options = case.options(kept_of(s, case) if dropout else None, dropout)
    close([out, *grads], tensors, options)


def test_both_passes_of_packed_sequences():
    case = Case(40, 60, 64, b=1)
    q, k, v, grad_o = (tensor[0] for tensor in case.numbers())
    starts = torch.tensor([0, 40], dtype=torch.int32), torch.tensor([0, 60], dtype=torch.int32)
    scores = (0.0, case.d**-0.5, False, -1, -1, 0.0, None)
    out, lse, s, state = _flash_attn_varlen_forward(q, k, v, *starts, 40, 60, *scores)
    grads = [torch.empty_like(tensor) for tensor in (q, k, v)]
    _flash_attn_varlen_backward(grad_o, q, k, v, out, lse, *grads, *starts, 40, 60, *scores, False)
    close([result[None] for result in (out, *grads)], case.numbers(), case.options())
    used = torch.tensor([33], dtype=torch.int32)
    part = _flash_attn_varlen_forward(q, k, v, *starts, 40, 60, *scores, seqused_k=used)[0]
    assert torch.equal(part, _flash_attn_forward(q[None], k[None, :33], v[None, :33], *scores, False)[0][0])


def test_rows_that_saw_nothing_go_back():
    q, k = torch.randn(1, 5, 2, 16), torch.randn(1, 2, 2, 16)
    scores = (0.0, 0.25, True, -1, -1, 0.0, None)
    out, lse, *_ = _flash_attn_forward(q, k, k, *scores, False)
    assert lse[..., :3].isposinf().all()
    grads = [torch.empty_like(tensor) for tensor in (q, k, k)]
    _flash_attn_backward(torch.randn_like(q), q, k, k, out, lse, *grads, *scores, False)
    assert not grads[0][:, :3].any() and all(grad.isfinite().all() for grad in grads)


def test_nothing_is_recorded():
    q, k, v = leaves(*Case(8, 8, 16).numbers()[:3])
    out, lse, *_ = _flash_attn_forward(q, k, v, 0.0, 0.25, False, -1, -1, 0.0, None, False)
    assert not out.requires_grad and not lse.requires_grad


def test_parts_of_keys_merge_by_their_lse():
    case = Case(40, 60, 64, dtype=torch.float32)
    q, k, v, _ = case.numbers()
    scores = (0.0, 0.125, False, -1, -1, 0.0, None, False)
    whole = _flash_attn_forward(q, k, v, *scores)
    parts = [_flash_attn_forward(q, k[:, cut], v[:, cut], *scores) for cut in (slice(0, 23), slice(23, 60))]
    lse = torch.stack([part[1] for part in parts])
    weights = (lse - torch.logsumexp(lse, 0)).exp().transpose(2, 3)[..., None]
    torch.testing.assert_close(sum(w * part[0] for w, part in zip(weights, parts)), whole[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["_flash_attn_forward", "_flash_attn_varlen_backward"])
def test_arguments_can_be_asked_for(name):
    names = inspect.getfullargspec(getattr(interface, name)).args
    assert {"dropout_p", "softmax_scale", "window_size_left", "softcap", "alibi_slopes"} <= set(names)


def test_the_extension():
    q, k, v, grad_o = Case(12, 12, 16, hk=4).numbers()
    scores = (0.0, 0.25, True, -1, -1, 0.0)
    out, lse, _, state = flash_attn_gpu.fwd(q, k, v, None, None, *scores, False, None)
    into = torch.empty_like(q)
    assert flash_attn_gpu.fwd(q, k, v, into, None, *scores, False, None)[0] is into and torch.equal(into, out)
    grads = flash_attn_gpu.bwd(grad_o, q, k, v, out, lse, None, None, None, None, *scores, False, None, state)
    expected = [torch.empty_like(q) for _ in range(3)]
    _flash_attn_backward(grad_o, q, k, v, out, lse, *expected, *scores, None, False)
    assert all(map(torch.equal, grads, expected))
    with pytest.raises(RuntimeError, match="`generator` argument is no longer supported"):
        flash_attn_gpu.fwd(q, k, v, None, None, *scores, False, torch.Generator())


def test_memory_that_is_given_to_the_extension_is_checked_and_zeroed_where_asked_for():
    q, k, v, grad_o = Case(12, 12, 16, hk=4).numbers()
    scores = (0.0, 0.25, False, -1, -1, 0.0)
    for out in (torch.empty_like(q).float(), torch.empty(3, 12, 4, 16, dtype=q.dtype)):
        with pytest.raises(ValueError, match="'o'"):
            flash_attn_gpu.fwd(q, k, v, out, None, *scores, False, None)
    starts = torch.tensor([0, 12], dtype=torch.int32)  # the first of two sequences
    rows = [tensor.flatten(0, 1) for tensor in (q, k, v)]
    for zero_tensors, beyond in ((False, 7), (True, 0)):
        out, *gradients = (torch.full_like(rows[0], 7) for _ in range(4))
        packed = (None, 12, 12, 0.0, 0.25, zero_tensors, *scores[2:])  # from alibi_slopes on
        no_cache = (None, None, None)
        out, lse, *_ = flash_attn_gpu.varlen_fwd(*rows, out, starts, starts, *no_cache, *packed, False)
        grad_rows = grad_o.flatten(0, 1)
        flash_attn_gpu.varlen_bwd(grad_rows, *rows, out, lse, *gradients, starts, starts, *packed, False, None)
        assert all((tensor[12:] == beyond).all() for tensor in (out, *gradients))
