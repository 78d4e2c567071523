"""flash_attn.modules.mha against PyTorch's operators with the same parameters."""

import math
import types

import pytest

torch = pytest.importorskip("torch")
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from regard.flash_attn.layers.rotary import apply_rotary_emb_torch  # noqa: E402
from regard.flash_attn.modules import mha  # noqa: E402

pytestmark = pytest.mark.no_compiler

X = torch.randn(2, 11, 32, generator=torch.Generator().manual_seed(0))
OTHER = torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(1))
MASK = torch.arange(11) < torch.tensor([[11], [6]])


def parts(module, x):
    """q, k and v of a module, [b, s, heads, d]."""
    if module.cross_attn:
        q, kv = module.Wq(x), module.Wkv(OTHER)
        k, v = kv.unflatten(-1, (2, -1, 8)).unbind(2)
    else:
        q, k, v = module.Wqkv(x).split([32, 8 * module.num_heads_kv, 8 * module.num_heads_kv], dim=-1)
    return [tensor.unflatten(-1, (-1, 8)) if tensor.dim() == 3 else tensor for tensor in (q, k, v)]


def by_torch(module, x, mask=None, causal=False):
    q, k, v = parts(module, x)
    if module.rotary_emb_dim:
        angle = torch.outer(torch.arange(x.shape[1]), module.rotary_emb.inv_freq)
        q, k = (apply_rotary_emb_torch(tensor, angle.cos(), angle.sin()) for tensor in (q, k))
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    o = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=True)
    return module.out_proj(o.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("flash", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"num_heads_kv": 2, "causal": True},
        {"cross_attn": True, "num_heads_kv": 1},
        {"rotary_emb_dim": 8, "causal": True},
        {"rotary_emb_dim": 8, "num_heads_kv": 2},
        {"checkpointing": True, "causal": True},
    ],
)
def test_attention_with_projections(options, flash):
    module = mha.MHA(32, 4, use_flash_attn=flash, **options)
    out = module(X, x_kv=OTHER if module.cross_attn else None)
    expected = by_torch(module, X, causal=options.get("causal", False))
    torch.testing.assert_close(out, expected)
    names, parameters = zip(*module.named_parameters())
    found, right = (torch.autograd.grad(result.square().sum(), parameters) for result in (out, expected))
    for name, one, other in zip(names, found, right):
        torch.testing.assert_close(one, other, msg=lambda said, name=name: f"{name}: {said}")


def test_padding_is_not_seen():
    module = mha.MHA(32, 4, causal=True)
    mask = MASK[:, None, None, :] & torch.ones(11, 11, dtype=torch.bool).tril()
    torch.testing.assert_close(module(X, key_padding_mask=MASK), by_torch(module, X, mask))


def test_padding_moves_the_diagonal_of_cross_attention():
    q, kv = X[:, :4, None, :8], torch.stack((X[:, :, None, 8:16], X[:, :, None, 16:24]), 2)
    out = mha.CrossAttention(causal=True)(q, kv, key_padding_mask=MASK)
    for b, length in enumerate(MASK.sum(-1)):
        seen = torch.ones(4, int(length), dtype=torch.bool).tril(int(length) - 4)
        k, v = kv[b : b + 1, :length].transpose(1, 3).unbind(2)
        expected = scaled_dot_product_attention(q[b : b + 1].transpose(1, 2), k, v, attn_mask=seen).transpose(1, 2)
        torch.testing.assert_close(out[b : b + 1], expected)


def test_packed_sequences():
    starts, lengths = torch.tensor([0, 11, 17], dtype=torch.int32), (11, 6)
    for heads in (4, 2):
        module = mha.MHA(
            32, 4, num_heads_kv=heads, causal=True, use_flash_attn=True, window_size=(3, 0), use_alibi=True
        )
        out = module(torch.cat((X[0], X[1, :6])), cu_seqlens=starts, max_seqlen=11)
        for b, length in enumerate(lengths):
            torch.testing.assert_close(out[starts[b] : starts[b + 1]], module(X[b : b + 1, :length])[0])


@pytest.mark.parametrize("options", [{}, {"use_flash_attn": True}, {"num_heads_kv": 2}, {"rotary_emb_dim": 8}])
def test_tokens_that_come_one_after_the_other(options):
    module = mha.MHA(32, 4, causal=True, layer_idx=0, **options)
    kept = types.SimpleNamespace(
        max_batch_size=2, max_seqlen=16, batch_size_offset=0, key_value_memory_dict={}, lengths_per_sample=None
    )
    found = []
    for first, last in ((0, 5), (5, 6), (6, 7), (7, 11)):
        kept.seqlen_offset = first
        found.append(module(X[:, first:last], inference_params=kept))
    torch.testing.assert_close(torch.cat(found, 1), module(X))
    kept.lengths_per_sample = torch.tensor([3, 4])
    with pytest.raises(NotImplementedError, match="lengths_per_sample says where each sequence ends"):
        module(X[:, :1], inference_params=kept)


def test_dropout_only_while_training():
    qkv = torch.randn(1, 9, 3, 2, 8)
    for kind in (mha.FlashSelfAttention, mha.SelfAttention):
        attention = kind(attention_dropout=0.5)
        torch.manual_seed(0)
        first = attention(qkv)
        assert not torch.equal(first, attention.eval()(qkv)) and torch.equal(attention(qkv), attention(qkv))


@pytest.mark.parametrize("heads", [1, 8, 6])
def test_slopes(heads):
    """A geometric sequence down to 2 ** -8, then every second slope of the next power of two."""
    slopes = mha.get_alibi_slopes(heads)
    power = 2 ** int(math.log2(heads))
    assert slopes[power - 1] == 2**-8 and len(slopes) == heads
    assert all(math.isclose(one / other, 2 ** (8 / power)) for one, other in zip(slopes, slopes[1:power]))
    assert [math.log2(slope) for slope in slopes[power:]] == [-8 * i / (2 * power) for i in (1, 3)][: heads - power]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: mha.MHA(32, 4, dwconv=True), "dwconv convolves Q, K and V"),
        (lambda: mha.MHA(32, 5), "each must be a multiple of the next"),
        (lambda: mha.MHA(32, 4, use_alibi=True), "need use_flash_attn=True"),
        (lambda: mha.MHA(32, 4, window_size=(3, 0)), "need use_flash_attn=True"),
        (lambda: mha.MHA(32, 4, cross_attn=True, rotary_emb_dim=8), "whose tokens have no common positions"),
        (lambda: mha.MHA(32, 4)(X, x_kv=OTHER), "x_kv and mixer_subset need cross_attn=True"),
        (lambda: mha.MHA(32, 4)(X[0], cu_seqlens=MASK, max_seqlen=3), "cu_seqlens needs use_flash_attn=True"),
        (lambda: mha.MHA(32, 4, use_flash_attn=True)(X[0], max_seqlen=3), "cu_seqlens is not given"),
        (lambda: mha.MHA(32, 4, use_flash_attn=True)(X, key_padding_mask=MASK), "key_padding_mask needs"),
        (lambda: mha.MHA(32, 4)(X, key_padding_mask=MASK.float()), "key_padding_mask is torch.float32"),
        (lambda: mha.MHA(32, 4)(X, key_padding_mask=MASK[:, :3]), r"it must be torch.bool \[2, 11\]"),
        (lambda: mha.ParallelMHA(32, 4, None), "ParallelMHA splits its projections over processes"),
    ],
)
def test_what_is_not_there_is_said(call, sentence):
    with pytest.raises((ValueError, NotImplementedError), match=sentence):
        call()


def test_an_argument_that_the_inner_attention_does_not_have():
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        mha.MHA(32, 4)(X, scale=3)
