"""Missing features and wrong input are each reported in one sentence."""

import pytest

torch = pytest.importorskip("torch")
import regard.flash_attn as two  # noqa: E402
from regard.flash_attn import v3 as three  # noqa: E402

Q = torch.zeros(2, 4, 2, 8)
PACKED = torch.zeros(2, 4, 4, 2, 8)
STARTS = torch.tensor([0, 4, 8], dtype=torch.int32)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda: two.flash_attn_func(Q, Q, Q, window_size=3), ValueError, "window_size is 3; it must be a pair"),
        (lambda: two.flash_attn_func(Q, Q, Q, window_size=(1.5, 2)), ValueError, r"is \(1.5, 2\); it .* whole numbers"),
        (lambda: two.flash_attn_func(Q, Q, Q, 1.0), ValueError, "dropout=1"),
        (lambda: two.flash_attn_func(Q, Q, Q, -0.5), ValueError, "dropout=-0.5"),
        (lambda: two.flash_attn_func(Q, Q[..., :4], Q), ValueError, "'k' has shape"),
        (lambda: two.flash_attn_func(Q.long(), Q, Q), ValueError, "q has dtype int64"),
        (lambda: two.flash_attn_func(Q, Q.half(), Q), ValueError, "'k' is fp16; the problem needs fp32"),
        (lambda: two.flash_attn_func(Q, Q[:, :, :1].repeat(1, 1, 3, 1), Q), ValueError, "hq"),
        (lambda: two.flash_attn_qkvpacked_func(PACKED), ValueError, r"qkv has .*; it must be \[b, s, 3, heads, d\]"),
        (lambda: two.flash_attn_kvpacked_func(Q, PACKED), ValueError, r"kv has .*; it must be \[b, s, 2, heads, d\]"),
        (lambda: two.flash_attn_qkvpacked_func(Q), ValueError, r"qkv has shape \[2, 4, 2, 8\]; it must be"),
        (
            lambda: two.flash_attn_varlen_qkvpacked_func(PACKED[0], STARTS, 4),
            ValueError,
            r"qkv has shape \[4, 4, 2, 8\]; it must be \[tokens, 3, heads, d\]",
        ),
        (
            lambda: two.flash_attn_varlen_kvpacked_func(Q[0], PACKED[0], STARTS, STARTS, 4, 4),
            ValueError,
            r"kv has shape \[4, 4, 2, 8\]; it must be \[tokens, 2, heads, d\]",
        ),
        (lambda: three.flash_attn_qkvpacked_func(PACKED), ValueError, r"qkv has .*; it must be \[b, s, 3, heads, d\]"),
        (lambda: three.flash_attn_qkvpacked_func(Q, num_heads_q=1), ValueError, r"num_heads_q=1 it must be \[b, s, hq"),
        (lambda: two.flash_attn_func(Q[0], Q, Q), ValueError, "q has shape"),
        (lambda: two.flash_attn_func(Q, Q, Q, alibi_slopes=torch.zeros(3)), ValueError, "alibi"),
        (lambda: two.flash_attn_func(Q, Q, Q, alibi_slopes=torch.zeros(2, requires_grad=True)), ValueError, "alibi"),
        (lambda: two.flash_attn_func(Q, Q, Q, alibi_slopes=torch.zeros(2).half()), ValueError, "alibi"),
        (lambda: two.flash_attn_func(Q, Q, Q.to("meta")), ValueError, "v"),
        (lambda: two.flash_attn_func(Q, Q, Q, 1e-7), ValueError, "dropout=1e-07 is finer than a dropout mask"),
        (lambda: two.flash_attn_func(Q, Q, Q, causal="top_left"), ValueError, "causal is 'top_left'; it must be True"),
        (lambda: two.flash_attn_func(Q, Q, Q, softcap=float("nan")), ValueError, "softcap=nan"),
        (lambda: two.flash_attn_func(Q, Q, Q, window_size=(1, 2, 3)), ValueError, r"\(1, 2, 3\); it must be a pair"),
        (
            lambda: two.flash_attn_varlen_func(Q[0], Q[0], Q[0], STARTS, STARTS, 4.5, 4),
            ValueError,
            "max_seqlen_q is 4.5; it must be a whole number",
        ),
        (lambda: three.flash_attn_func(Q, Q, Q, attention_chunk=-1), ValueError, "attention_chunk is -1"),
        (lambda: three.flash_attn_func(Q, Q, Q, attention_chunk=1.5), ValueError, "attention_chunk is 1.5"),
        (
            lambda: three.flash_attn_func(Q, Q, Q, k_descale=torch.ones(2, 2)),
            ValueError,
            "q is torch.float32, and k_descale is only for 8-bit tensors",
        ),
    ],
)
def test_what_is_wrong_is_said(call, kind, sentence):
    with pytest.raises(kind, match=sentence) as error:
        call()
    assert "\n" not in str(error.value)


def test_lse_has_no_gradient():
    q = Q.clone().requires_grad_()
    out, lse, _ = two.flash_attn_func(q, q, q, return_attn_probs=True)
    assert out.requires_grad and not lse.requires_grad


def test_a_cap_that_is_not_above_0_is_none():
    q = torch.randn(1, 5, 2, 8)
    assert torch.equal(two.flash_attn_func(q, q, q, softcap=-1.0), two.flash_attn_func(q, q, q))


def test_what_is_no_dense_tensor():
    q = torch.randn(1, 4, 2, 8)
    with pytest.raises(TypeError, match="^an argument is of type ndarray; it must be a tensor of PyTorch$"):
        two.flash_attn_func(q.numpy(), q, q)
    with pytest.raises(ValueError, match="^an argument is of layout torch.sparse_coo; it must be dense"):
        two.flash_attn_func(q.to_sparse(), q, q)
