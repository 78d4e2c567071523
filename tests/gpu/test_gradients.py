"""Gradients: equal bits where promised, right numbers next to other work and beyond 4 GiB, graphs, streams."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
import regard  # noqa: E402
from here import BACKWARD_FAMILIES as FAMILIES  # noqa: E402
from here import KIND  # noqa: E402
from planned import PlannedBackward, draw, same, solved  # noqa: E402

D = (64, 128, 192, 256)
SHAPES = {
    "dense": ("", 2, 8, 8, 1000, 1000),
    "causal": ("mask=causal", 2, 8, 2, 1000, 1200),
    "window": ("mask=window:300,0,sink=3", 2, 8, 8, 1500, 1500),
    "few keys": ("", 4, 16, 2, 2000, 65),
    "few rows": ("mask=causal", 4, 16, 1, 63, 3000),
}
# For gradients summed in no fixed order, relative to the largest element: bf16 rounds them to 2^-9.
SAME_SUMS = 2**-7


def off_by(gradients, others):
    """The largest difference, relative to the largest element of the same gradient."""
    return max(
        float((a.float() - b.float()).abs().max() / b.float().abs().max().clamp(min=1e-6))
        for a, b in zip(gradients, others, strict=True)
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("shape", SHAPES)
def test_250_runs_give_the_same_bits(shape, d, family):
    run = solved(lambda: PlannedBackward(*SHAPES[shape], d, family, deterministic=True))
    first = run.fresh()
    assert not any(gradient.isnan().any() for gradient in first)
    different = sum(not same(now, then) for _ in range(250) for now, then in zip(run.fresh(), first))
    assert different == 0, f"{different} of 750 gradients differ from the first run's: {run.problem}"


class OtherWork:
    """Matrix products and copies of random sizes in streams other than the current one: they occupy multiprocessors,
    cache and memory, so that different blocks of a launch start or continue late each time."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.streams = [torch.cuda.Stream() for _ in range(2)]
        self.factor = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        self.bytes = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")

    def begin(self):
        for stream in self.streams:
            with torch.cuda.stream(stream):
                if self.random.random() < 0.3:
                    self.bytes[: self.random.randrange(1, self.bytes.numel())].fill_(1)
                size = self.random.choice((64, 128, 256, 512, 1024, 2048))
                torch.mm(self.factor[: self.random.randrange(1, 2048), :size], self.factor[:size, :size])


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_1000_launches_beside_other_work(shape, family, deterministic):
    d = 64 if shape == "few keys" else 128
    run = solved(lambda: PlannedBackward(*SHAPES[shape], d, family, deterministic=deterministic))
    first = run.fresh()
    largest = [gradient.float().abs().max() for gradient in first]
    work = OtherWork(shape)
    wrong = torch.zeros((), dtype=torch.int32, device="cuda")
    for launch in range(1000):
        work.begin()
        run.poison()
        for now, then, most in zip(run(), first, largest):
            if deterministic:
                wrong += (now.view(torch.int16) != then.view(torch.int16)).any()
            else:
                wrong += ~((now.float() - then.float()).abs().max() <= SAME_SUMS * most)
        if launch % 50 == 49:
            torch.cuda.synchronize()  # so that other work does not fall far behind
    assert int(wrong) == 0, f"{int(wrong)} of 3000 gradients: {run.problem}"


@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("shape", SHAPES)
def test_pipelines_and_the_cpu_agree(shape, d, record_property):
    runs = {}
    for family in FAMILIES:
        try:
            runs[family] = PlannedBackward(*SHAPES[shape], d, family)
        except regard.RefusedError:
            continue
    assert runs
    first = next(iter(runs.values()))
    of = first.forward
    given = {"q": of.q, "k": of.k, "v": of.v, "o": of.o, "lse": of.lse, "grad_o": first.grad_o}
    on_cpu = {name: torch.empty_like(x, device="cpu") for name, x in first.gradients.items()}
    regard.plan(first.problem).run(**{name: x.cpu() for name, x in given.items()}, **on_cpu)
    for family, run in runs.items():
        error = off_by([x.cpu() for x in run.fresh()], on_cpu.values())
        record_property(family, error)
        assert error < 0.01, (run.problem, family, error)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_graph_replays_on_new_inputs(family, deterministic):
    run = PlannedBackward("mask=causal", 2, 8, 2, 700, 900, 128, family, deterministic=deterministic)
    run.plan.prepare()
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for seed in (1, 2, 3):
        for tensor in (run.forward.q, run.forward.k, run.forward.v, run.grad_o):
            tensor.copy_(draw(*tensor.shape, seed=seed))
        run.start_over()
        expected = run.fresh()
        for _ in range(3):
            run.poison()
            graph.replay()
            got = tuple(run.gradients.values())
            assert off_by(got, expected) <= SAME_SUMS
            assert not deterministic or all(map(same, got, expected))


def test_code_that_is_not_loaded_is_refused_inside_a_capture():
    run = PlannedBackward("mask=causal softcap=17", 1, 2, 2, 64, 64, 104)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), pytest.raises(regard.RegardError, match="prepare"):
        run()
    assert not any(gradient.isnan().any() for gradient in run.fresh())  # outside the graph, so that kernels are loaded


@pytest.mark.parametrize("family", FAMILIES)
def test_two_streams_and_a_graph_at_once(family):
    runs = [
        PlannedBackward("mask=causal", 1, 4, 2, 500 + 200 * i, 900, 128, family, deterministic=True) for i in range(3)
    ]
    expected = [run.fresh() for run in runs]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        runs[2]()
    streams = [torch.cuda.Stream() for _ in runs]
    torch.cuda.synchronize()
    for _ in range(100):
        for call, run, stream in zip((runs[0], runs[1], graph.replay), runs, streams):
            with torch.cuda.stream(stream):
                run.poison()
                call()
    torch.cuda.synchronize()
    for run, gradients in zip(runs, expected):
        assert all(map(same, run.gradients.values(), gradients))


def test_calls_of_other_problems_in_a_row_share_a_workspace():
    """The workspace contains sums and counters of the previous call, and the host waits for nothing."""
    sizes = ((64, 300, 700), (128, 513, 77), (256, 129, 500))
    runs = [PlannedBackward("mask=causal", 2, 4, 2, sq, sk, d, deterministic=True) for d, sq, sk in sizes]
    expected = [run.fresh() for run in runs]
    shared = max((run.workspace for run in runs), key=torch.Tensor.numel)
    for run in runs:
        run.workspace = shared
    for _ in range(50):
        for run in runs:
            run()
    for run, gradients in zip(runs, expected):
        assert all(map(same, run.gradients.values(), gradients))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
@pytest.mark.parametrize("family", FAMILIES)
def test_two_devices_give_the_same_bits(family):
    words = ("mask=causal", 2, 8, 2, 500, 900, 128, family)
    runs = [PlannedBackward(*words, device=f"cuda:{i}", deterministic=True) for i in (0, 1)]
    results = []
    for run in runs:
        with torch.cuda.device(run.grad_o.device):
            results.append([x.cpu() for x in run.fresh()])
    assert all(map(same, *results))


GIB = 1 << 30


def need_free(bytes_):
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < bytes_:
        pytest.skip(f"the GPU has less than {bytes_ / GIB:.0f} GiB free")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("long", ["keys", "queries"])
def test_offsets_beyond_2_to_the_31st(long, packed, family):
    """Element offsets in every tensor of the long side and in sums in the workspace."""
    b, h, d = 40, 16, 128
    s = (2**31 // (b * h * d) // 64 + 3) * 64
    need_free(44 * GIB)
    sq, sk = (s, 64) if long == "queries" else (64, s)

    def large(rows, seed):
        torch.manual_seed(seed)
        return torch.randn(b, rows, h, d, dtype=torch.bfloat16, device="cuda")

    q, k, v, grad_o = large(sq, 1), large(sk, 2), large(sk, 3), large(sq, 4)
    where = {"target": KIND}
    o, lse = regard.attention(q, k, v, lse=True, **where)
    given = [grad_o, q, k, v, o, lse]
    options = {**where, "family": family}
    if packed:
        given = [x.flatten(0, 1) for x in given[:-1]] + [lse.transpose(0, 1).reshape(h, -1)]
        starts = [torch.arange(b + 1, dtype=torch.int32, device="cuda") * rows for rows in (sq, sk)]
        options |= {"offsets_q": starts[0], "offsets_k": starts[1], "sq": sq, "sk": sk}
    gradients = regard.attention_backward(*given, **options)
    gradients = [x.unflatten(0, (b, -1)) if packed else x for x in gradients]
    for i in (0, b // 2, b - 1):
        # The same kernel with small offsets.
        one = [x[i : i + 1].clone() for x in (grad_o, q, k, v, o, lse)]
        expected = regard.attention_backward(*one, **where, family=family)
        assert off_by([x[i : i + 1] for x in gradients], expected) < SAME_SUMS, i
    del q, k, v, grad_o, o, lse, given, gradients
    torch.cuda.empty_cache()


@pytest.mark.parametrize("family", FAMILIES)
def test_strides_beyond_4_gib(family):
    """One of two heads that are 5 GiB apart in memory, in an input and in a gradient."""
    s, d = 256, 128
    apart = 5 * GIB // 2
    need_free(24 * GIB)
    rooms = [torch.empty(apart + s * d, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    wide, wide_gradient = (room.as_strided((1, s, 2, d), (0, d, apart, 1)) for room in rooms)
    q, k, v, grad_o = (draw(1, s, 2, d, seed=i) for i in range(4))
    wide.copy_(k)
    o, lse = regard.attention(q, k, v, lse=True, target=KIND)
    options = {"target": KIND, "family": family, "deterministic": True}
    expected = regard.attention_backward(grad_o, q, k, v, o, lse, **options)
    for name, place in (("grad_q", 0), ("grad_k", 1), ("grad_v", 2)):
        wide_gradient.fill_(float("nan"))
        got = regard.attention_backward(grad_o, q, wide, v, o, lse, **options, **{name: wide_gradient})
        assert all(map(same, got, expected)) and same(wide_gradient, expected[place])
