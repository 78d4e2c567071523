"""flash_attn_with_kvcache of flash_attn 2 and 3, and packed queries on pages, against a cache of one row after the
other."""

import math

import pytest

torch = pytest.importorskip("torch")
from test_flash_arguments import WITH_NEW_TOKENS  # noqa: E402

import cached  # noqa: E402
import regard.flash_attn as two  # noqa: E402
from argument_audit import cases  # noqa: E402
from cached import Cache, ints, numbers  # noqa: E402
from regard.flash_attn import flash_attn_interface  # noqa: E402
from regard.flash_attn import v3 as three  # noqa: E402

HQ, HK, D = 4, 2, 16
LENGTHS = ints(5, 0, 11)
COS, SIN = numbers(20, 24, 4), numbers(21, 24, 4)
NEW = numbers(1, 3, 3, HK, D), numbers(2, 3, 3, HK, D)
SLOPES = numbers(3, HQ).abs()


def dense(**options):
    return Cache(numbers(4, 4, 20, HK, D), numbers(5, 4, 20, HK, D), LENGTHS, **options)


def pages(page, **options):
    blocks = -(-20 // page)
    order = torch.randperm(3 * blocks + 1, generator=torch.Generator().manual_seed(6)).to(torch.int32)
    table = order[: 3 * blocks].reshape(3, blocks).clone()
    for sequence, length in enumerate(LENGTHS.tolist()):
        table[sequence, -(-(length + 3) // page) :] = -1
    shape = 3 * blocks + 1, page, HK, D
    return Cache(numbers(4, *shape), numbers(5, *shape), LENGTHS, table, **options)


def expected(q, cache, new=None, cos=None, sin=None, interleaved=True, positions=None, causal=False, **words):
    """out, lse and the caches, where `q` has the rows of each sequence."""
    cache = Cache(cache.k.clone(), cache.v.clone(), cache.lengths, cache.table, cache.index, cache.left_padding)
    masks = {"causal": causal, "window": words.pop("window_size", (-1, -1))}
    results = []
    for sequence, rows in enumerate(q):
        if new is not None:
            k, v = (x[sequence] for x in new)
            if cos is not None and cache.lengths[sequence] >= 0:
                first = int((cache.lengths if positions is None else positions)[sequence])
                steps = causal or any(0 <= side < 20 for side in masks["window"])
                k = cached.rotated(k, [first + i for i in range(len(k))], cos, sin, interleaved)
                rows = cached.rotated(rows, [first + i * steps for i in range(len(rows))], cos, sin, interleaved)
            cache.write(sequence, k, v)
        results.append(cached.attention(rows, *cache.read(sequence), **masks, **words))
    o, lse = ([torch.from_numpy(x.copy()) for x in some] for some in zip(*results))
    return o, lse, cache


def close(found, right):
    torch.testing.assert_close(found.double(), right.double(), rtol=1e-4, atol=1e-4)


def check(out, lse, cache, right):
    o, logarithms, written = right
    for sequence in range(len(o)):
        close(out[sequence], o[sequence])
        close(lse[sequence].masked_fill(lse[sequence] == math.inf, -math.inf), logarithms[sequence])
    torch.testing.assert_close(cache.k.double(), written.k.double(), rtol=1e-5, atol=1e-5, equal_nan=True)
    assert torch.equal(cache.v.nan_to_num(7), written.v.nan_to_num(7))


CASES = [
    (dense, {}, {}),
    (dense, {"index": ints(2, 0, 3)}, {"causal": True, "softcap": 2.0}),
    (dense, {"index": ints(3, 1, 0), "left_padding": ints(2, 0, 5)}, {"causal": True, "rotary": True}),
    (dense, {}, {"rotary": True, "interleaved": False}),  # all queries at the length
    (dense, {}, {"rotary": True, "window_size": (20, 20)}),  # no window, and so the same
    (lambda **o: pages(4, **o), {}, {"window_size": (3, 1), "rotary": True}),
    (lambda **o: pages(7, **o), {"left_padding": ints(1, 0, 8)}, {"causal": True, "slopes": SLOPES}),
    (lambda **o: pages(1, **o), {}, {"causal": True, "rotary": True, "interleaved": False, "scale": 0.1}),
]


@pytest.mark.parametrize("front", [2, 3])
@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize(("make", "of_cache", "words"), CASES)
def test_against_one_row_after_the_other(make, of_cache, words, append, front):
    words = dict(words)
    rotary, interleaved, slopes = (words.pop(name, None) for name in ("rotary", "interleaved", "slopes"))
    interleaved = interleaved is not False
    if slopes is not None and front == 3:
        pytest.skip("FlashAttention-3 has no ALiBi")
    cache, q = make(**of_cache).with_unused_rows(math.nan), numbers(7, 3, 3, HQ, D)
    new = NEW if append else None
    tables = (COS, SIN) if append and rotary else (None, None)
    right = expected(q, cache, new, *tables, interleaved, slopes=slopes, **words)
    words |= {"softmax_scale": words.pop("scale")} if "scale" in words else {}
    words |= {"alibi_slopes": slopes} if slopes is not None else {}
    arguments = dict(zip(("k", "v"), new or ())) | dict(zip(("rotary_cos", "rotary_sin"), tables))
    arguments |= {"block_table" if front == 2 else "page_table": cache.table}
    function = two.flash_attn_with_kvcache if front == 2 else three.flash_attn_with_kvcache
    out, lse, *rest = function(
        q,
        cache.k,
        cache.v,
        **arguments,
        cache_seqlens=LENGTHS,
        cache_batch_idx=cache.index,
        cache_leftpad=cache.left_padding,
        rotary_interleaved=interleaved,
        return_softmax_lse=True,
        **words,
    )
    assert [part.numel() for part in rest] == ([] if front == 2 else [0, 0]) and not out.requires_grad
    check(out, lse, cache, right)


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("make", [dense, lambda: pages(7)])
def test_qv_is_latent_attention(make, append):
    """The rows of v are keys, too: the same as one cache of longer keys. No cache is copied."""
    cache = make().with_unused_rows(math.nan)
    q, qv = numbers(7, 3, 3, HQ, D), numbers(8, 3, 3, HQ, D)
    longer = Cache(torch.cat((cache.v, cache.k), -1), cache.v.clone(), LENGTHS, cache.table)
    new, longer_new = (NEW, (torch.cat((NEW[1], NEW[0]), -1), NEW[1])) if append else (None, None)
    o, lse, written = expected(torch.cat((qv, q), -1), longer, longer_new, causal=True)
    arguments = dict(zip(("k", "v"), new or ()))
    found, found_lse, *_ = three.flash_attn_with_kvcache(
        q,
        cache.k,
        cache.v,
        **arguments,
        qv=qv,
        cache_seqlens=LENGTHS,
        page_table=cache.table,
        causal=True,
        return_softmax_lse=True,
    )
    check(found, found_lse, cache, (o, lse, Cache(written.k[..., D:], written.v, LENGTHS, cache.table)))


@pytest.mark.parametrize("rotary", [False, True])
def test_packed_queries_and_packed_new_tokens_with_positions(rotary):
    counts, positions = [3, 1, 2], ints(4, 9, 0)
    starts = ints(0, 3, 4, 6)
    cache = pages(4).with_unused_rows(math.nan)
    q, k, v = (list(numbers(i, 6, heads, D).split(counts)) for i, heads in ((7, HQ), (8, HK), (9, HK)))
    tables = {"rotary_cos": COS, "rotary_sin": SIN, "rotary_seqlens": positions} if rotary else {}
    of_reference = (COS, SIN, True, positions) if rotary else ()
    right = expected(q, cache, (k, v), *of_reference, causal=True)
    out, lse, *_ = three.flash_attn_with_kvcache(
        *(torch.cat(q), cache.k, cache.v, torch.cat(k), torch.cat(v)),
        **tables,
        cache_seqlens=LENGTHS,
        page_table=cache.table,
        cu_seqlens_q=starts,
        cu_seqlens_k_new=starts,
        max_seqlen_q=3,
        causal=True,
        return_softmax_lse=True,
    )
    check(out.split(counts), lse.split(counts, dim=1), cache, right)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("make", [dense, lambda **o: pages(4, **o)])
def test_chunks(make, causal, append, packed):
    cache = make(left_padding=ints(2, 0, 3)).with_unused_rows(math.nan)
    q = numbers(7, 3, 3, HQ, D)
    given = {"k": NEW[0].clone(), "v": NEW[1].clone(), "rotary_cos": COS, "rotary_sin": SIN} if append else {}
    written, right = Cache(cache.k.clone(), cache.v.clone(), *list(vars(cache).values())[2:-1]), []
    for sequence, rows in enumerate(q):
        if append:
            places = [int(LENGTHS[sequence]) + i for i in range(3)]
            k, rows = (cached.rotated(x, places, COS, SIN, True).float() for x in (NEW[0][sequence], rows))
            written.write(sequence, k, NEW[1][sequence])
        keys = (x[None] for x in written.read(sequence))
        right.append(three.flash_attn_func(rows[None], *keys, causal=causal, attention_chunk=4)[0])
    out = three.flash_attn_with_kvcache(
        q.flatten(0, 1) if packed else q,
        cache.k,
        cache.v,
        **given,
        cache_seqlens=LENGTHS,
        cache_leftpad=cache.left_padding,
        page_table=cache.table,
        cu_seqlens_q=ints(0, 3, 6, 9) if packed else None,
        max_seqlen_q=3,
        causal=causal,
        attention_chunk=4,
    )
    close(out.reshape(q.shape), torch.stack(right))
    torch.testing.assert_close(cache.k, written.k, equal_nan=True)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_rotated_tokens_of_eight_bits(packed, scaled):
    counts = [3, 1, 2] if packed else [3, 3, 3]
    starts = ints(0, *counts).cumsum(0).to(torch.int32)
    cache, tables = pages(4), [table.to(torch.float8_e4m3fn) for table in (COS, SIN)]
    eight = [numbers(i, sum(counts), heads, D).to(torch.float8_e4m3fn) for i, heads in ((7, HQ), (8, HK), (9, HK))]
    small = [x.to(torch.float8_e4m3fn) for x in (cache.k, cache.v)]
    factors = [0.5 + numbers(i, 3, HK).abs() for i in (11, 12, 13)] if scaled else [torch.ones(3, HK)] * 3
    for x, k_or_v, factor in ((cache.k, small[0], factors[1]), (cache.v, small[1], factors[2])):
        for sequence in range(3):
            for page in cache.table[sequence][cache.table[sequence] >= 0]:
                x[page] = k_or_v[page].float() * factor[sequence, :, None]
    rows = []
    for x, factor in zip(eight, factors):
        each = x.float().split(counts)
        group = x.shape[1] // HK
        rows.append([y * factor[b].repeat_interleave(group)[:, None] for b, y in enumerate(each)])
    right = expected(rows[0], cache, rows[1:], *(table.float() for table in tables), causal=True)[0]
    shape = (-1,) if packed else (3, 3)
    q, k, v = (x.reshape(*shape, *x.shape[1:]) for x in eight)
    out = three.flash_attn_with_kvcache(
        *(q, *small, k, v),
        **dict(zip(("rotary_cos", "rotary_sin"), tables)),
        **(dict(zip(("q_descale", "k_descale", "v_descale"), factors)) if scaled else {}),
        **({"cu_seqlens_q": starts, "cu_seqlens_k_new": starts, "max_seqlen_q": 3} if packed else {}),
        cache_seqlens=LENGTHS,
        page_table=cache.table,
        causal=True,
    )
    assert out.dtype == torch.bfloat16
    assert (out.reshape(-1, HQ, D) - torch.cat(right)).abs().mean() < 0.04  # rotated keys are rounded again
    last = cache.place(2, 11)
    assert torch.equal(small[1][last].float(), eight[2][-counts[2]].float())  # V is not rotated, and written as it is


def test_sequences_picked_from_a_table():
    cache, q = pages(4), numbers(7, 2, 3, HQ, D)
    words = {"cache_seqlens": ints(9, 4), "causal": True}
    picked = three.flash_attn_with_kvcache(
        q, cache.k, cache.v, page_table=cache.table, cache_batch_idx=ints(2, 0), **words
    )
    rows = cache.table[[2, 0]]
    assert torch.equal(picked, three.flash_attn_with_kvcache(q, cache.k, cache.v, page_table=rows, **words))


def test_queries_that_are_packed_on_a_dense_cache():
    cache, q = dense(index=ints(2, 0, 3)), list(numbers(7, 6, HQ, D).split([3, 1, 2]))
    right = expected(q, cache, window_size=(4, 0))
    out, lse, *_ = three.flash_attn_with_kvcache(
        *(torch.cat(q), cache.k, cache.v),
        cache_seqlens=LENGTHS,
        cache_batch_idx=cache.index,
        cu_seqlens_q=ints(0, 3, 4, 6),
        max_seqlen_q=3,
        window_size=(4, 0),
        return_softmax_lse=True,
    )
    check(out.split([3, 1, 2]), lse.split([3, 1, 2], dim=1), cache, right)


def test_packed_queries_on_pages():
    cache, q = pages(4).with_unused_rows(math.nan), list(numbers(7, 6, HQ, D).split([3, 1, 2]))
    right = expected(q, cache, causal=True, softcap=3.0)
    sequences = ints(0, 3, 4, 6), ints(0, 5, 5, 16), 3, 11
    found = two.flash_attn_varlen_func(
        *(torch.cat(q), cache.k, cache.v), *sequences, causal=True, softcap=3.0, block_table=cache.table
    )
    close(found, torch.cat(right[0]))
    out, lse, *_ = flash_attn_interface._flash_attn_varlen_forward(
        *(torch.cat(q), cache.k, cache.v), *sequences, 0.0, D**-0.5, True, softcap=3.0, block_table=cache.table
    )
    check(out.split([3, 1, 2]), lse.split([3, 1, 2], dim=1), cache, right)


def test_one_length_for_all_and_none():
    cache, q = dense(), numbers(7, 4, 3, HQ, D)
    for lengths in (7, None):
        cache.lengths = torch.full((4,), lengths or 20)
        out, lse = two.flash_attn_with_kvcache(q, cache.k, cache.v, cache_seqlens=lengths, return_softmax_lse=True)
        check(out, lse, cache, expected(q, cache))


def test_a_padded_row_has_no_keys_and_takes_none():
    cache, q = pages(4), numbers(7, 3, 1, HQ, D)
    cache.lengths = ints(5, -1, 0)
    new = [x[:, :1] for x in NEW]
    right = expected(q, cache, new)
    out, lse = two.flash_attn_with_kvcache(
        q, cache.k, cache.v, *new, cache_seqlens=cache.lengths, block_table=cache.table, return_softmax_lse=True
    )
    check(out, lse, cache, right)
    assert not out[1].any() and lse[1].isposinf().all()  # as flash_attn's kernels for CUDA


@pytest.mark.no_compiler
def test_a_padded_row_of_a_dense_cache_needs_no_new_tokens():
    cache, q = dense(index=ints(0, 1, 2)), numbers(7, 3, 1, HQ, D)
    cache.lengths = ints(5, -1, 0)
    right = expected(q, cache)
    dense_k, dense_v = cache.k[:3], cache.v[:3]
    out, lse = two.flash_attn_with_kvcache(q, dense_k, dense_v, cache_seqlens=cache.lengths, return_softmax_lse=True)
    check(out, lse, cache, right)
    assert not two.flash_attn_with_kvcache(q, dense_k, dense_v, cache_seqlens=-1).any()


@pytest.mark.no_compiler
@pytest.mark.parametrize("front", [2, 3])
def test_lengths_and_places_with_strides(front):
    """flash_attn copies them; one length is often expanded to a batch."""
    cache, q = dense(), numbers(7, 3, 1, HQ, D)
    function = two.flash_attn_with_kvcache if front == 2 else three.flash_attn_with_kvcache
    given = {"cache_seqlens": ints(7).expand(3), "cache_leftpad": ints(2).expand(3)}
    given["cache_batch_idx"] = ints([2, 0], [0, 0], [3, 0])[:, 0]
    right = function(q, cache.k, cache.v, **{name: x.contiguous() for name, x in given.items()})
    assert torch.equal(function(q, cache.k, cache.v, **given), right)


@pytest.mark.no_compiler
@pytest.mark.parametrize("make", [dense, lambda: pages(4)])
def test_autocast_casts_no_cache(make):
    cache, q = make(), numbers(7, 3, 1, HQ, D)
    k, v = (cache.k, cache.v) if cache.table is not None else (cache.k[:3], cache.v[:3])
    right = two.flash_attn_with_kvcache(q, k, v, cache_seqlens=LENGTHS, block_table=cache.table)
    with torch.autocast("cpu", torch.bfloat16):
        found = two.flash_attn_with_kvcache(q, k, v, cache_seqlens=LENGTHS, block_table=cache.table)
    assert torch.equal(found, right)


@pytest.mark.no_compiler
def test_compiled_calls():
    """What reads values in eager mode, and merges, is no graph break."""
    torch._dynamo.reset()
    cache, q = pages(4), numbers(7, 3, 1, HQ, D)
    parts, of_parts = numbers(1, 3, 2, 5, 3, 8), numbers(2, 3, 2, 5, 3)

    def step(q, k, v, lengths, table, picked, parts, of_parts, memory):
        given = {"cache_seqlens": lengths, "page_table": table, "cache_batch_idx": picked}
        merged = three.flash_attn_combine(parts, of_parts)
        return (
            three.flash_attn_with_kvcache(q, k, v, **given),
            *merged,
            *three.flash_attn_combine(parts, of_parts, memory),
        )

    lengths = LENGTHS[[2, 0, 1]]
    inputs = q, cache.k, cache.v, lengths, cache.table, ints(2, 0, 1), parts, of_parts
    memory, of_compiled = torch.empty(2, 5, 3, 8), torch.empty(2, 5, 3, 8)
    right = step(*inputs, memory)
    found = torch.compile(step, fullgraph=True, backend="aot_eager")(*inputs, of_compiled)
    assert all(map(torch.equal, found, right)) and torch.equal(of_compiled, memory)


@pytest.mark.no_compiler
def test_a_batch_without_queries():
    cache = pages(4)
    sequences = ints(0, 0, 0, 0), ints(0, 5, 5, 16), 1, 11
    q = numbers(7, 0, HQ, D)
    assert two.flash_attn_varlen_func(q, cache.k, cache.v, *sequences, block_table=cache.table).shape == q.shape
    packed = numbers(8, 16, HK, D)
    assert two.flash_attn_varlen_func(q, packed, packed, *sequences).shape == q.shape
    none = two.flash_attn_varlen_func(packed, packed[:0], packed[:0], ints(0, 16), ints(0, 0), 16, 4)
    assert none.shape == packed.shape and not none.any()


def test_the_separate_passes_are_the_same_calls():
    cache, q = pages(4), numbers(7, 3, 3, HQ, D)
    common = {"cache_seqlens": LENGTHS, "causal": True, "window_size": (6, 0), "return_softmax_lse": True}
    before = cache.k.clone(), cache.v.clone()
    out, lse = two.flash_attn_with_kvcache(q, *before, *NEW, COS, SIN, block_table=cache.table, **common)
    memory = torch.empty_like(out)
    again = cache.k.clone(), cache.v.clone()
    found = flash_attn_interface.flash_attn_gpu.fwd_kvcache(
        *(q, *again, *NEW, LENGTHS, COS, SIN, None, None, cache.table, None, memory),
        *(D**-0.5, True, 6, 0, 0.0, True, 0),
    )
    assert found[0] is memory
    for one, other in zip((*found, *again), (out, lse, *before)):
        assert torch.equal(one, other)
    again = cache.k.clone(), cache.v.clone()
    found = three._flash_attn_forward(
        *(q, *again, *NEW),
        seqused_k=LENGTHS,
        page_table=cache.table,
        rotary_cos=COS,
        rotary_sin=SIN,
        causal=True,
        window_size_left=6,
    )
    for one, other in zip((*found[:2], *again), (out, lse.masked_fill(lse == math.inf, -math.inf), *before)):
        assert torch.equal(one, other)


def test_8_bit_caches_with_factors_of_stride_0():
    cache, q = pages(4), numbers(7, 3, 2, HQ, D)
    small = [x.to(torch.float8_e4m3fn) for x in (cache.k, cache.v)]
    k_descale, v_descale = (0.5 + numbers(i, HK).abs() for i in (8, 9))
    cache.k, cache.v = (x.float() * s[:, None] for x, s in zip(small, (k_descale, v_descale)))
    right = expected(q, cache)
    out, lse, *_ = three.flash_attn_with_kvcache(
        q,
        *small,
        cache_seqlens=LENGTHS,
        page_table=cache.table,
        k_descale=k_descale.expand(3, HK),
        v_descale=v_descale.expand(3, HK),
        return_softmax_lse=True,
    )
    check(out, lse, cache, right)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_combine(packed, dtype):
    out, lse = numbers(1, 4, 2, 5, 3, 16), 3 * numbers(2, 4, 2, 5, 3)
    lse[1, :, 2], lse[2, 0], lse[:, 1, 4] = -math.inf, -math.inf, -math.inf
    out[lse.isneginf()] = 0
    weights = (lse.double() - lse.double().logsumexp(0)).exp().nan_to_num(0)
    expected_out, expected_lse = (weights[..., None] * out.double()).sum(0), lse.double().logsumexp(0)
    if packed:
        out, lse, expected_out, expected_lse = (
            x.flatten(i, i + 1) for x, i in ((out, 1), (lse, 1), (expected_out, 0), (expected_lse, 0))
        )
    lse = lse.transpose(-1, -2).contiguous().transpose(-1, -2)  # as flash_attn's kernels write it
    found, logarithms = three.flash_attn_combine(out, lse, out_dtype=dtype)
    assert found.dtype == (dtype or torch.float32)
    torch.testing.assert_close(found.double(), expected_out, rtol=1e-2 if dtype else 1e-5, atol=1e-2 if dtype else 1e-5)
    torch.testing.assert_close(logarithms.double(), expected_lse, rtol=1e-5, atol=1e-5)
    if dtype is None:
        memory = torch.empty_like(found)
        assert three.flash_attn_combine(out, lse, memory)[0] is memory and torch.equal(memory, found)


Q, CACHE = torch.zeros(2, 1, HQ, D), torch.zeros(2, 8, HK, D)
PAGES, TABLE = torch.zeros(4, 4, HK, D), ints([0, 1], [2, 3])
ONE, STARTS = torch.zeros(2, 1, HK, D), ints(0, 1)


@pytest.mark.parametrize(
    ("front", "arguments", "kind", "sentence"),
    [
        (2, {"k": ONE}, ValueError, "k and v are the new tokens of the cache: give both"),
        (2, {"k": ONE, "v": ONE}, ValueError, "k and v are written after .*: give cache_seqlens"),
        (2, {"rotary_cos": COS, "rotary_sin": SIN}, ValueError, "rotary_cos .* k is missing: give k and v"),
        (2, {"k": ONE, "v": ONE, "cache_seqlens": 1, "rotary_cos": COS}, ValueError, "rotary_cos and rotary_sin"),
        (
            2,
            {"k": ONE, "v": ONE, "cache_seqlens": 1, "rotary_cos": COS[:7], "rotary_sin": SIN[:7]},
            ValueError,
            r"rotary_cos has shape \[7, 4\]; it must have a row for each of the 8 rows",
        ),
        (2, {"cache_seqlens": 1.5}, ValueError, "cache_seqlens is 1.5; it must be one length"),
        (2, {"cache_seqlens": ints(1, 9)}, ValueError, r"lengths_k\[1\] is 9"),
        (2, {"cache_batch_idx": ints(0, 2)}, ValueError, r"cache_index\[1\] is 2; the cache has 2 sequences"),
        (2, {"rotary_interleaved": "half"}, ValueError, "rotary_interleaved is 'half'; it must be True or False"),
        (2, {"block_table": TABLE, "cache_seqlens": ints(3, 9)}, RuntimeError, "^block_table has room for 8 rows"),
        (3, {"page_table": TABLE, "cache_seqlens": 9}, RuntimeError, "^page_table has room for 8 rows"),
        (
            2,
            {"block_table": TABLE, "cache_seqlens": 8, "k": ONE, "v": ONE},
            RuntimeError,
            "cache_seqlens with the new tokens reaches 9: give a table with more pages",
        ),
        (2, {"block_table": TABLE, "cache_batch_idx": ints(0, 1)}, ValueError, "cache_batch_idx .* with block_table"),
        (2, {"block_table": TABLE[0]}, ValueError, r"block_table has shape \[2\]; it must be \[b, pages"),
        (3, {"qv": Q[:, :, :2]}, ValueError, r"qv has shape .* and q .*; all but the last dimension must be equal"),
        (3, {"qv": Q, "k_descale": ONE[:, 0, :, 0]}, NotImplementedError, "qv does not go with descale factors"),
        (3, {"attention_chunk": -1}, ValueError, "attention_chunk is -1; it must be how many keys a chunk has"),
        (
            3,
            {"page_table": TABLE, "cache_batch_idx": ints(0, 2)},
            ValueError,
            "cache_batch_idx is .0, 2.; page_table has 2",
        ),
        (
            3,
            {"page_table": TABLE, "cache_batch_idx": TABLE},
            ValueError,
            "they must be .sequences, pages of a sequence",
        ),
        (3, {"cu_seqlens_q": ints(0, 1, 2)}, ValueError, "packed queries need max_seqlen_q"),
        (3, {"k_descale": torch.ones(2, HK)}, ValueError, "k_cache is torch.float32, and k_descale is only for 8-bit"),
        (2, {"k_cache": None}, TypeError, "k_cache is of type NoneType; it must be a tensor of PyTorch"),
        (2, {"v_cache": Q.numpy()}, TypeError, "v_cache is of type ndarray; it must be a tensor"),
        (2, {"block_table": [[0, 1]]}, TypeError, "block_table is of type list; it must be a tensor"),
        (2, {"k": ONE, "v": 1, "cache_seqlens": 1}, TypeError, "v is of type int; it must be a tensor"),
        (2, {"k": ONE, "v": ONE, "rotary_cos": "x"}, TypeError, "rotary_cos is of type str; it must be a tensor"),
        (2, {"q": Q.to_sparse()}, ValueError, "q is of layout torch.sparse_coo; it must be dense"),
        (2, {"q": torch.ones(())}, ValueError, r"q has shape \[\]; it must be"),
        (2, {"softcap": "tanh"}, ValueError, "softcap is 'tanh'; it must be a number, and 0 for no cap"),
        (2, {"causal": ints(1, 0)}, ValueError, "causal is of type Tensor; it must be True or False"),
        (3, {"page_table": Q.numpy()}, TypeError, "page_table is of type ndarray; it must be a tensor"),
        (3, {"attention_chunk": 0.5}, ValueError, "attention_chunk is 0.5; it must be a whole number"),
        (
            3,
            {"cu_seqlens_q": ints(), "max_seqlen_q": 1},
            ValueError,
            r"cu_seqlens_q has shape \[0\]; .* int32 \[b\+1\]",
        ),
        (
            3,
            {"k": ONE[0], "v": ONE[0], "cache_seqlens": ints(0, 0), "cu_seqlens_k_new": ints(0, 1)},
            ValueError,
            "offsets_new",
        ),
    ],
)
def test_what_is_wrong_is_said(front, arguments, kind, sentence):
    function = two.flash_attn_with_kvcache if front == 2 else three.flash_attn_with_kvcache
    cache = PAGES if arguments.keys() & {"block_table", "page_table"} else CACHE
    with pytest.raises(kind, match=sentence) as error:
        function(**{"q": Q, "k_cache": cache, "v_cache": cache, **arguments})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: three.flash_attn_combine(Q, Q.half()[..., 0]), "lse_partial is torch.float16; partial results are"),
        (lambda: three.flash_attn_combine(Q, Q), r"they must be \[parts, b, s, heads, d\] and \[parts, b, s, heads\]"),
        (lambda: three.flash_attn_combine(Q, Q[..., 0], out_dtype=torch.int8), "out_dtype is torch.int8; it must be"),
        (lambda: three.flash_attn_combine(None, Q), "out_partial is of type NoneType; it must be a tensor of PyTorch"),
        (lambda: three.flash_attn_combine(Q, Q[..., 0], out="bf16"), "out is of type str; it must be a tensor"),
        (lambda: three.flash_attn_combine(Q, Q[..., 0], out_dtype=["bf16"]), r"out_dtype is \['bf16'\]; it must be"),
        (lambda: three.get_scheduler_metadata(2, 1, 8, HQ, HK, D, 8), "cache_seqlens is of type int"),
        (
            lambda: two.flash_attn_varlen_func(Q[0], PAGES, PAGES, STARTS, [0, 4], 1, 4, block_table=TABLE[:1]),
            "cu_seqlens_k is of type list; it must be a tensor",
        ),
        (
            lambda: two.flash_attn_varlen_func(Q[0], None, PAGES, STARTS, STARTS, 1, 4, block_table=TABLE[:1]),
            "k is of type NoneType; it must be a tensor",
        ),
        (
            lambda: two.flash_attn_varlen_func(
                Q[0], PAGES, PAGES, ints(0, 1), ints(0, 4), 1, 4, 0.5, return_attn_probs=True, block_table=TABLE[:1]
            ),
            "return_attn_probs with dropout does not go with block_table",
        ),
    ],
)
def test_what_is_wrong_with_others_is_said(call, sentence):
    with pytest.raises((ValueError, NotImplementedError, TypeError), match=sentence):
        call()


@pytest.mark.parametrize(("name", "argument"), cases(WITH_NEW_TOKENS))
def test_no_argument_is_swallowed_beside_new_tokens(name, argument):
    WITH_NEW_TOKENS[name].check(argument)


def test_there_is_nothing_to_schedule():
    metadata = three.get_scheduler_metadata(2, 1, 8, HQ, HK, D, LENGTHS)
    assert metadata.numel() == 0 and metadata.dtype == torch.int32
