"""FlashAttention-4's functions against the fp64 reference and against those of flash_attn 2."""

import numpy
import pytest

torch = pytest.importorskip("torch")
from flash_cases import Case, across, leaves  # noqa: E402

import reference  # noqa: E402
import regard.flash_attn as two  # noqa: E402
from regard.flash_attn import v3 as three  # noqa: E402
from regard.flash_attn.cute import interface as four  # noqa: E402

pytestmark = pytest.mark.no_compiler

CASE = Case(sq=33, sk=47, d=16, dtype=torch.float32)


def close(got, expected):
    torch.testing.assert_close(got.detach().double(), expected, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize("window", [(None, None), (5, 3), (None, 2), (7, None), (-1, -1)])
@pytest.mark.parametrize("causal", [False, True])
def test_windows(causal, window):
    q, k, v, _ = CASE.numbers()
    left, right = (-1 if side is None else side for side in window)
    out, lse = four.flash_attn_func(q, k, v, causal=causal, window_size=window)
    assert lse is None
    expected = two.flash_attn_func(q, k, v, causal=causal, window_size=(left, right))
    assert torch.equal(out, expected)


def test_sinks_have_a_gradient_and_are_in_lse():
    q, k, v, grad_o = CASE.numbers()
    q, k, v, sink = leaves(q, k, v, torch.randn(CASE.hq))
    out, lse = four.flash_attn_func(q, k, v, learnable_sink=sink, softcap=2.0, causal=True, return_lse=True)
    out.backward(grad_o)
    options = reference.Options(
        reference.visible(CASE.b, CASE.hq, CASE.sq, CASE.sk, causal=True),
        softcap=2.0,
        sink=sink.detach().double().numpy(),
    )
    tensors = [across(tensor) for tensor in (q, k, v)]
    o, expected_lse = reference.attention(*tensors, options)
    *grads, _, of_sink = reference.gradients(across(grad_o), *tensors, options)
    close(lse, torch.from_numpy(expected_lse))
    for got, expected in zip((out, q.grad, k.grad, v.grad), (o, *grads)):
        close(got, torch.from_numpy(numpy.ascontiguousarray(expected.swapaxes(1, 2))))
    close(sink.grad, torch.from_numpy(of_sink))


def test_packed_and_padded_sequences_are_those_of_flash_attention_3():
    q, k, v, _ = CASE.numbers()
    used = {
        "seqused_q": torch.tensor([33, 5], dtype=torch.int32),
        "seqused_k": torch.tensor([20, 47], dtype=torch.int32),
    }
    starts_q, starts_k = (torch.tensor([0, s, 2 * s], dtype=torch.int32) for s in (33, 47))
    rows = [tensor.flatten(0, 1) for tensor in (q, k, v)]
    expected, lse = three.flash_attn_varlen_func(
        *rows, starts_q, starts_k, 33, 47, **used, causal=True, return_attn_probs=True
    )
    for longest in ({}, {"max_seqlen_q": 33, "max_seqlen_k": 47}):
        out, found = four.flash_attn_varlen_func(
            *rows, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k, **longest, **used, causal=True, return_lse=True
        )
        torch.testing.assert_close(out, expected)
        torch.testing.assert_close(found[:, :38], lse[:, :38])
    out, _ = four.flash_attn_varlen_func(q, k, v, **used, causal=True)
    torch.testing.assert_close(out.flatten(0, 1), expected)


def test_heads_of_lse_are_last_where_scores_have_a_second_part():
    q, k, v, qv = CASE.numbers()
    out, lse = four.flash_attn_func(q, k, v, qv, return_lse=True)
    expected, expected_lse = three.flash_attn_func(q, k, v, qv=qv, return_attn_probs=True)
    assert torch.equal(out, expected) and torch.equal(lse, expected_lse.transpose(1, 2))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"window_size": (-1, 0)}, r"window_size is \(-1, 0\); it must be a pair"),
        ({"window_size": (4, -2)}, "whole numbers from 0, or None for an unbounded side"),
        ({"window_size": 3}, "window_size is 3"),
        ({"window_size": (1.5, None)}, r"window_size is \(1.5, None\)"),
        ({"softcap": -1.0}, "softcap is -1.0"),
    ],
)
def test_what_is_wrong_is_said(arguments, sentence):
    q, k, v, _ = CASE.numbers()
    with pytest.raises(ValueError, match=sentence):
        four.flash_attn_func(q, k, v, **arguments)


def test_lse_has_a_gradient():
    q, k, v = leaves(*CASE.numbers()[:3])
    _, lse = four.flash_attn_func(q, k, v, return_lse=True)
    lse.sum().backward()
    keys = k.detach().repeat_interleave(q.shape[2] // k.shape[2], 2).transpose(1, 2)
    scale = q.shape[3] ** -0.5
    weights = (q.detach().transpose(1, 2).float() @ keys.float().transpose(2, 3) * scale).softmax(3)
    torch.testing.assert_close(q.grad.float(), (weights @ keys.float() * scale).transpose(1, 2), rtol=2e-2, atol=2e-2)
    assert not v.grad.any()


def test_latent_attention_leaves_nothing_out():
    q, kv = torch.randn(1, 3, 2, 512), torch.randn(1, 5, 1, 512)
    out, lse = four.flash_attn_func(q, kv, kv, return_lse=True)
    assert lse.shape == (1, 3, 2) and torch.equal(out, two.flash_attn_func(q, kv, kv))
    with pytest.raises(NotImplementedError, match="ignores q or qv"):
        four.flash_attn_func(q, kv, kv, qv=q)
