"""The NEON kernels by a model of Arm's cores (bench/arm), and the page that shows its figures."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.arm import report, tables  # noqa: E402
from bench.arm.figures import FIGURES  # noqa: E402
from bench.arm.loops import COMPILERS, Loops  # noqa: E402
from bench.shared import results  # noqa: E402

BUILD = Path(os.environ.get("BUILD_DIR", ROOT / "build/aarch64-kernels"))


@pytest.fixture(scope="session")
def loops(tmp_path_factory):
    return Loops(BUILD, tmp_path_factory.mktemp("clang"))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", FIGURES)
def test_loops_reach_their_goals(loops, name, compiler):
    figure = FIGURES[name]
    values = figure.of(loops, compiler)
    assert len(values) == len(figure.goals)
    assert all(goal.met(value) for goal, value in zip(figure.goals, values, strict=True)), values


@pytest.mark.parametrize("target", report.TARGETS)
def test_decode_reads_keys_and_values_once(target):
    assert report.reads_of_decode(target) == 1


def test_results_have_the_figures_of_the_model(loops):
    """Those that ./dev bench tables draws."""
    lines = results.read(results.newest("arm")[-1])
    assert [line for line in lines if "values" in line] == [
        {**lines[0], **figures} for figures in report.of_loops(loops)
    ]


def test_reports_of_tests_are_counted_and_skips_named(tmp_path):
    (tmp_path / "deeper").mkdir()
    (tmp_path / "a.xml").write_text('<t><testcase classname="A" name="x"/><testcase classname="A" name="y"/></t>')
    for run in ("b.xml", "c.xml"):
        (tmp_path / "deeper" / run).write_text('<t><testcase classname="B" name="z"><skipped/></testcase></t>')
    line = report.tested(tmp_path)
    assert line["found"] == "2 passed, 0 failed, 1 skipped: `B.z`" and line["met"]
    (tmp_path / "c.xml").write_text('<t><testcase classname="C" name="x"><failure/></testcase></t>')
    assert not report.tested(tmp_path)["met"]


def test_wheels_are_weighed(tmp_path):
    for python, size in (("cp311", 7_200_000), ("cp313", 10_000_001)):
        with (tmp_path / f"regard-0.1.0-{python}-{python}-manylinux_2_35_aarch64.whl").open("wb") as file:
            file.truncate(size)
    (tmp_path / "regard-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl").touch()
    found = [(line["cell"], line["found"], line["met"]) for line in report.wheels(tmp_path)]
    tag = "`manylinux_2_35_aarch64`"
    assert found == [("wheel for `cp311`", f"7.2 MB, {tag}", True), ("wheel for `cp313`", f"10.0 MB, {tag}", False)]


def test_what_misses_its_goal_is_marked():
    origin = {"machine": "g++ 12", "date": "2026-11-30", "commit": "abc"}
    values = {"fmla V2": [3.79], "softmax V2": [1.5, 1.76], "forward V2": [28, 79.6], "stack": [0, 1]}
    every = {name: values.get(name, [goal.limit for goal in figure.goals]) for name, figure in FIGURES.items()}
    page = tables.modelled(
        [{"cell": name, "values": dict.fromkeys(COMPILERS, each), **origin} for name, each in every.items()]
    )
    marked = [line.split(" | ")[3] for line in page if line.count("✗") == len(COMPILERS)]
    assert marked == ["3.79 ✗", "1.50 / 1.76 ✗", "28.0 / 79.6 ✗", "0 / 1 ✗"]
    lines = [report.found("a", "yes", "no", False), report.found("b", "all", "1 of 1", True)]
    assert tables.counted(lines)[2:4] == ["| a | yes | no ✗ |", "| b | all | 1 of 1 |"]
