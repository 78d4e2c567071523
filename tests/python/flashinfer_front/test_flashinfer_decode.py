"""Decode wrappers against one row of the cache after the other."""

import functools
import itertools
import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from flashinfer_cases import WORKSPACE, Pages, close  # noqa: E402

import regard.flashinfer as flashinfer  # noqa: E402
from cached import ints, numbers  # noqa: E402

pytestmark = pytest.mark.no_compiler

D, HK = 16, 2
LENGTHS = [5, 0, 16, 21, 1]
FORMS = ["tuple NHD", "one NHD", "tuple HND", "one HND", "interleaved NHD"]


def wrapper(form="tuple NHD", **options):
    return flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, form[-3:], **options)


def planned(pages, group, form="tuple NHD", **options):
    found = wrapper(form)
    found.plan(*pages.lists, HK * group, HK, D, pages.page, **{"q_data_type": torch.float32, **options})
    return found


@pytest.mark.parametrize(("form", "page", "group"), list(itertools.product(FORMS, [1, 5, 16], [1, 4, 6])))
def test_one_query_of_each_sequence(form, page, group):
    pages = Pages(LENGTHS, page, HK, D)
    q = numbers(7, len(LENGTHS), HK * group, D)
    out, lse = planned(pages, group, form).run(q, pages.cache(form), return_lse=True)
    right, of_right = pages.expected(q, [1] * len(LENGTHS))
    close(out, right)
    close(lse, of_right)
    assert (out[1] == 0).all() and (lse[1] == -math.inf).all()


@pytest.mark.parametrize("queries", [1, 2, 7])
@pytest.mark.parametrize(
    ("plan", "masks"),
    [
        ({}, {}),
        ({"window_left": 3}, {"window": (3, 0)}),
        ({"window_left": 0}, {"window": (0, 0)}),
        ({"logits_soft_cap": 2.0, "sm_scale": 0.7}, {"softcap": 2.0, "scale": 0.7}),
    ],
)
def test_a_few_queries_are_causal(queries, plan, masks):
    pages = Pages(LENGTHS, 5, HK, D)
    q = numbers(7, len(LENGTHS) * queries, 8, D)
    out, lse = planned(pages, 4, q_len_per_req=queries, **plan).run(q, pages.cache("one NHD"), return_lse=True)
    right, of_right = pages.expected(q, [queries] * len(LENGTHS), **{"causal": queries > 1, **masks})
    close(out, right)
    close(lse, of_right)


def test_memory_of_the_caller():
    pages = Pages(LENGTHS, 5, HK, D)
    cache = pages.cache("tuple NHD")
    for queries in (1, 2):
        q = numbers(7, len(LENGTHS) * queries, 8, D)
        run = planned(pages, 4, q_len_per_req=queries)
        right, of_right = run.run_return_lse(q, cache)
        out, lse = torch.empty_like(q), torch.empty(q.shape[:2])
        found = run.run(q, cache, out=out, lse=lse, return_lse=True)
        assert found[0] is out and found[1] is lse
        assert torch.equal(out, right) and torch.equal(lse, of_right)
        strided = torch.empty(8, q.shape[0]).t()
        assert torch.equal(run.run(q, cache, lse=strided, return_lse=True)[1], of_right)
        assert run.run(q, cache, out=out) is out


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_are_half_by_default(dtype):
    pages = Pages(LENGTHS, 16, HK, D)
    q = numbers(7, len(LENGTHS), 8, D)
    run = wrapper()
    run.plan(*pages.lists, 8, HK, D, 16, **({} if dtype == torch.float16 else {"q_data_type": "bfloat16"}))
    out = run.run(q.to(dtype), pages.cache("tuple NHD", dtype))
    assert out.dtype == dtype
    close(out, pages.expected(q, [1] * len(LENGTHS))[0], 3e-2)


def test_factors_of_numbers():
    pages = Pages(LENGTHS, 5, HK, D)
    q, cache = numbers(7, len(LENGTHS), 8, D), pages.cache("tuple NHD")
    run = planned(pages, 4)
    out, lse = run.run(q, cache, q_scale=0.5, k_scale=3.0, v_scale=0.25, return_lse=True)
    right, of_right = pages.expected(q, [1] * len(LENGTHS), scale=1.5 * D**-0.5)
    close(out, 0.25 * right)
    close(lse, of_right)
    assert torch.equal(run.run(q, cache, q_scale=1.0, k_scale=1.0, v_scale=1.0), run.run(q, cache))


@pytest.mark.parametrize("kind", [float, torch.tensor])
def test_factors_of_eight_bits(kind):
    pages = Pages(LENGTHS, 5, HK, D)
    k, v = pages.cache("tuple NHD")
    small = k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn)
    pages.rows.k, pages.rows.v = small[0].float(), small[1].float()
    q = numbers(7, len(LENGTHS), 8, D)
    run = planned(pages, 4, kv_data_type="float8_e4m3fn")
    right = pages.expected(q, [1] * len(LENGTHS), scale=3 * D**-0.5)[0]
    close(run.run(q, small, k_scale=kind(3.0), v_scale=kind(0.25)), 0.25 * right)
    close(run.run(q, small), pages.expected(q, [1] * len(LENGTHS))[0])


def test_sinks_and_other_scores():
    pages = Pages(LENGTHS, 5, HK, D)
    q, sinks = numbers(7, len(LENGTHS), 8, D), numbers(8, 8)
    run = planned(pages, 4)
    out, lse = run.run(q, pages.cache("tuple NHD"), sinks=sinks, return_lse=True)
    right, of_right = pages.expected(q, [1] * len(LENGTHS), sink=sinks)
    close(out, right)
    close(lse, of_right)
    out, lse = run.forward_return_lse(q, pages.cache("tuple NHD"), window_left=2, sm_scale=0.3)
    right, of_right = pages.expected(q, [1] * len(LENGTHS), window=(2, 0), scale=0.3)
    close(out, right)
    close(lse, of_right)
    close(run.forward(q, pages.cache("tuple NHD")), pages.expected(q, [1] * len(LENGTHS))[0])


@pytest.mark.parametrize("heads", [4, 6, 12])
def test_alibi(heads):
    pages = Pages([7, 3], 5, HK, D)
    q = numbers(7, 2, heads, D)
    found = wrapper()
    found.plan(*pages.lists, heads, HK, D, 5, pos_encoding_mode="ALIBI", q_data_type="float32")
    n = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 / n * (i + 1)) for i in range(n)] + [2 ** (-4 / n * (2 * i + 1)) for i in range(heads - n)]
    close(found.run(q, pages.cache("tuple NHD")), pages.expected(q, [1, 1], slopes=torch.tensor(slopes))[0])


@pytest.mark.parametrize("graph", [False, True])
def test_plan_run_plan_run(graph):
    buffers = {
        "paged_kv_indptr_buffer": torch.full((4,), -1, dtype=torch.int32),
        "paged_kv_indices_buffer": torch.full((40,), -7, dtype=torch.int32),
        "paged_kv_last_page_len_buffer": torch.full((3,), -1, dtype=torch.int32),
    }
    run = wrapper(use_cuda_graph=graph, **(buffers if graph else {}))
    for seed, lengths in enumerate([[3, 9, 1], [40, 0, 17], [1, 1, 2], [64, 30, 5]]):
        pages = Pages(lengths, 3, HK, D, seed=seed)
        q = numbers(seed, 3, 4, D)
        run.plan(*pages.lists, 4, HK, D, 3, q_data_type=torch.float32)
        close(run.run(q, pages.cache("tuple NHD")), pages.expected(q, [1, 1, 1])[0])
        if graph:
            assert torch.equal(buffers["paged_kv_indptr_buffer"], pages.indptr)


def test_what_run_reads_are_the_buffers():
    """A graph is replayed with what plan copied into the buffers: run does the same with what is in them."""
    one, other = Pages([3, 9], 3, HK, D), Pages([40, 2], 3, HK, D)
    indptr, indices, last = (
        torch.zeros(3, dtype=torch.int32),
        torch.zeros(30, dtype=torch.int32),
        torch.zeros(2, dtype=torch.int32),
    )
    run = flashinfer.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(WORKSPACE, indptr, indices, last)
    q = numbers(7, 2, 4, D)
    run.plan(*one.lists, 4, HK, D, 3, q_data_type=torch.float32)
    assert run.is_cuda_graph_enabled
    indptr.copy_(other.indptr)
    indices[: len(other.indices)] = other.indices
    last.copy_(other.last_page_len)
    close(run.run(q, other.cache("tuple NHD")), other.expected(q, [1, 1])[0])


def test_a_plan_put_in_its_place():
    pages, q = Pages([9, 4], 3, HK, D), numbers(7, 2, 4, D)
    indptr, last = torch.zeros(3, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    indices = torch.zeros(30, dtype=torch.int32)
    run = flashinfer.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(WORKSPACE, indptr, indices, last)
    run.begin_forward = functools.partial(flashinfer.fast_decode_plan, run)
    for memory, values in zip((indptr, indices, last), pages.lists):
        memory[: len(values)] = values
    types = {"data_type": torch.float32, "global_override_indptr_cpu": pages.indptr}
    run.begin_forward(indptr, indices, last, 4, HK, D, 3, **types)
    close(run.forward(q, pages.cache("tuple NHD")), pages.expected(q, [1, 1])[0])


@pytest.mark.parametrize(
    ("sequences", "queries", "parts"), [(1, 1, 33), (2, 1, 16), (16, 1, 2), (64, 1, 1), (1, 20, 16), (0, 1, 264)]
)
def test_parts_of_unknown_lengths(monkeypatch, sequences, queries, parts):
    """With 132 multiprocessors, 32 heads of Q and 8 of K, a graph's calls have about two blocks for each of them."""
    run = wrapper()
    assert run._parts(sequences, queries, 32, 8) == {}
    run.device, run._use_cuda_graph = torch.device("cuda"), True
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=132))
    assert run._parts(sequences, queries, 32, 8) == {"splits": parts}


def test_results_do_not_depend_on_the_batch():
    pages = Pages([700, 5], 16, HK, D)
    q, cache = numbers(7, 2, 4, D), pages.cache("tuple NHD")
    together = planned(pages, 2, fixed_split_size=8).run(q, cache)
    alone = wrapper()
    first = ints(0, pages.counts[0]), pages.indices[: pages.counts[0]], pages.last_page_len[:1]
    alone.plan(*first, 4, HK, D, 16, q_data_type="float32", disable_split_kv=True)
    assert torch.equal(alone.run(q[:1], cache), together[:1])


@pytest.mark.parametrize("hnd", [False, True])
def test_pages_of_one_token_without_their_dimension(hnd):
    pages = Pages([4, 2], 1, HK, D)
    q = numbers(7, 2, 4, D)
    k, v = (x[:, 0] for x in pages.cache("tuple NHD"))
    right = pages.expected(q, [1, 1])[0]
    run = planned(pages, 2, "tuple HND" if hnd else "tuple NHD")
    close(run.run(q, (k, v)), right)
    close(run.run(q, torch.stack([k, v], 1)), right)


def test_no_sequences():
    pages = Pages([], 5, HK, D)
    out, lse = planned(pages, 2).run(torch.empty(0, 4, D), Pages([3], 5, HK, D).cache("tuple NHD"), return_lse=True)
    assert out.shape == (0, 4, D) and lse.shape == (0, 4)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_one_sequence_without_pages(layout):
    k, v, q = numbers(1, 9, HK, D), numbers(2, 9, HK, D), numbers(3, 8, D)
    of_layout = (k, v) if layout == "NHD" else (k.transpose(0, 1), v.transpose(0, 1))
    pages = Pages([9], 16, HK, D)
    pages.rows.k[pages.indices[0], :9], pages.rows.v[pages.indices[0], :9] = k, v
    out, lse = flashinfer.single_decode_with_kv_cache(q, *of_layout, layout, window_left=4, return_lse=True)
    right, of_right = pages.expected(q[None], [1], window=(4, 0))
    close(out, right[0])
    close(lse, of_right[0])
    assert torch.equal(flashinfer.single_decode_with_kv_cache(q, *of_layout, layout, window_left=4), out)


def test_lists_and_queries_of_any_length_share_a_plan(monkeypatch):
    from regard import call

    firsts = []
    monkeypatch.setattr(call.Call, "run_first", lambda self, run=call.Call.run_first: (firsts.append(1), run(self))[1])
    pages, q = Pages([64, 40], 4, HK, D), numbers(7, 2, 4, D)
    run, cache = wrapper(), pages.cache("tuple NHD")
    for tokens in range(33, 64):
        used = -(-tokens // 4)
        lists = ints(0, used, used + 3), pages.indices[: used + 3], ints((tokens - 1) % 4 + 1, 4)
        run.plan(*lists, 4, HK, D, 4, q_data_type=torch.float32, sm_scale=0.123456)
        run.run(q, cache)
    assert len(firsts) == 1
