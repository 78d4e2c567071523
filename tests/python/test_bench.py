"""The benchmarks' bookkeeping: goals, tables, result files. No timings."""

import json
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
import tomllib

import regard

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import pictures, regret, tables  # noqa: E402
from bench.compile import tables as compile_tables  # noqa: E402
from bench.cpu import ceilings, cost_tables, goals, grid_tables, timing  # noqa: E402
from bench.cpu.run import Run  # noqa: E402
from bench.gpu import backward_cells, cache_tables, cells  # noqa: E402
from bench.gpu import tables as gpu_tables  # noqa: E402
from bench.shared import progress, results  # noqa: E402


def grid_line(cell, ms, peer_ms, product=400.0, **more):
    measure, dtype = cell.split()[:2]
    return {
        "cell": cell,
        "measure": measure,
        "machine": "a CPU",
        "threads": 2,
        "date": "2026-01-31",
        "commit": "abc",
        "regard_ms": ms,
        "peers": {"torch": peer_ms, "torch_other": 2 * peer_ms},
        "ceilings": {"product": product},
        "flops": 4e8 * ms,  # 400 GFLOP/s
        "peak_bytes": 3 << 20,
        "peer_peak_bytes": None,
        **more,
    }


def cost_line(item, claim, case, base, cost):
    origin = {"machine": "a CPU", "threads": 2, "date": "2026-01-31", "commit": "abc"}
    cell = f"{item} {case}"
    return {"item": item, "cell": cell, "claim": claim, "case": case, "base": base, "cost": cost, **origin}


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (goals.Goal(1.2), 1.2, True),
        (goals.Goal(1.2), 1.196, True),  # printed as 1.20
        (goals.Goal(1.2), 1.19, False),
        (goals.Goal(1.3, at_least=False), 1.304, True),
        (goals.Goal(1.3, at_least=False), 1.31, False),
    ],
)
def test_a_goal_judges_what_is_printed(goal, value, met):
    assert goal.met(value) == met
    assert (goals.MISSED in goal.marked(value)) != met


@pytest.mark.parametrize(
    ("cell", "more", "limit"),
    [
        ("fwd bf16 d64 s512 full", {}, 2.4),
        ("fwd+bwd fp16 d64 s512 full", {}, 8),
        ("fwd bf16 d64 s512 causal", {"target": "cpu-amx"}, 1.6),
        ("fwd+bwd bf16 d64 s8192 full", {"target": "cpu-amx"}, 4),
        ("fwd bf16 d64 s512 full", {"series": "avx2"}, 1),
    ],
)
def test_the_goal_follows_from_the_cell_the_target_and_the_series(cell, more, limit):
    assert goals.speed_goal(grid_line(cell, 1, 1, **more)).limit == limit


def test_the_worst_cell_stands_beside_its_goal_and_is_marked():
    lines = [
        grid_line("fwd bf16 d128 s2048 full", 10, 24),
        grid_line("fwd bf16 d128 s8192 full", 10, 23, product=500.0),
    ]
    text = "\n".join(grid_tables.against_goals(lines))
    assert "| bf16 fwd, × PyTorch | ≥ 2.4 | 2.30 ✗ | fwd bf16 d128 s8192 full | 1 of 2 |" in text
    assert "| bf16 fwd, ÷ ceiling | ≥ 0.95 | 0.80 ✗ | fwd bf16 d128 s8192 full | 1 of 2 |" in text
    assert "| bf16 fwd, geometric mean | ≥ 3 | 2.35 ✗ |  |  |" in text


def test_the_full_table_has_the_ceiling_and_the_memory_of_each_cell():
    text = grid_tables.everything([grid_line("fwd bf16 d128 s2048 full", 10, 24)])
    assert "| fwd bf16 d128 s2048 full | 10.00 | 24.00 | 2.40 | 400 | 400 GFLOP/s | 1.00 | 3 / – |" in text


def test_a_cell_without_a_ceiling_has_all_tables():
    """If the product would take longer than the cell, none is measured."""
    without = grid_line("fwd bf16 d128 s2048 full", 10, 24, ceilings={})
    assert "| fwd bf16 d128 s2048 full | 10.00 | 24.00 | 2.40 | 400 | – | – | 3 / – |" in grid_tables.everything(
        [without]
    )
    goals_of = "\n".join(grid_tables.against_goals([without, grid_line("fwd bf16 d128 s8192 full", 10, 24)]))
    assert "÷ ceiling | ≥ 0.95 | 1.00 | fwd bf16 d128 s8192 full | 1 of 1 |" in goals_of
    assert "÷ ceiling" not in "\n".join(grid_tables.against_goals([without]))


def product_at(gflops, clock):
    """A 2048^3 product on a machine of that speed, and a small one to try, on a clock that only they advance."""

    def call(n):
        def multiply():
            clock.now += 2 * n**3 / (gflops * 1e9)

        return multiply

    return ceilings.Ceiling(call(2048), 2.0 * 2048**3, call(256), 2.0 * 256**3)


def test_a_ceiling_that_takes_longer_than_the_cell_is_left_out_after_a_small_trial(monkeypatch):
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock.now)
    kept, left_out = ceilings.affordable({"fast": product_at(100, clock), "slow": product_at(0.2, clock)}, seconds=5)
    assert list(kept) == ["fast"]
    assert left_out == {"slow": "5 calls would take 7.2 min, the cell 5 s"}
    assert clock.now < 1


def test_progress_says_which_cell_it_is_and_how_long_the_rest_takes(monkeypatch, capsys):
    clock = iter([0.0, 90.0, 180.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    assert list(progress.counted(["a", "b", "c"], str.upper)) == ["a", "b", "c"]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == ["[1/3] A", "[2/3] B (about 3.0 min left)", "[3/3] C (about 1.5 min left)"]


PROGRAMS = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "bench").glob("*/*.py")}


@pytest.mark.parametrize("name", [name for name, text in PROGRAMS.items() if "__main__" in text])
def test_every_benchmark_tells_its_progress(name):
    """In the only way there is: `counted`, or Run.each or write_lines, which use it."""
    assert any(word in PROGRAMS[name] for word in ("counted(", "this.each(", "write_lines("))


def test_few_rows_have_a_table_and_no_goal():
    lines = [grid_line("decode bf16 d128 s16384 full", 10, 24), grid_line("few16 bf16 d128 s4096 full", 10, 24)]
    text = "\n".join(grid_tables.against_many_keys(lines))
    assert "| bf16, 32/8 heads, d=128, 16384 keys | 10.00 | 24.00 | 2.40 ✗ |" in text
    assert "| bf16, 16 rows of 32/8 heads, d=128, 4096 keys | 10.00 | 24.00 | 2.40 | 1.00 |" in text


def test_a_feature_s_cost_stands_in_its_column():
    lines = [
        cost_line("fwd fp32 features", "feature", "plain", "plain", 1.0),
        cost_line("fwd fp32 features", "feature", "ALiBi", "plain", 1.31),
        cost_line("bwd bf16 causal d64 s2048", "causal", "causal", "full", 0.54),
    ]
    text = cost_tables.features(lines)
    assert "| ALiBi | – | 1.31 ✗ | – | – |" in text
    assert "| causal d64 s2048 | – | – | 0.54 | – |" in text


def test_tables_go_between_their_markers_and_nowhere_else(tmp_path):
    file = tmp_path / "any.jsonl"
    file.write_text(json.dumps(grid_line("fwd bf16 d128 s2048 full", 10, 24)) + "\n")
    page = "a\n<!-- bench:grid -->\nold\n<!-- /bench:grid -->\nb\n<!-- bench:sweep -->\nkept\n<!-- /bench:sweep -->\n"
    new = tables.spliced(page, [file])
    assert "old" not in new and "2.40" in new
    assert new.startswith("a\n<!-- bench:grid -->\n") and new.endswith(page[page.index("<!-- /bench:grid") :])


def test_backward_on_a_gpu_has_the_cells_of_forward():
    names = [cell.name for cell in backward_cells.grid()]
    assert names == [cell.name for cell in cells.grid()]
    goals = [(cell.goal, backward_cells.known_fa4(cell)) for cell in backward_cells.grid()]
    assert all(goal >= fa4 - 0.005 for goal, fa4 in goals)  # the best of all peers
    cases = backward_cells.cases()
    assert len({case.cell.name for case in cases}) == len(cases)
    for case in cases:
        regard.Problem(case.cell.problem), regard.Problem(case.base.problem)
        assert 0 < case.goal < 1 and sum(case.cell.lengths) in (0, case.base.b * case.base.sq)
    full = next(cell for cell in backward_cells.grid() if cell.name == "grid d=128 full s=4096")
    assert full.flops == 2.5 * next(cell for cell in cells.grid() if cell.name == full.name).flops


@pytest.mark.parametrize("tile", [(64, 128), (80, 128), (64, 80)])
def test_the_tiles_of_a_window_are_counted(tile):
    rows, keys = tile
    cell = replace(backward_cells.plain(1, 1, 700, 64, False), causal=True, window=100)
    seen = [(row, key) for row in range(700) for key in range(max(row - 100, 0), row + 1)]
    areas = {
        (row // rows, key // keys): (min(row // rows * rows + rows, 700) - row // rows * rows)
        * (min(key // keys * keys + keys, 700) - key // keys * keys)
        for row, key in seen
    }
    share = backward_cells.share_of_tiles(cell, f"sm_90a sm90_backward block_q={rows} block_k={keys} warps=12")
    assert share == pytest.approx(len(seen) / sum(areas.values()))


def test_tables_of_backward_and_of_training():
    origin = {"machine": "GPU", "date": "2026-01-01", "commit": "abc"}
    rates = {"regard": 110.0, "regard portable_backward": 60.0, "cudnn": 100.0, "fa2": 50.0}
    grid = {
        "cell": "grid d=64 full s=512",
        "tflops": rates,
        "over_cudnn": 1.1,
        "over_fa4": 0.99,
        "of_goal": 0.95,
        "over_fa2": 1.2,
    }
    beside = {"cell": "beside window", "tflops": {"regard": 80.0, "base": 100.0}, "over_base": 0.8, "goal": 0.78}
    lines = [{**grid, **origin}, {**beside, **origin}]
    page = "\n".join(gpu_tables.backward(lines))
    assert "| d=64 full s=512 | 110 | 60 | 100 | 50 | 1.10 | 0.99 | 0.950 ✗ | 1.20 |" in page
    assert "| window | 80 | – | – | – | 100 | 0.80 | 0.78 |" in page
    assert "| d = 64 | 1.10 (least 1.10) | 2.20 (least 2.20) |" in gpu_tables.backward_summary(lines)
    step = {"cell": "bf16", "ms": {"regard": 90.0, "sdpa": 99.0, "none": 70.0}, "over_sdpa": 1.1, **origin}
    assert "| bf16 | 90.0 | 99.0 | 70.0 | 1.100 |" in gpu_tables.training([step])


def test_the_table_of_caches():
    origin = {"machine": "GPU", "date": "2026-01-01", "commit": "abc"}
    rows = [
        {"name": "of read", "bound": 0.94, "at_least": True, "value": 0.9362},
        {"name": "times one", "bound": 1.1, "at_least": False, "value": 1.104},
        {"name": "of a peer", "bound": 1, "at_least": True},
    ]
    page = "\n".join(cache_tables.caches([{"cell": "1 GiB", "rows": rows, **origin}]))
    assert "| 1 GiB | of read | 0.94 | ≥ 0.94 |" in page and "| 1 GiB | times one | 1.10 | ≤ 1.1 |" in page
    assert "| 1 GiB | of a peer | – | ≥ 1 |" in page
    rows[0]["value"] = 0.93
    assert "| 0.93 ✗ |" in "\n".join(cache_tables.caches([{"cell": "1 GiB", "rows": rows, **origin}]))


def test_problems_of_caches_are_valid_and_figures_name_calls():
    groups = pytest.importorskip("bench.gpu.cache_groups")
    for group in (*groups.decoding(), *groups.prefill(), *groups.appends()):
        for problem in group.problems():
            regard.Problem(problem)
        others = {"copy", "apart", groups.READ, groups.PEER, *groups.APPENDS}
        assert {name for ratio in group.ratios for name in (ratio.over, ratio.of)} <= {*group.shapes, *others}
    for words in groups.APPENDS.values():
        regard.Problem(groups.append_problem(128, 1, words))
    assert len(groups.mixed_lengths()) == 64 and sorted(groups.mixed_lengths())[::63] == [128, 16384]


def test_problems_of_latent_attention_are_valid_and_figures_name_calls():
    latent = pytest.importorskip("bench.gpu.latent")
    for group in latent.groups():
        for shape in group.shapes.values():
            regard.Problem(shape.problem)
        times = dict.fromkeys([*group.shapes, latent.READ, latent.PRODUCT, latent.PORTABLE], 1.0)
        valued = [row["name"] for row in latent.figures(group, times) if "value" in row]
        assert len(valued) == 2 + len(group.shapes) and not any("FlashMLA" in name for name in valued)


def test_pages_and_pictures_are_drawn_from_the_newest_results():
    """Also for the committed tables: no one writes figures by hand."""
    for page, text in tables.drawn([]).items():
        assert page.read_text() == text, f"./dev bench tables draws {page.relative_to(ROOT)} anew"


def test_bars_of_decode_are_shares_of_a_plain_read():
    (_, _, on_cpu), (_, _, on_gpu) = pictures.speed_panels()
    for line in results.read(results.newest("cpu")[-1]):
        if line["measure"] == "decode":
            case = on_cpu.cases.index((line["cell"].split()[1], "16384 keys"))
            peer = on_cpu.shares["Regard"][case] * line["regard_ms"] / on_cpu.shares["PyTorch"][case]
            assert peer == pytest.approx(min(line["peers"].values()))
    (line,) = [line for line in results.read(results.newest("caches")[-1]) if line["cell"] == "128 MiB"]
    case = on_gpu.cases.index(("page 16", "128 MiB"))
    read = min(line["ms"]["sum"], line["ms"]["copy"])
    assert on_gpu.shares["Regard"][case] == pytest.approx(read / line["ms"]["page 16"], abs=1e-4)
    drawn = pictures.svg("", [[on_cpu, on_gpu]])
    assert all(f">{share:.2f}</text>" in drawn for share in on_gpu.shares["Regard"])


def test_only_the_newest_result_of_each_machine_and_series_is_kept():
    for folder in (results.BENCH, results.GPU_TESTS):
        files = [file.stem[:-11] for file in folder.iterdir()]
        assert sorted(files) == sorted(set(files))


def test_every_series_of_results_that_has_a_table_stands_on_a_page():
    pages = "".join(page.read_text() for page in tables.drawn([]) if page.suffix == ".md")
    assert [name for name in tables.TABLES if f"<!-- bench:{name} -->" not in pages] == []


def test_a_choice_of_cells_keeps_the_other_lines(tmp_path):
    """With sizes that take a second; needs PyTorch, as the benchmarks do."""
    pytest.importorskip("torch")
    out = tmp_path / "results.jsonl"
    kept = [{"item": f"fwd {name}", "cell": f"fwd {name} 1 threads"} for name in ("bf16 full", "fp32 full", "none")]
    replaced = {**kept[1], "item": "fwd fp32 causal"}
    out.write_text("".join(json.dumps(line) + "\n" for line in (replaced, *kept)))

    def run(*options):
        command = [sys.executable, "-m", "bench.cpu.scaling", "--quick", "--rounds=1", f"--out={out}", *options]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout

    assert run("--list", "--cells=fwd bf16").splitlines() == ["fwd bf16 full", "fwd bf16 causal"]
    run("--cells=fwd fp32 causal")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[:2] == kept[:2]  # in the order of the cells, and without one that there is no more
    assert {line["item"] for line in lines[2:]} == {"fwd fp32 causal"} and replaced not in lines
    assert all(line["cost"] > 0 and line["efficiency"] > 0 and line["samples_ms"] for line in lines[2:])


def test_a_step_of_training_is_timed_beside_sdpa(tmp_path):
    pytest.importorskip("torch")
    out = tmp_path / "results.jsonl"
    options = ["--quick", "--rounds=1", "--threads=1", "--cells=fp32", f"--out={out}"]
    command = [sys.executable, "-m", "bench.cpu.training", *options]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    line = json.loads(out.read_text())
    assert set(line["ms"]) == set(line["samples_ms"]) == {"regard", "sdpa", "none"}
    assert line["over_sdpa"] > 0 and line["loss_difference"] < 1e-5


def test_training_that_regard_refuses_ends_in_its_sentence(monkeypatch):
    torch = pytest.importorskip("torch")
    import regard.torch
    from bench.cpu import training

    def refused(*_, **__):
        raise regard.RefusedError("no kernel takes it: use another device")

    monkeypatch.setattr(regard.torch, "attention", refused)
    run = types.SimpleNamespace(device="cpu", threads=torch.get_num_threads())
    with pytest.raises(SystemExit, match="^fp32 .*: no kernel takes it: use another device$"):
        training.measure(training.QUICK[0], run)


def test_training_on_a_gpu_needs_one(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    monkeypatch.setattr(sys, "argv", ["training.py", "--device=cuda"])
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_THREAD_TIMEOUT"):
        monkeypatch.setenv(variable, "1")  # which a run sets, and which are then as before
    with pytest.raises(SystemExit) as ended:
        Run("training", "", seconds=1, on_gpu=True)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(
        "error: --device=cuda needs an NVIDIA or AMD GPU and a PyTorch that sees it; without them, leave it out\n"
    )


def test_cpu_seconds_of_compiles_stand_beside_their_goals():
    origin = {"machine": "a CPU", "date": "2026-01-31", "commit": "abc", "peak_bytes": 150e6}
    lines = [{"cell": "gfx942", "cpu_seconds": seconds, **origin} for seconds in (0.5, 0.75, 3.1)]
    text = "\n".join(compile_tables.hip([*lines, {"cell": "gfx1100", "cpu_seconds": 0.6, **origin}]))
    assert "| gfx942 | 3 | 0.75 ✗ | 3.10 ✗ | 150 |" in text
    assert "| gfx1100 | 1 | 0.60 | 0.60 | 150 |" in text
    assert "| all of them | 4 | 0.68 | 3.10 ✗ | 150 |" in text


def test_regret_is_the_time_of_the_models_choice_over_the_fastest():
    record = {"problem": "p", "target": "t", "threads": 2, "candidate": "a", "by_cost": "b", "times": {"a": 2, "b": 3}}
    line = regret.line_of("decode", record)
    assert (line["regret"], line["kind"], line["times_ms"]) == (1.5, "decode", {"a": 2, "b": 3})
    origin = {"machine": "a CPU", "date": "2026-01-31", "commit": "abc"}
    lines = [{**line, **origin, "regret": 1 + i / 10} for i in range(10)]
    lines.append({**line, **origin, "times_ms": {"a": 1.0}, "regret": 1.0})  # no choice at all
    text = "\n".join(regret.summary(lines))
    assert "| decode | 10 | 1 | 1.50 | 1.42 | 1.90 | 1.90 | 0 |" in text
    text = "\n".join(
        regret.summary([{**line, **origin, "candidate": name} for name in ("a splits=2", "a threads=1", "a")])
    )
    assert "| 1.50 | 1.50 | 2 |" in text
    assert "forward |" not in text
    seconds = [{**line, "regret": 1.2}, {**line, "regret": 1.7}]
    assert [regret.smaller(line, second)["regret"] for second in seconds] == [1.2, 1.5]


def test_a_run_of_regret_goes_on_where_it_ended(tmp_path, monkeypatch):
    file, origin = tmp_path / "regret.jsonl", {"machine": "a CPU", "date": "2026-01-31", "commit": "abc"}
    asked = []

    def tune(problems, seconds):
        problems = problems[: int(seconds)]  # one a second
        asked.extend(problems)
        times = [{"a": 2, "b": 3 if asked.count(problem) == 1 else 2} for problem in problems]
        rest = {"target": "t", "threads": 2, "candidate": "a", "by_cost": "b"}
        return [rest | {"problem": problem, "times": each} for problem, each in zip(problems, times, strict=True)]

    def go_on(count, seconds=99, **other):
        run = regret.Run(file, {**origin, **other}, tune)
        drawn = {kind: [(f"{kind} {i}", i != 1) for i in range(count)] for kind in regret.KINDS}
        return run.measure_all(drawn, seconds) and run.measure_again(seconds)

    assert not go_on(2, seconds=0) and not asked
    assert not go_on(2, seconds=2) and asked == ["forward 0", "backward 0"]
    assert go_on(2)
    assert sorted(asked) == sorted(2 * [f"{kind} 0" for kind in regret.KINDS])
    assert go_on(3)
    assert len(asked) == 12 and {line["regret"] for line in results.read(file)} == {1.0}
    assert go_on(3) and len(asked) == 12
    assert go_on(1, commit="abd") and len(results.read(file)) == 3  # of another commit nothing is kept


def test_the_problems_to_tune_are_of_the_flash_profile():
    variants = tomllib.loads((ROOT / "profiles/flash.toml").read_text())["variants"]
    usual = json.loads(regard.Problem("fwd bf16 s=64 d=64").json)
    texts = (ROOT / "bench/cpu/flash_problems.txt").read_text().splitlines()[1:]

    def allows(variant, name, value):
        allowed = variant.get(name, usual[name])
        allowed = allowed if isinstance(allowed, list) else [allowed]
        return value in allowed or (isinstance(allowed[0], bool) and bool(value) in allowed)

    assert len(texts) == 10
    for text in texts:
        fields = json.loads(regard.Problem(text).json)
        names = [name for name in fields if name in variants[0] or name in variants[1]]
        assert any(all(allows(variant, name, fields[name]) for name in names) for variant in variants), text


def test_random_problems_are_problems():
    for kind in regret.KINDS:
        generator = regret.random.Random(3)
        texts = {regret.random_problem(kind, generator, on_gpu) for on_gpu in (False, True) for _ in range(20)}
        assert len(texts) > 20
        assert all(regard.Problem(text) for text in texts)
        assert all(text.startswith("bwd") == (kind == "backward") for text in texts)
