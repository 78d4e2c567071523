"""Prefill wrappers against one row of the cache after the other."""

import itertools
import math

import pytest

torch = pytest.importorskip("torch")
from flashinfer_cases import WORKSPACE, Pages, close, plain  # noqa: E402

import regard.flashinfer as flashinfer  # noqa: E402
from cached import ints, numbers  # noqa: E402
from regard.flashinfer import attend  # noqa: E402

pytestmark = pytest.mark.no_compiler

D, HK = 16, 2
LENGTHS, COUNTS = [9, 0, 16, 21, 3, 5], [1, 2, 7, 0, 7, 5]
FORMS = ["tuple NHD", "one NHD", "tuple HND", "one HND", "interleaved NHD"]


def starts(counts):
    return torch.tensor([0, *counts]).cumsum(0).to(torch.int32)


def wrapper(form="tuple NHD", **options):
    return flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, form[-3:], **options)


def planned(pages, group, form="tuple NHD", counts=COUNTS, **options):
    found = wrapper(form)
    types = {"q_data_type": torch.float32}
    found.plan(starts(counts), *pages.lists, HK * group, HK, D, pages.page, **types, **options)
    return found


@pytest.mark.parametrize(("form", "page", "group"), list(itertools.product(FORMS, [1, 5, 16], [1, 4, 6])))
def test_packed_queries(form, page, group):
    dv = D if form.startswith("one") else 24
    pages = Pages(LENGTHS, page, HK, D, dv)
    q = numbers(7, sum(COUNTS), HK * group, D)
    run = planned(pages, group, form, head_dim_vo=dv, causal=True)
    out, lse = run.run(q, pages.cache(form), return_lse=True)
    right, of_right = pages.expected(q, COUNTS, causal=True)
    close(out, right)
    close(lse, of_right)
    assert (out[1:3] == 0).all() and (lse[1:3] == -math.inf).all()
    memory, of_lse = torch.full_like(out, math.nan), torch.full_like(lse, math.nan)
    found = run.run_return_lse(q, pages.cache(form), out=memory, lse=of_lse)
    assert found[0] is memory and found[1] is of_lse
    assert torch.equal(memory, out) and torch.equal(of_lse, lse)


@pytest.mark.parametrize(
    ("plan", "masks"),
    [
        ({}, {}),
        ({"window_left": 3}, {"window": (3, -1)}),
        ({"window_left": 0, "causal": True}, {"window": (0, 0)}),
        ({"window_left": 4, "causal": True, "logits_soft_cap": 2.0, "sm_scale": 0.7},
         {"window": (4, 0), "softcap": 2.0, "scale": 0.7}),
        ({"causal": True, "max_token_per_sequence": 9, "max_sequence_kv": 100}, {"causal": True}),
        ({"max_sequence_kv": 21}, {}),
    ],
)  # fmt: skip
def test_masks_and_scores(plan, masks):
    pages = Pages(LENGTHS, 5, HK, D)
    q = numbers(7, sum(COUNTS), 8, D)
    out, lse = planned(pages, 4, **plan).run(q, pages.cache("one NHD"), return_lse=True)
    right, of_right = pages.expected(q, COUNTS, **masks)
    close(out, right)
    close(lse, of_right)


def random_masks(counts, lengths):
    chance = torch.Generator().manual_seed(3)
    return [torch.rand((n, length), generator=chance) < 0.6 for n, length in zip(counts, lengths)]


@pytest.mark.parametrize("graph", [False, True])
def test_custom_masks(graph):
    run = wrapper(**of_graphs(len(LENGTHS)) if graph else {})
    for lengths in (LENGTHS, [5, 11, 0, 3, 40, 7]):
        pages, masks = Pages(lengths, 5, HK, D), random_masks(COUNTS, lengths)
        q, flat = numbers(7, sum(COUNTS), 8, D), torch.cat([mask.flatten() for mask in masks])
        where = starts(COUNTS), *pages.lists, 8, HK, D, 5
        bound = {"max_sequence_kv": 50} if graph else {}
        run.plan(*where, custom_mask=flat, causal=True, q_data_type=torch.float32, window_left=6, **bound)
        out, lse = run.run(q, pages.cache("tuple NHD"), return_lse=True)
        right, of_right = pages.expected(q, COUNTS, mask=masks, window=(6, -1))
        close(out, right)
        close(lse, of_right)


def test_a_larger_mask_than_the_first_of_a_graph():
    run = wrapper(**of_graphs(2))
    for lengths in ([5, 5], [8, 2], [9, 1]):
        mask = torch.ones(2 * sum(lengths), dtype=torch.bool)
        arguments = starts([2, 2]), *Pages(lengths, 5, HK, D).lists, 8, HK, D, 5, None, mask
        if lengths[0] <= 8:
            run.plan(*arguments)
            continue
        with pytest.raises(ValueError, match="custom_mask has 9 keys in a sequence, and the first one had room for 8"):
            run.plan(*arguments)


def packed(*masks):
    """Bits from the lowest on, each mask in bytes of its own."""
    rows = [torch.nn.functional.pad(mask.flatten().to(torch.uint8), (0, -mask.numel() % 8)) for mask in masks]
    weights = torch.tensor([1 << i for i in range(8)], dtype=torch.uint8)
    return torch.cat([(row.view(-1, 8) * weights).sum(1, dtype=torch.uint8) for row in rows])


def test_packed_masks():
    counts, lengths = [2, 3], [12, 7]
    pages, masks = Pages(lengths, 5, HK, D), random_masks(counts, lengths)
    q = numbers(7, 5, 8, D)
    run = planned(pages, 4, counts=counts, packed_custom_mask=packed(*masks), custom_mask=torch.zeros(1))
    close(run.run(q, pages.cache("tuple NHD")), pages.expected(q, counts, mask=masks)[0])
    pages, masks = Pages([7, 12], 5, HK, D), random_masks([3, 2], [7, 12])
    with pytest.raises(NotImplementedError, match="packed_custom_mask has sequences that end within a byte"):
        planned(pages, 4, counts=[3, 2], packed_custom_mask=packed(*masks))


def test_alibi_and_sinks():
    pages = Pages(LENGTHS, 5, HK, D)
    q, cache = numbers(7, sum(COUNTS), 4, D), pages.cache("tuple NHD")
    slopes = torch.tensor([0.25, 0.0625, 0.015625, 0.00390625])
    run = planned(pages, 2, pos_encoding_mode="ALIBI", causal=True)
    close(run.run(q, cache), pages.expected(q, COUNTS, causal=True, slopes=slopes)[0])
    sinks = numbers(8, 4)
    out, lse = planned(pages, 2, window_left=3).run(q, cache, sinks=sinks, return_lse=True)
    right, of_right = pages.expected(q, COUNTS, sink=sinks, window=(3, -1))
    close(out, right)
    close(lse, of_right)


def test_other_scores_of_a_call():
    pages = Pages(LENGTHS, 5, HK, D)
    q, cache = numbers(7, sum(COUNTS), 4, D), pages.cache("tuple NHD")
    run = planned(pages, 2)
    out, lse = run.forward_return_lse(q, cache, causal=True, window_left=2, k_scale=0.5, v_scale=2.0)
    right, of_right = pages.expected(q, COUNTS, window=(2, 0), scale=0.5 * D**-0.5)
    close(out, 2 * right)
    close(lse, of_right)
    close(run.forward(q, cache), pages.expected(q, COUNTS)[0])


@pytest.mark.parametrize("of_queries", [False, True])
def test_factors_of_eight_bits(of_queries):
    pages, kind = Pages(LENGTHS, 5, HK, D), torch.float8_e4m3fn
    small = tuple(x.to(kind) for x in pages.cache("tuple NHD"))
    pages.rows.k, pages.rows.v = small[0].float(), small[1].float()
    q = numbers(7, sum(COUNTS), 4, D)
    q = q.to(kind) if of_queries else q
    run = wrapper()
    types = {"q_data_type": q.dtype, "kv_data_type": kind, "o_data_type": torch.bfloat16 if of_queries else None}
    run.plan(starts(COUNTS), *pages.lists, 4, HK, D, 5, **types)
    right = pages.expected(q.float(), COUNTS, scale=1.5 * D**-0.5)[0]
    factors = {"q_scale": torch.tensor(0.5) if of_queries else 0.5, "k_scale": torch.tensor([3.0]), "v_scale": 2.0}
    out = run.run(q, small, **factors)
    assert out.dtype == (torch.bfloat16 if of_queries else torch.float32)
    close(out, 2 * right, 3e-2 if of_queries else 1e-4)


def of_graphs(sequences, pages=60):
    def memory(n):
        return torch.full((n,), -1, dtype=torch.int32)

    return {
        "use_cuda_graph": True,
        "qo_indptr_buf": memory(sequences + 1),
        "paged_kv_indptr_buf": memory(sequences + 1),
        "paged_kv_indices_buf": memory(pages),
        "paged_kv_last_page_len_buf": memory(sequences),
    }


@pytest.mark.parametrize("graph", [False, True])
def test_plan_run_plan_run(graph):
    buffers = of_graphs(3)
    run = wrapper(**buffers if graph else {})
    for seed, (lengths, counts) in enumerate(
        [([3, 9, 1], [1, 5, 6]), ([40, 0, 17], [12, 0, 0]), ([1, 1, 2], [0, 4, 8]), ([64, 30, 5], [4, 4, 4])]
    ):
        pages = Pages(lengths, 3, HK, D, seed=seed)
        q = numbers(seed, 12, 4, D)
        bound = {"max_token_per_sequence": 12} if graph and not seed else {}
        run.plan(starts(counts), *pages.lists, 4, HK, D, 3, causal=True, q_data_type=torch.float32, **bound)
        close(run.run(q, pages.cache("tuple NHD")), pages.expected(q, counts, causal=True)[0])
        if graph:
            assert torch.equal(buffers["qo_indptr_buf"], starts(counts))
            assert torch.equal(buffers["paged_kv_indices_buf"][: len(pages.indices)], pages.indices)
    if graph:
        with pytest.raises(ValueError, match="qo_indptr has 13 queries in all, and the first plan had 12"):
            run.plan(starts([4, 4, 5]), *pages.lists, 4, HK, D, 3)


def options_of(monkeypatch, call):
    """The options of the call that is made: numbers, and where tensors lie."""
    found = []
    monkeypatch.setattr(
        attend, "run_call", lambda *given, run=attend.run_call: (found.append(given[2]), run(*given))[1]
    )
    call()
    return {name: x.data_ptr() if isinstance(x, torch.Tensor) else x for name, x in found[-1].items()}


@pytest.mark.parametrize("kind", ["Decode", "Prefill", "Ragged"])
def test_all_plans_of_a_graph_make_the_same_call(monkeypatch, kind):
    memory = [torch.zeros(n, dtype=torch.int32) for n in (3, 30, 2, 3)]
    if kind == "Decode":
        run = flashinfer.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(WORKSPACE, *memory[:3])
    elif kind == "Prefill":
        run = wrapper(**dict(zip(of_graphs(1), (True, memory[3], *memory[:3]))))
    else:
        run = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(WORKSPACE, "NHD", True, memory[0], memory[3])
    calls = []
    for lengths, counts in (([3, 9], [0, 6]), ([40, 2], [5, 1])):
        pages, k = Pages(lengths, 3, HK, D), numbers(1, 42, HK, D)
        q, numbers_of = numbers(7, 2 if kind == "Decode" else 6, 4, D), (4, HK, D)
        if kind == "Ragged":
            run.plan(starts(counts), starts(lengths), *numbers_of, q_data_type=torch.float32)
            calls.append(options_of(monkeypatch, lambda q=q, k=k: run.run(q, k, k)))
            continue
        lists = pages.lists if kind == "Decode" else (starts(counts), *pages.lists)
        run.plan(*lists, *numbers_of, 3, q_data_type=torch.float32)
        cache = tuple(torch.nn.functional.pad(x, (0,) * 6 + (0, 25 - x.shape[0])) for x in pages.cache("tuple NHD"))
        calls.append(options_of(monkeypatch, lambda q=q, cache=cache: run.run(q, cache)))
    assert calls[0] == calls[1]


def test_caches_of_different_sizes_in_one_graph(monkeypatch):
    """A sequence has at most the pages of the cache, or those of the buffer."""
    run = wrapper(**of_graphs(1))
    pages, q, more = Pages([9], 3, HK, D), numbers(7, 2, 4, D), numbers(1, 90, 3, HK, D)
    run.plan(starts([2]), *pages.lists, 4, HK, D, 3, q_data_type=torch.float32)
    cache = pages.cache("tuple NHD")
    for k, v in (cache, (more, more), cache):
        bound = options_of(monkeypatch, lambda k=k, v=v: run.run(q, (k, v)))["sk"]
        assert bound == 3 * min(k.shape[0], 60)
    close(run.run(q, cache), pages.expected(q, [2])[0])


@pytest.mark.parametrize("given", [{"fixed_split_size": 4}, {"disable_split_kv": True}])
def test_splits_that_do_not_depend_on_the_batch(monkeypatch, given):
    pages, q = Pages(LENGTHS, 5, HK, D), numbers(7, sum(COUNTS), 4, D)
    run = planned(pages, 2, **given)
    assert options_of(monkeypatch, lambda: run.run(q, pages.cache("tuple NHD")))["batch_invariant"] is True


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_packed_keys(graph, masked):
    memory = [torch.zeros(4, dtype=torch.int32) for _ in range(2)]
    given = {"use_cuda_graph": True, "qo_indptr_buf": memory[0], "kv_indptr_buf": memory[1]} if graph else {}
    run = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(WORKSPACE, **given)
    for counts, lengths in (([3, 0, 7], [4, 3, 9]), ([2, 7, 1], [0, 10, 6]), ([5, 4, 1], [15, 1, 0])):
        q, k, v = numbers(1, 10, 4, D), numbers(2, 16, HK, D), numbers(3, 16, HK, 24)
        masks = random_masks(counts, lengths)
        flat = torch.cat([mask.flatten() for mask in masks]) if masked else None
        scores = {"causal": not masked, "custom_mask": flat, "window_left": 5}
        run.plan(starts(counts), starts(lengths), 4, HK, D, 24, q_data_type=torch.float32, **scores)
        out, lse = run.run(q, k, v, return_lse=True)
        found = []
        for i, rows in enumerate(q.split(counts)):
            keys = [x.split(lengths)[i] for x in (k, v)]
            causal = torch.ones(counts[i], lengths[i], dtype=torch.bool).tril(lengths[i] - counts[i])
            found.append(plain(rows, *keys, mask=masks[i] if masked else causal, window=(5, -1)))
        close(out, torch.cat([o for o, _ in found]))
        close(lse, torch.cat([of_lse for _, of_lse in found]))
        close(run.forward(q, k, v, window_left=5, causal=True), out)
        run.plan(starts(counts), starts(lengths), 4, HK, D, 24, q_data_type=torch.float32, **scores)
        close(
            run.run(q, k, v, q_scale=2.0, v_scale=0.5),
            0.5 * run.forward(q, k, v, True, sm_scale=2 * D**-0.5, window_left=5),
        )


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("masked", ["", "bool", "packed"])
def test_one_sequence_without_pages(layout, masked):
    q, k, v = numbers(1, 6, 4, D), numbers(2, 11, HK, D), numbers(3, 11, HK, D)
    mask = random_masks([6], [11])[0] if masked else torch.ones(6, 11, dtype=torch.bool).tril(5)
    of_layout = (k, v) if layout == "NHD" else (k.transpose(0, 1), v.transpose(0, 1))
    given = {"": {}, "bool": {"custom_mask": mask}, "packed": {"packed_custom_mask": packed(mask)}}[masked]
    call = {"causal": True, "kv_layout": layout, "k_scale": 0.5, "v_scale": 2.0, **given}
    out, lse = flashinfer.single_prefill_with_kv_cache_return_lse(q, *of_layout, **call)
    right, of_right = plain(q, k, v, mask=mask, scale=0.5 * D**-0.5)
    close(out, 2 * right)
    close(lse, of_right)
    assert torch.equal(flashinfer.single_prefill_with_kv_cache(q, *of_layout, **call), out)


def test_other_types_of_results():
    q, k, v = (numbers(i, 6, 2, D).to(torch.float8_e4m3fn) for i in range(3))
    out = flashinfer.single_prefill_with_kv_cache(q, k, v, o_dtype=torch.float16)
    assert out.dtype == torch.float16
    close(out, plain(q.float(), k.float(), v.float())[0], 3e-2)
    run = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(WORKSPACE)
    run.plan(ints(0, 6), ints(0, 6), 2, 2, D, q_data_type="float8_e4m3fn")
    assert run.run(q, k, v).dtype == torch.bfloat16


def test_no_queries():
    pages = Pages([4, 3], 5, HK, D)
    out, lse = planned(pages, 2, counts=[0, 0]).run(torch.empty(0, 4, D), pages.cache("tuple NHD"), return_lse=True)
    assert out.shape == (0, 4, D) and lse.shape == (0, 4)


def test_chunks_are_prefill_as_a_whole():
    """The LSE of two parts of the keys merges into that of all."""
    pages, q = Pages([32], 8, HK, D), numbers(7, 5, 4, D)
    cache = pages.cache("tuple NHD")
    parts = []
    for begin, end in ((0, 3), (3, 4)):
        run = wrapper()
        lists = ints(0, end - begin), pages.indices[begin:end], ints(8)
        run.plan(ints(0, 5), *lists, 4, HK, D, 8, q_data_type="float32")
        parts += run.run(q, cache, return_lse=True)
    out, lse = flashinfer.merge_state(*parts)
    right, of_right = pages.expected(q, [5])
    close(out, right)
    close(lse, of_right)
