"""mha_batch_prefill_func and block_table against a cache of one row after the other."""

import math

import pytest

torch = pytest.importorskip("torch")
import cached  # noqa: E402
from cached import Cache, ints, numbers  # noqa: E402
from regard.aiter.ops import mha  # noqa: E402

pytestmark = pytest.mark.no_compiler

HQ, HK, D, X = 6, 2, 32, 4  # X floats have 16 bytes
LENGTHS, COUNTS = ints(5, 16, 21), [3, 1, 4]
STARTS = ints(0, 3, 4, 8)
Q = numbers(7, 8, HQ, D)


def pages(page, dtype=torch.float32):
    blocks = -(-24 // page)
    order = torch.randperm(3 * blocks + 1, generator=torch.Generator().manual_seed(6)).to(torch.int32)
    table = order[: 3 * blocks].reshape(3, blocks).clone()
    for sequence, length in enumerate(LENGTHS.tolist()):
        table[sequence, -(-length // page) :] = -1
    shape = 3 * blocks + 1, page, HK, D
    return Cache(numbers(4, *shape).to(dtype), numbers(5, *shape).to(dtype), LENGTHS, table)


def listed(cache):
    """kv_indptr, kv_page_indices (longer than it need be) and kv_last_page_lens."""
    page = cache.k.shape[1]
    used = [-(-length // page) for length in LENGTHS.tolist()]
    indices = torch.cat([row[:n] for row, n in zip(cache.table, used)] + [torch.zeros(100, dtype=torch.int32)])
    return torch.tensor([0, *used]).cumsum(0).to(torch.int32), indices, (LENGTHS - 1) % page + 1


def arranged(cache, layout):
    k, v = cache.k, cache.v
    if layout == "slots":
        return k[:, 0], v[:, 0]
    if layout == "vectorized":
        n, page = k.shape[:2]
        k = k.reshape(n, page, HK, D // X, X).permute(0, 2, 3, 1, 4).contiguous()
        v = v.reshape(n, page // X, X, HK, D).permute(0, 3, 1, 4, 2).contiguous()
    return k, v


def call(cache, q=Q, layout="linear", by_table=False, **options):
    indptr, indices, last = listed(cache)
    where = {"block_table": cache.table, "seqlen_k": LENGTHS} if by_table else {"kv_last_page_lens": last}
    if not by_table and cache.k.shape[1] == 1:
        where = {}  # there is one token in each page
    k, v = arranged(cache, layout)
    return mha.mha_batch_prefill_func(q, k, v, STARTS, indptr, indices, 4, 24, **where, **options)


def expected(cache, q=Q, **masks):
    results = [cached.attention(rows, *cache.read(i), **masks) for i, rows in enumerate(q.split(COUNTS))]
    o, lse = zip(*results)
    return torch.cat([torch.from_numpy(x.copy()) for x in o]), torch.cat([torch.from_numpy(x) for x in lse], dim=1)


def close(found, right, tolerance=1e-4):
    torch.testing.assert_close(found.double(), right.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("by_table", [False, True])
@pytest.mark.parametrize(
    ("page", "layout", "masks"),
    [
        (8, "linear", {"causal": True}),
        (3, "linear", {"softcap": 3.0}),
        (1, "slots", {"causal": True}),
        (1, "linear", {}),
        (8, "vectorized", {"causal": True}),
        (4, "vectorized", {"window": (5, 0), "sink_tokens": 2}),
    ],
)
def test_against_one_row_after_the_other(page, layout, masks, by_table):
    cache = pages(page).with_unused_rows(math.nan)
    names = {"causal": "causal", "softcap": "logits_soft_cap", "window": "window_size", "sink_tokens": "sink_size"}
    options = {names[name]: value for name, value in masks.items()}
    out, lse = call(cache, layout=layout, by_table=by_table, return_lse=True, **options)
    o, logarithms = expected(cache, **masks)
    close(out, o)
    close(lse, logarithms)
    memory = torch.empty_like(out)
    assert call(cache, layout=layout, by_table=by_table, out=memory, **options) is memory and torch.equal(memory, out)


@pytest.mark.parametrize("of_queries", [False, True])
def test_factors_of_pages(of_queries):
    small, cache = pages(8, torch.float8_e4m3fn), pages(8)
    factors = 0.5 + numbers(9, small.k.shape[0], HK, 2).abs()
    for side, scaled in enumerate((cache.k, cache.v)):
        scaled.copy_((small.k, small.v)[side].float() * factors[:, None, :, None, side])
    q = Q.to(torch.float8_e4m3fn) if of_queries else Q
    of_q = torch.tensor([0.5]) if of_queries else None
    out = call(small, q, causal=True, kv_block_descale=factors, q_descale=of_q)
    close(out, expected(cache, q.float() * (0.5 if of_queries else 1), causal=True)[0], 2e-2 if of_queries else 1e-4)


def test_one_factor_for_each_tensor():
    small, cache = pages(8, torch.float8_e4m3fn), pages(8)
    cache.k, cache.v = small.k.float() * 0.5, small.v.float() * 2
    out = call(small, k_descale=torch.tensor(0.5), v_descale=torch.tensor([2.0]))
    close(out, expected(cache)[0])


def test_the_operator_and_block_table_are_the_same_calls():
    cache = pages(8).with_unused_rows(math.nan)
    indptr, indices, last = listed(cache)
    right, lse = call(cache, causal=True, window_size=(6, 0), return_lse=True)
    scores = 0.0, D**-0.5, 0.0, False, True, 6, 0, 0, True, False
    found = mha.mha_batch_prefill(Q, cache.k, cache.v, STARTS, indptr, indices, 4, 24, *scores, kv_last_page_lens=last)
    assert torch.equal(found[0], right) and torch.equal(found[1], lse)
    starts = STARTS, ints(0, 5, 21, 42), 4, 24
    table = {"block_table": cache.table, "causal": True, "window_size": (6, 0, 0), "return_lse": True}
    for one, other in zip(mha.flash_attn_varlen_func(Q, cache.k, cache.v, *starts, **table), (right, lse)):
        assert torch.equal(one, other)
    words = 0, 0.0, D**-0.5, 0.0, False, True, 6, 0, 0, True, False
    found = mha.mha_varlen_fwd(Q, cache.k, cache.v, *starts, *words, block_table=cache.table)
    assert torch.equal(found[0], right) and torch.equal(found[1], lse)


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"kv_last_page_lens": None}, ValueError, "kv_last_page_lens is missing: with pages of 8 tokens"),
        ({"seqlen_k": LENGTHS}, ValueError, "seqlen_k is the length of sequences in a block_table"),
        ({"block_table": ints([0], [1], [2])}, ValueError, r"block_table has shape \[3, 1\]; .* and seqlen_k \[b\]"),
        ({"kv_indptr": None}, ValueError, "kv_indptr and kv_page_indices are not both given"),
        ({"kv_block_descale": torch.ones(4, HK, 2)}, ValueError, "kv_block_descale is for 8-bit pages, and k is"),
        ({"k_descale": torch.ones(1)}, ValueError, "k_cache is torch.float32, and k_descale is only for 8-bit"),
        (
            {"k": Q[:, :2], "v": Q[:1, None, :2]},
            ValueError,
            r"pages are \[pages, page, heads, d\], \[slots, heads, d\]",
        ),
        ({"q": None}, TypeError, "q is of type NoneType; it must be a tensor of PyTorch"),
        ({"k": None}, TypeError, "k is of type NoneType; it must be a tensor"),
        ({"kv_indptr": [0, 1]}, TypeError, "kv_indptr is of type list; it must be a tensor"),
        ({"kv_indptr": ints(1)[0]}, ValueError, r"kv_indptr has shape \[\]; it must be int32 \[b\+1\]"),
        ({"kv_page_indices": ints([0, 1])}, ValueError, r"kv_page_indices has shape \[1, 2\]; it must be one list"),
        ({"block_table": "pages"}, TypeError, "block_table is of type str; it must be a tensor"),
        ({"kv_block_descale": 1.0}, TypeError, "kv_block_descale is of type float; it must be a tensor"),
        ({"sink_ptr": 0}, TypeError, "sink_ptr is of type int; it must be a tensor"),
        ({"dropout_p": "half"}, ValueError, "dropout"),
        ({"dropout_p": ints(1, 2)}, TypeError, "dropout_p is of type Tensor; it must be a number"),
        ({"logits_soft_cap": ints(1, 2)}, ValueError, "logits_soft_cap is of type Tensor; it must be a number"),
        ({"deterministic": "no"}, ValueError, "deterministic is 'no'; it must be True or False"),
        ({"window_size": (4, 0, 2), "sink_size": 2}, ValueError, r"window_size is \(4, 0, 2, 2\); it must be"),
    ],
)
def test_what_is_wrong_is_said(arguments, kind, sentence):
    cache = pages(8)
    indptr, indices, last = listed(cache)
    given = {"k": cache.k, "v": cache.v, "kv_indptr": indptr, "kv_page_indices": indices, "kv_last_page_lens": last}
    with pytest.raises(kind, match=sentence) as error:
        mha.mha_batch_prefill_func(
            cu_seqlens_q=STARTS, max_seqlen_q=4, max_seqlen_k=24, **{"q": Q, **given, **arguments}
        )
    assert "\n" not in str(error.value)
