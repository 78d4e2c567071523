"""FlashAttention-3's interface."""

import math

import pytest

torch = pytest.importorskip("torch")
from flash_cases import Case, across, close, leaves  # noqa: E402

import reference  # noqa: E402
from regard.flash_attn.v3 import flash_attn_func, flash_attn_qkvpacked_func, flash_attn_varlen_func  # noqa: E402


def chunks(case, chunk):
    """bool [b, hq, sq, sk]: keys of the chunk that contains a row's diagonal."""
    diagonal = torch.arange(case.sq)[:, None] + case.sk - case.sq
    key = torch.arange(case.sk)[None]
    same = torch.div(key, chunk, rounding_mode="floor") == torch.div(diagonal, chunk, rounding_mode="floor")
    return same.expand(case.b, case.hq, -1, -1).numpy()


@pytest.mark.parametrize(
    "case",
    [
        Case(64, 128, 64, dtype=torch.bfloat16),
        Case(113, 128, 96, causal=True, softcap=15.0, hk=1),
        Case(239, 1, 64, causal=True),
        Case(40, 90, 64, window=(20, 7)),
    ],
)
def test_out_and_gradients(case):
    tensors = case.numbers()
    inputs = leaves(*tensors[:3])
    words = {"causal": case.causal, "window_size": case.window, "softcap": case.softcap}
    out, lse = flash_attn_func(*inputs, **words, num_splits=3, pack_gqa=True, return_attn_probs=True)
    gradients = torch.autograd.grad(out, inputs, tensors[3])
    expected = close([out, *gradients], tensors, case.options())
    torch.testing.assert_close(lse, expected.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("sq", "sk", "chunk", "causal"), [(50, 50, 16, True), (40, 90, 33, False), (90, 40, 16, True)])
def test_chunks(sq, sk, chunk, causal):
    case = Case(sq, sk, 64, causal=causal)
    tensors = case.numbers()
    inputs = leaves(*tensors[:3])
    options = case.options()
    options.visible &= chunks(case, chunk)
    out = flash_attn_func(*inputs, causal=causal, attention_chunk=chunk)
    close([out, *torch.autograd.grad(out, inputs, tensors[3])], tensors, options)


def test_chunks_of_packed_sequences_that_are_used_in_part():
    lengths, used = [(30, 44), (5, 9), (0, 7)], [(30, 40), (3, 9), (0, 7)]
    parts = [Case(sq, sk, 32, b=1).numbers(i) for i, (sq, sk) in enumerate(lengths)]
    q, k, v = (torch.cat([tensors[i][0] for tensors in parts]) for i in range(3))
    starts = [torch.tensor([0, *column]).cumsum(0).to(torch.int32) for column in zip(*lengths)]
    counted = [torch.tensor(column, dtype=torch.int32) for column in zip(*used)]
    out = flash_attn_varlen_func(q, k, v, *starts, 30, 44, *counted, causal=True, attention_chunk=8)
    for tensors, (sq, sk), rows in zip(parts, used, out.split([sq for sq, _ in lengths])):
        if not sq:
            continue
        case = Case(sq, sk, 32, b=1, causal=True)
        options = case.options()
        options.visible &= chunks(case, 8)
        o = reference.attention(*(across(x[:, :n]) for x, n in zip(tensors, (sq, sk, sk))), options)[0]
        torch.testing.assert_close(
            rows[:sq].double(), torch.from_numpy(o[0].swapaxes(0, 1).copy()), rtol=3e-3, atol=3e-3
        )
        assert not rows[sq:].any()


def test_qv_adds_its_products_to_the_scores():
    q, qv = torch.randn(2, 20, 4, 64), torch.randn(2, 20, 4, 128)
    k, v = torch.randn(2, 30, 2, 64), torch.randn(2, 30, 2, 128)
    keys, values = (x.repeat_interleave(2, dim=2).double() for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), keys) + torch.einsum("bqhd,bkhd->bhqk", qv.double(), values)
    expected = torch.einsum("bhqk,bkhd->bqhd", (scores / math.sqrt(192)).softmax(-1), values)
    torch.testing.assert_close(flash_attn_func(q, k, v, qv=qv).double(), expected, rtol=1e-4, atol=1e-4)
    q, k, v, qv = (x.to(torch.float8_e4m3fn) for x in (q, k, v, qv))
    with pytest.raises(NotImplementedError, match="qv does not go with descale factors"):
        flash_attn_func(q, k, v, qv=qv, q_descale=torch.ones(2, 2))


def test_8_bits_with_factors():
    case = Case(33, 47, 64, dtype=torch.float32)
    q, k, v = (x.to(torch.float8_e4m3fn) for x in case.numbers()[:3])
    factors = [0.5 + torch.rand(2, 2, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    out = flash_attn_func(q, k, v, q_descale=factors[0], k_descale=factors[1], v_descale=factors[2])
    assert out.dtype == torch.bfloat16
    of_q = factors[0].repeat_interleave(2, dim=1)
    scaled = [x.double() * factor[:, None, :, None] for x, factor in zip((q, k, v), (of_q, *factors[1:]))]
    expected = reference.attention(*map(across, scaled), case.options())[0]
    error = (out.double() - torch.from_numpy(expected.swapaxes(1, 2).copy())).abs()
    assert error.max() < 0.055  # the bound that FlashAttention-3's users apply
    one = torch.ones(2, 2)
    alone = flash_attn_func(q, k, v, k_descale=factors[1])
    assert torch.equal(alone, flash_attn_func(q, k, v, q_descale=one, k_descale=factors[1], v_descale=one))


def test_packed_tensors():
    q, k, v, _ = Case(20, 20, 32, hq=4, hk=4).numbers()
    whole = flash_attn_func(q, k, v, causal=True)
    assert torch.equal(flash_attn_qkvpacked_func(torch.stack((q, k, v), dim=2), causal=True), whole)
    grouped = torch.cat((q, k[:, :, :2], v[:, :, :2]), dim=2)
    expected = flash_attn_func(q, k[:, :, :2], v[:, :, :2])
    assert torch.equal(flash_attn_qkvpacked_func(grouped, num_heads_q=4), expected)
    with pytest.raises(ValueError, match="num_heads_q must say how many heads Q has"):
        flash_attn_qkvpacked_func(grouped)


def test_lse_of_what_sees_nothing():
    q, k = torch.randn(1, 5, 2, 16), torch.randn(1, 2, 2, 16)
    lse = flash_attn_func(q, k, k, causal=True, return_attn_probs=True)[1]
    assert lse[..., :3].isneginf().all() and lse[..., 3:].isfinite().all()
    assert flash_attn_func(q, k[:, :0], k[:, :0], return_attn_probs=True)[1].isposinf().all()
