"""Equal bits where they must be equal, right numbers beyond 4 GiB, graphs, streams and devices, with PyTorch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
import regard  # noqa: E402
from here import FAMILIES, KIND  # noqa: E402
from planned import Planned, draw, same, solved  # noqa: E402

D = (64, 128, 256)
SHAPES = {
    "dense": ("", 2, 8, 2, 1000, 1000),
    "causal": ("mask=causal", 2, 8, 2, 1000, 1200),
    "window": ("mask=window:300,0", 2, 8, 8, 1500, 1500),
    "decode": ("mask=causal", 4, 16, 2, 1, 3000),
    "in parts": ("splits=4", 2, 8, 2, 16, 3000),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("shape", SHAPES)
def test_250_runs_give_the_same_bits(shape, d, family):
    run = solved(lambda: Planned(*SHAPES[shape], d, family))
    o, lse = run.fresh()
    assert not o.isnan().any() and not lse.isnan().any()
    different = sum(not same(now, first) for _ in range(250) for now, first in zip(run.fresh(), (o, lse)))
    assert different == 0, f"{different} of 500 outputs differ from the first run's: {run.problem}"


@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("shape", SHAPES)
def test_pipelines_and_the_cpu_agree(shape, d, record_property):
    runs = {}
    for family in FAMILIES:
        try:
            runs[family] = Planned(*SHAPES[shape], d, family)
        except regard.RefusedError:
            continue
    assert runs
    first = next(iter(runs.values()))
    q, k, v = (x.cpu() for x in (first.q, first.k, first.v))
    o, lse = torch.empty_like(q), torch.empty(first.lse.shape)
    regard.plan(first.problem).run(q=q, k=k, v=v, o=o, lse=lse)
    for family, run in runs.items():
        got_o, got_lse = (x.cpu() for x in run.fresh())
        difference = (got_o.float() - o.float()).abs() / o.float().abs().clamp(min=1)
        errors = float(difference.max()), float((got_lse - lse).abs().max())
        record_property(family, errors)
        # Both round weights and outputs to bf16: one unit in the last place, which for numbers above 1 grows with them.
        assert errors[0] < 0.01 and errors[1] < 1e-3, (run.problem, family, errors)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_graph_replays_on_new_inputs(family):
    run = Planned("mask=causal", 2, 8, 2, 700, 900, 128, family)
    run.plan.prepare()
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for seed in (1, 2, 3):
        for tensor in (run.q, run.k, run.v):
            tensor.copy_(draw(*tensor.shape, seed=seed))
        expected = run.fresh()
        run.o.fill_(float("nan"))
        run.lse.fill_(float("nan"))
        graph.replay()
        assert same(run.o, expected[0]) and same(run.lse, expected[1])


def test_code_that_is_not_loaded_is_refused_inside_a_capture():
    run = Planned("mask=causal softcap=17", 1, 2, 2, 64, 64, 104)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), pytest.raises(regard.RegardError, match="prepare"):
        run()
    run()  # outside the graph, so that the kernel is loaded
    assert not run.o.isnan().any()


@pytest.mark.parametrize("family", FAMILIES)
def test_two_streams_at_once(family):
    runs = [Planned("mask=causal", 1, 4, 2, 500 + 200 * i, 900, 128, family) for i in range(2)]
    expected = [run.fresh() for run in runs]
    streams = [torch.cuda.Stream() for _ in runs]
    torch.cuda.synchronize()
    for _ in range(100):
        for run, stream in zip(runs, streams):
            with torch.cuda.stream(stream):
                run.o.fill_(float("nan"))
                run()
    torch.cuda.synchronize()
    for run, (o, lse) in zip(runs, expected):
        assert same(run.o, o) and same(run.lse, lse)


def test_work_from_counters_in_streams_and_graphs():
    """More blocks than multiprocessors, and a mask: each stream has a counter, and each graph its own."""
    eager, other, captured, beside = (Planned("mask=causal", 4, 16, 4, 700 + 100 * i, 900, 64) for i in range(4))
    runs = eager, other, captured, beside
    expected = [run.fresh() for run in runs]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured()
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    for _ in range(100):
        for run in runs:
            run.o.fill_(float("nan"))
        torch.cuda.synchronize()
        for stream, calls in zip(streams, ([eager], [other], [graph.replay, beside, graph.replay])):
            with torch.cuda.stream(stream):
                for call in calls:
                    call()
        torch.cuda.synchronize()
        for run, (o, lse) in zip(runs, expected):
            assert same(run.o, o) and same(run.lse, lse)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("sq", "splits"), [(1, 16), (16, 4), (300, 2)])
def test_parts_of_calls_in_a_row_share_a_workspace(sq, splits, family):
    """The merge may begin while the parts end, but the next call's parts only after the merge; also in a graph."""
    runs = [Planned(f"splits={splits}", 2, 8, 2, sq, 3000, 128, family) for _ in range(3)]
    for seed, run in enumerate(runs):
        for tensor in (run.q, run.k, run.v):
            tensor.copy_(draw(*tensor.shape, seed=100 * seed))
        run.workspace = runs[0].workspace
    expected = [run.fresh() for run in runs]
    assert not same(expected[0][0], expected[1][0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for run in runs:
            run()

    def eagerly():
        for run in runs:
            run()

    for call in (eagerly, graph.replay):
        for _ in range(50):
            for run in runs:
                run.o.fill_(float("nan"))
            for _ in range(5):
                call()
            for run, (o, lse) in zip(runs, expected):
                assert same(run.o, o) and same(run.lse, lse)


def test_repeated_calls_run_in_the_current_stream():
    q, k, v = (draw(4, 700, h, 64) for h in (16, 4, 4))
    expected = regard.attention(q, k, v, causal=True)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(10):
            late = torch.zeros_like(q)
            torch.cuda._sleep(2_000_000)
            late.copy_(q)
            assert same(regard.attention(late, k, v, causal=True), expected)


class Interface:
    """A tensor that has only __cuda_array_interface__."""

    def __init__(self, tensor, stream=None):
        attributes = dict(tensor.__cuda_array_interface__)
        self.__cuda_array_interface__ = attributes | {"version": 3, "stream": stream} if stream else attributes


def test_the_cuda_array_interface_keeps_the_order_of_streams():
    q, k, v = (draw(1, s, 4, 64, dtype=torch.float16) for s in (700, 900, 900))
    o, lse = torch.empty_like(q), torch.empty(1, 4, 700, device="cuda")
    expected = regard.attention(q, k, v, causal=True, lse=True)
    given = [Interface(x) for x in (q, k, v)]
    regard.attention(*given, causal=True, out=Interface(o), lse=Interface(lse))
    torch.cuda.synchronize()
    assert same(o, expected[0]) and same(lse, expected[1])

    late, fresh = torch.empty_like(q), q.clone()
    stream, other = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for call in ({}, {"stream": other}):
        late.zero_()
        o.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            late.copy_(fresh)
            given[0] = Interface(late, stream.cuda_stream)
            regard.attention(*given, causal=True, out=Interface(o), lse=Interface(lse), **call)
            late.zero_()  # after the call, in the owner's stream
        torch.cuda.synchronize()
        assert same(o, expected[0]) and same(lse, expected[1])


def test_threads_with_streams_of_their_own():
    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            run = Planned("mask=causal", 1, 4, 2, 300 + i, 400, 64)
            first = run.fresh()
            return all(same(a, b) for _ in range(30) for a, b in zip(run.fresh(), first))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
@pytest.mark.parametrize("family", FAMILIES)
def test_two_devices_give_the_same_bits(family):
    runs = [Planned("mask=causal", 2, 8, 2, 500, 900, 128, family, device=f"cuda:{i}") for i in (0, 1)]
    results = []
    for run in runs:
        with torch.cuda.device(run.q.device):
            results.append([x.cpu() for x in run.fresh()])
    for a, b in zip(*results):
        assert same(a, b)


def expect_batch_invariance(sq, sk, d, dtype, batches, others, options):
    """A row's bits do not depend on the rest of the call: dense batches (size, position), packed sequences."""
    hq, hk = 8, 2

    def drawn(*shape, **seed):
        return draw(*shape, dtype=dtype, **seed)

    q, k, v = (drawn(1, s, h, d) for s, h in ((sq, hq), (sk, hk), (sk, hk)))
    o, lse = solved(lambda: regard.attention(q, k, v, **options))
    assert not o.isnan().any()
    for b, position in batches:
        batch = [drawn(b, *x.shape[1:], seed=b) for x in (q, k, v)]
        for all_of, one in zip(batch, (q, k, v)):
            all_of[position] = one[0]
        got_o, got_lse = regard.attention(*batch, **options)
        assert same(got_o[position], o[0]) and same(got_lse[position], lse[0]), f"dense b={b}, position {position}"
    for position in range(len(others) + 1):
        lengths = list(others)
        lengths.insert(position, 0)
        parts = [
            [one[0] if i == position else drawn(length, *one.shape[2:], seed=i) for i, length in enumerate(lengths)]
            for one in (q, k, v)
        ]
        offsets = [
            torch.tensor([0, *torch.tensor([len(x) for x in part]).cumsum(0)], dtype=torch.int32, device="cuda")
            for part in parts[:2]
        ]
        got_o, got_lse = regard.attention(
            *(torch.cat([x.view(torch.uint8) for x in part]).view(dtype) for part in parts),
            offsets_q=offsets[0],
            offsets_k=offsets[1],
            sq=1000,
            sk=1000,
            **options,
        )
        start = int(offsets[0][position])
        assert same(got_o[start : start + sq], o[0]), f"packed, position {position} of {len(lengths)}"
        assert same(got_lse[:, start : start + sq], lse[0]), f"packed LSE, position {position} of {len(lengths)}"


INVARIANT = {"target": KIND, "batch_invariant": True, "lse": True}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("d", D)
# The last window hides nothing of a sequence on its own, but hides something of a longer one next to it.
@pytest.mark.parametrize(
    "mask",
    [{}, {"causal": True}, {"window": (200, 0)}, {"window": (910, -1)}],
    ids=["full", "causal", "window", "wide"],
)
@pytest.mark.parametrize(("sq", "sk"), [(300, 700), (1, 900), (700, 700)])
def test_batch_invariance(sq, sk, mask, d, family):
    batches, others = ((2, 0), (2, 1), (5, 3), (33, 17)), (5, 640, 131, 1000)
    expect_batch_invariance(sq, sk, d, torch.bfloat16, batches, others, {**INVARIANT, **mask, "family": family})


FEATURES = {
    "fp16": (torch.float16, {"causal": True}),
    "fp8": (torch.float8_e4m3fn, {"out": "bf16"}),
    "fp8 causal": (torch.float8_e4m3fn, {"out": "bf16", "causal": True}),
    "softcap": (torch.bfloat16, {"causal": True, "softcap": 5.0}),
    "sink": (torch.bfloat16, {"causal": True, "sink": [0.5, -1.0, 3.0, 0.0, 2.0, -9.0, 1.0, 0.1]}),
    "sink tokens": (torch.bfloat16, {"window": (100, 0), "sink_tokens": 3}),
    "ALiBi": (torch.bfloat16, {"causal": True, "alibi": [0.5**i for i in range(8)]}),
    "softcap, ALiBi": (torch.bfloat16, {"causal": True, "softcap": 5.0, "alibi": [0.5**i for i in range(8)]}),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("feature", FEATURES)
def test_batch_invariance_of_features(feature, family):
    dtype, words = FEATURES[feature]
    given = {name: torch.tensor(x, device="cuda") if isinstance(x, list) else x for name, x in words.items()}
    expect_batch_invariance(
        300, 700, 128, dtype, ((2, 1), (5, 3)), (5, 640, 1000), {**INVARIANT, **given, "family": family}
    )


def bits(x):
    """As integers, which PyTorch can move whatever the type."""
    return x.view(torch.uint8 if x.dtype.itemsize == 1 else torch.int16)


def in_pages(x, page, blocks):
    """One sequence [1, s, h, d] as pages in another order, after one of NaN, and the pages of its blocks."""
    _, s, h, d = x.shape
    count = -(-s // page)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(page)).cuda() + 1
    nan = (1 << (8 * x.dtype.itemsize - 1)) - 1
    pages = torch.full((count + 1, page, h, d), nan, dtype=bits(x).dtype, device="cuda")
    pages[order] = torch.nn.functional.pad(bits(x)[0], (0, 0, 0, 0, 0, count * page - s)).view(count, page, h, d)
    table = torch.full((1, blocks), -1, dtype=torch.int32, device="cuda")
    table[0, :count] = order.to(torch.int32)
    return pages.view(x.dtype), table


def a_row_everywhere(q, k, v, page, options):
    """A query and the keys that it sees in calls of every kind: (what, O and LSE of that query)."""
    keys, hq, d = k.shape[1], *q.shape[2:]
    blocks = -(-2 * keys // page)

    def length(*n):
        return torch.tensor(n, dtype=torch.int32, device="cuda")

    def join(parts, dimension):
        return torch.cat([bits(x) for x in parts], dimension).view(q.dtype)

    def other(*shape):
        return draw(*shape, dtype=q.dtype, seed=7)

    def longer(x, rows):
        return join([x, other(1, rows, *x.shape[2:])], 1)

    yield "alone", regard.attention(q, k, v, **options)
    for bound in (keys + 300, 3 * keys):
        batch = [join([other(1, bound, *x.shape[2:]), longer(x, bound - keys)], 0) for x in (k, v)]
        two = join([other(1, 1, hq, d), q], 0)
        o, lse = regard.attention(two, *batch, lengths_k=length(bound, keys), **options)
        yield f"beside a longer one, bound {bound}", (o[1:], lse[1:])
    for rows, row in ((1, 0), (3, 1), (200, 150), (700, 699)):
        after = rows - 1 - row
        chunk = join([other(1, row, hq, d), q, other(1, after, hq, d)], 1)
        ks, vs = longer(k, after), longer(v, after)
        (pk, table), (pv, _) = (in_pages(x, page, blocks) for x in (ks, vs))
        pages = {"page_table": table, "lengths_k": length(keys + after)}
        for kind, of_kind, words in (("dense", (ks, vs), {}), (f"page {page}", (pk, pv), pages)):
            o, lse = regard.attention(chunk, *of_kind, **words, **options)
            yield f"row {row} of {rows}, {kind}", (o[:, row : row + 1], lse[..., row : row + 1])


CHUNKED = {
    "causal": (torch.bfloat16, {"causal": True}),
    "window": (torch.bfloat16, {"window": (700, 0)}),
    "softcap": (torch.bfloat16, {"causal": True, "softcap": 5.0}),
    "sink": (torch.bfloat16, {"causal": True, "sink": [0.5, -1.0, 3.0, 0.0, 2.0, -9.0, 1.0, 0.1]}),
    "large scores": (torch.bfloat16, {"causal": True, "scale": 1.0}),
    "fp8": (torch.float8_e4m3fn, {"causal": True, "out": "bf16"}),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("feature", CHUNKED)
@pytest.mark.parametrize("keys", [900, 9000])
def test_a_row_has_the_same_bits_decoded_and_in_a_chunk(keys, feature, d, family):
    """Keys are cut at the same places whatever the call: 900 are one part."""
    dtype, words = CHUNKED[feature]
    given = {name: torch.tensor(x, device="cuda") if isinstance(x, list) else x for name, x in words.items()}
    page = 16 if family == "sm90_forward" else 7  # not all of Hopper's tiles read others
    q, k, v = (draw(1, s, h, d, dtype=dtype, seed=h + s + i) for i, (s, h) in enumerate(((1, 8), (keys, 2), (keys, 2))))
    options = {**INVARIANT, **given, "family": family}
    (_, expected), *others = solved(lambda: list(a_row_everywhere(q, k, v, page, options)))
    assert not expected[0].isnan().any()
    for what, got in others:
        for a, b in zip(got, expected):
            assert same(a, b), what


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", ["dense", "causal", "in parts"])
@pytest.mark.parametrize("d", D)
def test_rows_far_below_a_soft_cap_keep_their_bits_beside_rows_near_it(d, shape, family):
    """The largest score of a warp decides which of two forms of tanh it uses."""
    words, *sizes = SHAPES[shape]
    run = solved(lambda: Planned(f"{words} softcap=4", *sizes, d, family))
    run.q *= 0.25
    quiet = run.fresh()
    loud = torch.arange(run.q.shape[1], device="cuda") % 16 == 3
    run.q[:, loud] *= 64
    mixed = run.fresh()
    assert same(mixed[0][:, ~loud], quiet[0][:, ~loud]) and same(mixed[1][..., ~loud], quiet[1][..., ~loud])
    assert not torch.isclose(mixed[0][:, loud], quiet[0][:, loud]).all(dim=-1).any()


GIB = 1 << 30


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("long", ["keys", "queries"])
def test_offsets_beyond_4_gib(long, family):
    d, h = 128, 16
    b = 40
    s = 6 * GIB // 2 // (b * h * d) // 64 * 64
    sq, sk = (s, 64) if long == "queries" else (64, s)
    if torch.cuda.mem_get_info()[0] < 24 * GIB:
        pytest.skip("the GPU has less than 24 GiB free")

    def large(rows):
        return torch.randn(b, rows, h, d, dtype=torch.bfloat16, device="cuda")

    q, k, v = large(sq), large(sk), large(sk)
    o, lse = regard.attention(q, k, v, lse=True, target=KIND, family=family)
    for i in (0, b // 2, b - 1):
        # The same kernel with small offsets.
        one = [x[i : i + 1].clone() for x in (q, k, v)]
        expected, expected_lse = regard.attention(*one, lse=True, target=KIND, family=family)
        assert float((o[i].float() - expected[0].float()).abs().max()) < 0.01, i
        assert float((lse[i] - expected_lse[0]).abs().max()) < 1e-3, i
    del q, k, v, o
    torch.cuda.empty_cache()


@pytest.mark.parametrize("family", FAMILIES)
def test_strides_beyond_4_gib(family):
    """One head of many that are 5 GiB apart in memory."""
    s, d = 256, 128
    apart = 5 * GIB // 2
    if torch.cuda.mem_get_info()[0] < 24 * GIB:
        pytest.skip("the GPU has less than 24 GiB free")
    room = torch.empty(apart + s * d, dtype=torch.bfloat16, device="cuda")
    wide = room.as_strided((1, s, 2, d), (0, d, apart, 1))
    k = draw(1, s, 2, d)
    wide.copy_(k)
    q, v = draw(1, s, 2, d, seed=1), draw(1, s, 2, d, seed=2)
    options = {"target": KIND, "family": family, "lse": True}
    for a, b in zip(regard.attention(q, wide, v, **options), regard.attention(q, k, v, **options)):
        assert same(a, b)
    for a, b in zip(regard.attention(q, v, wide, **options), regard.attention(q, v, k, **options)):
        assert same(a, b)
