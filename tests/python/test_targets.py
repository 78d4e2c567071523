"""The tables of docs/targets.md and docs/profiles.md agree with the library."""

import re
from pathlib import Path

import pytest

import regard

DOCS = Path(__file__).resolve().parents[2] / "docs"


def rows(page):
    """Names in backticks at the start of each row, and its cells; of the page's part before its first section."""
    for line in (DOCS / page).read_text().split("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and cells[0].startswith("`"):
            yield re.findall(r"`([\w-]+)`", cells[0]), cells


KERNELS = {name: cells[2] for names, cells in rows("targets.md") if len(cells) == 3 for name in names}


def test_every_target_has_a_row():
    assert set(KERNELS) == {path.stem for path in DOCS.parent.glob("targets/*.toml")}


@pytest.mark.parametrize("target", KERNELS)
def test_a_target_has_the_kernels_of_its_row(target):
    solved = [
        "refusal" not in regard.explain(f"{pass_} fp16 b=1 h=2 s=64 d=64", target, format="json")
        for pass_ in ("fwd", "bwd")
    ]
    assert solved == {"yes": [True, True], "forward": [True, False], "no": [False, False]}[KERNELS[target]]


COUNTS = {names[0]: cells[-3:] for names, cells in rows("profiles.md") if len(cells) == 6}


@pytest.mark.parametrize("profile", COUNTS)
def test_a_profile_has_the_kernels_of_its_row(profile):
    counted = [len(regard.list(target, profile)) for target in ("cpu-generic", "cpu-avx2", "cpu-avx512")]
    assert counted == list(map(int, COUNTS[profile]))
    same = [len(regard.list(target, profile)) for target in ("cpu-avx512bf16", "cpu-amx")]
    assert same == [counted[-1]] * 2
