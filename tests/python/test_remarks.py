"""docs/remarks.md and docs/amd-rules.md name tests; and rules that no test of the code itself can check."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERIES = {"R0.": 16, "R1.": 34, "R2.": 34, "R3.": 7, "R4.": 5, "J": 10, "C": 37}  # and how many remarks each has
IDS = [f"{series}{number}" for series, count in SERIES.items() for number in range(1, count + 1)]


def rows(page):
    """The cells of each row of a page's tables."""
    return [re.split(r" *(?<!\\)\| *", line)[1:-1] for line in page.read_text().splitlines() if line.startswith("|")]


def remarks():
    """The tests of each remark, by id."""
    return {cells[0]: cells[2] for cells in rows(ROOT / "docs/remarks.md") if re.match(r"[RJC]\d", cells[0])}


def exists(file, name):
    text = (ROOT / file).read_text()
    if file.endswith(".py"):
        return re.search(rf"^def {name}\(", text, flags=re.MULTILINE)
    suite, _, test = name.partition(".")
    return re.search(rf"^(TEST|TEST_F|TEST_P|TYPED_TEST)\({suite}, {test}\)", text, flags=re.MULTILINE)


def test_every_remark_has_its_row():
    assert list(remarks()) == IDS


def check_tests(cell):
    """A file in backticks followed by the names of its tests; or the reason why there are none."""
    file, found = None, 0
    for word in re.findall(r"`([^`]+)`", cell):
        if word.startswith("tests/"):
            file = word
        elif file is not None:
            assert exists(file, word), f"{file} has no {word}"
            found += 1
    assert (found > 0) != cell.startswith("None:"), cell


@pytest.mark.parametrize("remark", IDS)
def test_the_tests_of_a_remark_exist(remark):
    check_tests(remarks()[remark])


def test_the_tests_of_rules_of_amd_targets_exist():
    all_rows = [
        cells for cells in rows(ROOT / "docs/amd-rules.md") if len(cells) == 3 and cells[2] not in ("held by", "---")
    ]
    rules = [number for cells in all_rows for number in re.findall(r"V\d+", cells[0])]
    assert sorted(rules, key=lambda rule: int(rule[1:])) == [f"V{number}" for number in range(1, 23)]
    for cells in all_rows:
        check_tests(cells[2])


def test_the_tour_has_every_folder():
    toured = {folder for cells in rows(ROOT / "CONTRIBUTING.md") for folder in re.findall(r"`([\w./]+/)`", cells[0])}
    assert [folder for folder in toured if not (ROOT / folder).is_dir()] == []
    assert {f"src/{path.name}/" for path in (ROOT / "src").iterdir() if path.is_dir()} <= toured


def test_a_build_fetches_nothing():
    """Everything it needs is in the tree, or was installed before."""
    files = [ROOT / "CMakeLists.txt", *ROOT.glob("cmake/*")]
    for folder in ("bench", "examples", "python", "tests"):
        files += (ROOT / folder).rglob("CMakeLists.txt")
    assert len(files) >= 10
    for file in files:
        commands = re.sub("#.*", "", file.read_text())
        fetching = r"FetchContent|ExternalProject|file\s*\(\s*DOWNLOAD|https?://|\b(git|curl|wget|pip)\b"
        assert not re.search(fetching, commands), file
    assert not (ROOT / ".gitmodules").exists()
