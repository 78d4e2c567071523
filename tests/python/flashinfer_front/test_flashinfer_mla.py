"""Latent attention over a cache in two tensors, against one row of it after the other."""

import functools
import math

import pytest

torch = pytest.importorskip("torch")
from flashinfer_cases import WORKSPACE  # noqa: E402

import regard.flashinfer as flashinfer  # noqa: E402
from cached import ints, numbers  # noqa: E402
from latent_cases import LatentPages, close, starts  # noqa: E402

pytestmark = pytest.mark.no_compiler

D, DV, SCALE = 24, 16, 0.2
LENGTHS, COUNTS = [5, 0, 16, 21, 1, 17, 15], [1, 2, 4, 0, 3, 1, 2]


def parts(rows, dv=DV, dtype=torch.float32):
    """Both columns of K, [pages, page, columns], or of Q, [tokens, heads, columns], as tensors of their own."""
    return (rows[..., :dv].to(dtype).contiguous(), rows[..., dv:].to(dtype).contiguous())


def cache_of(pages, dv=DV, dtype=torch.float32):
    return parts(pages.k[:, :, 0], dv, dtype)


def planned(pages, counts, heads, causal=True, dtype=torch.float32, kv=None, wrapper=None, sizes=(DV, D - DV)):
    found = flashinfer.BatchMLAPagedAttentionWrapper(WORKSPACE) if wrapper is None else wrapper
    lists = starts(counts), pages.indptr, pages.indices, pages.lengths
    found.plan(*lists, heads, *sizes, pages.page, causal, SCALE, dtype, dtype if kv is None else kv)
    return found


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("page", "heads"), [(1, 16), (5, 1), (16, 3)])
def test_against_one_row_after_the_other(page, heads, causal):
    pages, q = LatentPages(LENGTHS, page), numbers(7, sum(COUNTS), heads, D)
    run = planned(pages, COUNTS, heads, causal)
    out, lse = run.run(*parts(q), *cache_of(pages), return_lse=True)
    right, of_right = pages.expected(q, COUNTS, causal=causal, scale=SCALE)
    close(out, right)
    close(lse * math.log(2), of_right)
    assert (out[1:3] == 0).all() and (lse[1:3] == -math.inf).all()  # of the sequence without keys
    memory = torch.empty_like(out), torch.empty_like(lse)
    found = run.run(*parts(q), *cache_of(pages), *memory, return_lse=True, return_lse_base_on_e=True)
    assert found[0] is memory[0] and found[1] is memory[1] and torch.equal(memory[0], out)
    close(memory[1], of_right)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
@pytest.mark.parametrize(("heads", "queries"), [(128, 1), (64, 2), (16, 4)])
def test_the_sizes_of_models(dtype, tolerance, heads, queries):
    lengths = [63, 64, 65, 1]
    pages, q = LatentPages(lengths, 64, 576, 512), numbers(7, len(lengths) * queries, heads, 576).to(dtype)
    pages.k = pages.k.to(dtype)
    counts = [queries] * len(lengths)
    run = planned(pages, counts, heads, dtype=dtype, sizes=(512, 64))
    out, lse = run.run(*parts(q, 512, dtype), *cache_of(pages, 512, dtype), return_lse=True)
    right, of_right = pages.expected(q, counts, causal=True, scale=SCALE)
    close(out, right, tolerance)
    close(lse * math.log(2), of_right, tolerance)


def test_strided_parts_of_one_tensor(monkeypatch):
    """Q is then not even copied."""
    pages, q = LatentPages(LENGTHS, 5), numbers(7, sum(COUNTS), 4, D)
    k, run = pages.k[:, :, 0], planned(pages, COUNTS, 4)
    right, other = run.run(*parts(q), *cache_of(pages)), run.run(q[..., :DV], q.flip(0)[..., DV:], *parts(k))
    assert not torch.equal(other, right)
    monkeypatch.setattr(torch, "cat", None)
    assert torch.equal(run.run(q[..., :DV], q[..., DV:], k[..., :DV], k[..., DV:]), right)


def test_no_columns_for_rope():
    pages, q = LatentPages(LENGTHS, 5, DV), numbers(7, sum(COUNTS), 4, DV)
    run = planned(pages, COUNTS, 4, sizes=(DV, 0))
    out, lse = run.run(*parts(q), *cache_of(pages), return_lse=True)
    right, of_right = pages.expected(q, COUNTS, causal=True, scale=SCALE)
    close(out, right)
    close(lse * math.log(2), of_right)


def test_pages_that_are_reserved():
    """Sequences whose lists have more pages than their lengths need."""
    pages, q = LatentPages(LENGTHS, 5), numbers(7, sum(COUNTS), 4, D)
    right = planned(pages, COUNTS, 4).run(*parts(q), *cache_of(pages))
    begins = pages.indptr.tolist()
    lists = [
        pages.indices[begin:end].tolist() + [0] * (i % 3) for i, (begin, end) in enumerate(zip(begins, begins[1:]))
    ]
    pages.indptr, pages.indices = starts(list(map(len, lists))), ints(*sum(lists, []))
    assert torch.equal(planned(pages, COUNTS, 4).run(*parts(q), *cache_of(pages)), right)


@pytest.mark.parametrize("rope", [0, D - DV])
def test_factors_of_eight_bits(rope):
    pages, q = LatentPages(LENGTHS, 5, DV + rope), numbers(7, sum(COUNTS), 4, DV + rope)
    ckv, kpe = (x.to(torch.float8_e4m3fn) for x in cache_of(pages))
    pages.k = torch.cat([2.0 * ckv.float(), 0.5 * kpe.float()], -1)[:, :, None]
    run = planned(pages, COUNTS, 4, kv=torch.float8_e4m3fn, sizes=(DV, rope))
    out = run.run(*parts(q), ckv, kpe, ckv_scale=2.0, kpe_scale=0.5)
    close(out, pages.expected(q, COUNTS, causal=True, scale=SCALE)[0])


@pytest.mark.parametrize("graph", [False, True])
def test_plan_run_plan_run(graph):
    memory = [torch.full((n,), -7, dtype=torch.int32) for n in (4, 4, 40, 3)]
    run = flashinfer.BatchMLAPagedAttentionWrapper(WORKSPACE, graph, *(memory if graph else ()))
    for seed, (lengths, counts) in enumerate(
        [([3, 9, 1], [2, 2, 2]), ([40, 0, 17], [1, 2, 0]), ([64, 30, 5], [2, 2, 2])]
    ):
        pages, q = LatentPages(lengths, 3, seed=seed), numbers(seed, 6, 4, D)
        planned(pages, counts, 4, wrapper=run)
        q = q[: sum(counts)]
        close(run.run(*parts(q), *cache_of(pages)), pages.expected(q, counts, causal=True, scale=SCALE)[0])
        assert not graph or (torch.equal(memory[0], starts(counts)) and torch.equal(memory[1], pages.indptr))


def test_what_run_reads_are_the_buffers():
    one, other = LatentPages([3, 9], 3), LatentPages([40, 2], 3)
    qo_indptr, indptr, indices, last = (torch.zeros(n, dtype=torch.int32) for n in (3, 3, 30, 2))
    run = flashinfer.BatchMLAPagedAttentionWrapper(WORKSPACE, True, qo_indptr, indptr, indices, last)
    q = numbers(7, 2, 4, D)
    planned(one, [1, 1], 4, wrapper=run)
    for memory, values in zip((indptr, indices, last), (other.indptr, other.indices, other.last_page_len)):
        memory[: len(values)] = values
    close(run.run(*parts(q), *cache_of(other)), other.expected(q, [1, 1], scale=SCALE)[0])


def test_append():
    pages, new = LatentPages([9, 6], 4), numbers(8, 4, D)
    ckv, kpe = cache_of(pages)
    where = pages.indices, pages.indptr, pages.last_page_len
    flashinfer.append_paged_mla_kv_cache(*parts(new), ints(1, 0, -1, 0), ints(5, 8, 0, 3), ckv, kpe, *where)
    for token, (sequence, position) in enumerate([(1, 5), (0, 8), (-1, 0), (0, 3)]):
        if sequence >= 0:
            pages.k[pages.place(sequence, position)] = new[token]
    for found, right in zip((ckv, kpe), cache_of(pages)):
        assert torch.equal(found.nan_to_num(9.0), right.nan_to_num(9.0))


PAGES, Q = LatentPages([9, 6], 4), numbers(7, 2, 4, D)
LISTS = ints(0, 1, 2), PAGES.indptr, PAGES.indices, PAGES.lengths


def plan(*lists, wrapper=None, **options):
    run = flashinfer.BatchMLAPagedAttentionWrapper(WORKSPACE) if wrapper is None else wrapper
    types = {"q_data_type": torch.float32, "kv_data_type": torch.float32}
    run.plan(*(lists or LISTS), 4, DV, D - DV, 4, True, SCALE, **{**types, **options})
    return run


def run(*parts_of_q, **options):
    return plan().run(*(parts_of_q or parts(Q)), *cache_of(PAGES), **options)


NEW = torch.zeros(2, DV), torch.zeros(2, D - DV), ints(0, 1), ints(0, 0)
append = functools.partial(
    flashinfer.append_paged_mla_kv_cache,
    **dict(zip(("kv_indices", "kv_indptr", "kv_last_page_len"), (PAGES.indices, PAGES.indptr, PAGES.last_page_len))),
)
SMALL = [x.to(torch.float8_e4m3fn) for x in cache_of(PAGES)]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: flashinfer.BatchMLAPagedAttentionWrapper(WORKSPACE, backend="cutlass"), "backend is 'cutlass'"),
        (
            lambda: flashinfer.BatchMLAPagedAttentionWrapper(WORKSPACE, True),
            "qo_indptr is missing: with use_cuda_graph",
        ),
        (
            lambda: flashinfer.BatchMLAPagedAttentionWrapper(WORKSPACE, True, ints(0, 0)),
            "kv_indptr is missing: with use",
        ),
        (
            lambda: flashinfer.BatchMLAPagedAttentionWrapper(WORKSPACE).run(*parts(Q), *cache_of(PAGES)),
            "has no plan yet",
        ),
        (lambda: plan(ints(0, 2), *LISTS[1:]), r"qo_indptr has 2 numbers and kv_indptr 3; both must be \[b\+1\]"),
        (
            lambda: plan(*LISTS[:3], ints(9)),
            r"kv_indptr has 3 numbers and kv_len_arr 1; they must be \[b\+1\] and \[b\]",
        ),
        (
            lambda: plan(*LISTS[:3], ints(9, 9)),
            r"kv_len_arr\[1\] is 9, and .* 2 pages of page_size=4: it must be 0 to 8",
        ),
        (lambda: plan(*LISTS[:3], ints(-1, 2)), r"kv_len_arr\[0\] is -1"),
        (lambda: plan(LISTS[0], ints(0, 3, 2), *LISTS[2:]), "kv_indptr is not cumulative"),
        (lambda: plan(q_data_type=torch.int8), "q_data_type is torch.int8; it must be float16"),
        (lambda: plan(use_profiler=True), "use_profiler is given, and it is FlashInfer's profiler"),
        (
            lambda: plan(q_data_type=torch.float16).run(*parts(Q), *cache_of(PAGES)),
            "the plan is for q_data_type=torch.float16",
        ),
        (lambda: run(Q[:1, :, :DV], Q[:1, :, DV:]), "q_nope has 1 tokens, and qo_indptr ended at 2: plan again"),
        (lambda: run(*parts(Q[:, :3])), r"q_nope has shape \[2, 3, 16\].* the plan is for \[tokens, 4, 16\]"),
        (lambda: run(*reversed(parts(Q))), r"q_nope has shape \[2, 4, 8\]"),
        (lambda: run(page_table=ints([0])), "page_table is given, and it is for backend='cutlass'"),
        (lambda: run(kv_len=ints(0)), "kv_len is given, and it is for backend='cutlass'"),
        (lambda: run(o_scale=0.5), "o_scale is given, and O is not quantised here"),
        (lambda: run(ckv_scale_arr=Q), "ckv_scale_arr is given, and it has a factor for each 128 columns of a row"),
        (
            lambda: run(ckv_scale=1.0),
            "ckv_scale is given, but only 8-bit caches have factors, and ckv_cache is torch.float32",
        ),
        (lambda: run(out=torch.empty(2, 4, D)), r"out is .*; it must be torch.float32 of shape \[2, 4, 16\]"),
        (lambda: run(lse=torch.empty(4, 2), return_lse=True), r"lse is .* it must be torch.float32 of shape \[2, 4\]"),
        (
            lambda: plan(kv_data_type="float8_e4m3fn").run(*parts(Q), *SMALL, ckv_scale=1.0),
            "ckv_scale and kpe_scale are not both given",
        ),
        (
            lambda: plan(kv_data_type="float8_e4m3fn").run(*parts(Q), *SMALL, ckv_scale=0.0, kpe_scale=1.0),
            "ckv_scale is 0.0; it must be finite and above 0",
        ),
        (lambda: append(*NEW, *cache_of(PAGES)[:1], None), "kpe_cache is of type NoneType; it must be a tensor"),
        (
            lambda: append(*NEW, cache_of(PAGES)[0], cache_of(PAGES)[1][:1]),
            "they must be .pages, page, head_dim_ckv. and",
        ),
        (
            lambda: append(*NEW[:3], ints(0, 99), *cache_of(PAGES)),
            "token 1 belongs to none of the pages of sequence 1, of 2",
        ),
        (
            lambda: append(NEW[0][:1], *NEW[1:], *cache_of(PAGES)),
            r"append_ckv has shape \[1, 16\], append_kpe \[2, 8\]",
        ),
        (
            lambda: flashinfer.BatchDecodeMlaWithPagedKVCacheWrapper(WORKSPACE),
            "FlashInfer has replaced it: use flashinfer",
        ),
        (
            lambda: flashinfer.mla.trtllm_batch_decode_with_kv_cache_mla(),
            "^trtllm_batch_decode_with_kv_cache_mla names",
        ),
        (lambda: flashinfer.mla.xqa_batch_decode_with_kv_cache_mla(), "^xqa_batch_decode_with_kv_cache_mla names"),
        (lambda: flashinfer.mla.trtllm_batch_decode_sparse_mla_dsv4(), "^trtllm_batch_decode_sparse_mla_dsv4 names"),
    ],
)
def test_what_is_wrong_is_said(call, sentence):
    with pytest.raises((ValueError, NotImplementedError, TypeError), match=sentence) as error:
        call()
    assert "\n" not in str(error.value)
