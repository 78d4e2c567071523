"""The part of many equal cases that one run of the tests computes: ./dev test takes a different one each day. For C++
tests there is part.h."""

import os
import re
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")


def part_of(cases: Iterable[Case]) -> list[Case]:
    """TEST_PART=3/16: the first of these cases, and of all of them the fourth and each 16th after it; unset: all."""
    cases, text = list(cases), os.environ.get("TEST_PART", "0/1")
    part = re.fullmatch(r"(\d+)/([1-9]\d*)", text)
    if part is None:
        raise ValueError(f"TEST_PART={text} is not a part of all problems, such as 3/16")
    first, step = int(part[1]), int(part[2])
    return [case for index, case in enumerate(cases) if index == 0 or index % step == first % step]
