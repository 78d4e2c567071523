"""The parts of a sweep (tests/support/part.py) have all of its cases together."""

import pytest
from part import part_of

pytestmark = pytest.mark.no_compiler  # so that there are such tests without PyTorch and JAX, too


def test_each_case_is_in_a_part_and_the_first_in_all(monkeypatch):
    parts = []
    for first in range(5):
        monkeypatch.setenv("TEST_PART", f"{first}/5")
        parts.append(part_of("abcdefghijklm"))
    assert ["".join(part) for part in parts] == ["afk", "abgl", "achm", "adi", "aej"]
    monkeypatch.delenv("TEST_PART")
    assert part_of(range(3)) == [0, 1, 2]


@pytest.mark.parametrize("text", ["", "3", "1/0", "x/5", "-1/5"])
def test_what_is_no_part_is_said(monkeypatch, text):
    monkeypatch.setenv("TEST_PART", text)
    with pytest.raises(ValueError, match=f"TEST_PART={text} is not a part of all problems, such as 3/16"):
        part_of("abc")
