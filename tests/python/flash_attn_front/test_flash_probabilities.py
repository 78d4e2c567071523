"""Results that are meant for tests: S_dmask of both flavours, LSE of rows that see nothing, shapes."""

import math

import pytest

torch = pytest.importorskip("torch")
from flash_cases import Case, expected, kept_of  # noqa: E402

from regard.flash_attn import flash_attn_func, flash_attn_varlen_func, flavour  # noqa: E402
from regard.flash_attn.flash_attn_interface import _get_block_size_n  # noqa: E402


@pytest.fixture
def ck():
    flavour.choose("ck")
    yield
    flavour.choose("cuda")


def of_torch(case, q, k):
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double().repeat_interleave(2, dim=2)) / case.d**0.5
    return scores.masked_fill(~torch.from_numpy(case.visible()), -math.inf)


@pytest.mark.parametrize("window", [(-1, -1), (40, 11)])
def test_signed_probabilities(window):
    case = Case(97, 300, 64, causal=window == (-1, -1), window=window)
    q, k, v, _ = case.numbers()
    out, lse, s = flash_attn_func(q, k, v, 0.25, return_attn_probs=True, **case.arguments())
    assert s.shape == (2, 4, 128, 384) and s.dtype == q.dtype
    scores = of_torch(case, q, k)
    relative = (scores - scores.amax(-1, keepdim=True)).exp()
    torch.testing.assert_close(s[..., :97, :300].abs().double(), relative, rtol=2e-3, atol=2e-3)
    assert not s[..., 97:, :].any() and not s[..., 300:].any()
    dropped = ~kept_of(s, case) & case.visible()
    assert abs(dropped.sum() / case.visible().sum() - 0.25) < 0.025
    assert _get_block_size_n(q.device, 64, True, case.causal) >= 300  # a row is one block


def test_the_signs_are_the_mask_of_the_call():
    case = Case(40, 60, 64)
    tensors = case.numbers()
    out, _, s = flash_attn_func(*tensors[:3], 0.5, return_attn_probs=True)
    correct = expected(tensors, case.options(kept_of(s, case), 0.5))[0][0]
    torch.testing.assert_close(out.double(), correct, rtol=5e-3, atol=5e-3)


def test_random_bytes(ck):
    case = Case(40, 60, 64)
    tensors = case.numbers()
    out, _, s = flash_attn_func(*tensors[:3], 0.3, return_attn_probs=True)
    assert s.shape == (2, 4, 40, 60) and s.dtype == torch.uint8
    kept = math.floor(255 * 0.7) - s.float() >= 0
    correct = expected(tensors, case.options(kept.numpy(), 0.3))[0][0]
    torch.testing.assert_close(out.double(), correct, rtol=5e-3, atol=5e-3)


def test_random_bytes_of_packed_sequences(ck):
    q, k = torch.randn(30, 4, 64), torch.randn(50, 2, 64)
    starts = torch.tensor([0, 20, 30], dtype=torch.int32), torch.tensor([0, 15, 50], dtype=torch.int32)
    s = flash_attn_varlen_func(q, k, k, *starts, 20, 35, 0.3, return_attn_probs=True)[2]
    assert s.shape == (4, 30, 35) and s.dtype == torch.uint8
    assert (s[:, :20, :15] > math.floor(255 * 0.7)).any()


def test_without_dropout_there_is_nothing_to_tell():
    q = torch.randn(1, 8, 2, 16)
    out, lse, s = flash_attn_func(q, q, q, return_attn_probs=True)
    assert s.numel() == 0 and lse.shape == (1, 2, 8) and lse.dtype == torch.float32
    assert torch.equal(out, flash_attn_func(q, q, q))


def test_lse_of_rows_that_see_no_key():
    q, k = torch.randn(1, 5, 2, 16), torch.randn(1, 2, 2, 16)
    for kind, of_masked in (("cuda", math.inf), ("ck", -math.inf)):
        flavour.choose(kind)
        try:
            out, lse, _ = flash_attn_func(q, k, k, causal=True, return_attn_probs=True)
            assert not out[:, :3].any() and (lse[..., :3] == of_masked).all() and lse[..., 3:].isfinite().all()
            out, lse, _ = flash_attn_func(q, k[:, :0], k[:, :0], return_attn_probs=True)
            assert not out.any() and (lse == math.inf).all()
        finally:
            flavour.choose("cuda")


def test_rows_that_see_no_key_have_no_gradients():
    q, k = torch.randn(1, 5, 2, 16, requires_grad=True), torch.randn(1, 2, 2, 16, requires_grad=True)
    grad_q, grad_k = torch.autograd.grad(flash_attn_func(q, k, k, causal=True).sum(), (q, k))
    assert not grad_q[:, :3].any() and grad_q[:, 3:].any() and grad_k.isfinite().all()
    empty = k[:, :0].detach().requires_grad_()
    grad_q, grad_k = torch.autograd.grad(flash_attn_func(q, empty, empty).sum(), (q, empty))
    assert not grad_q.any() and grad_k.shape == empty.shape
