"""What functions take, and errors that name a line of theirs."""

from __future__ import annotations

import inspect
import linecache
import os
from typing import Any

from .. import _core
from ..errors import RefusedError, wrong_type

ARGUMENTS = {"score": ("s", "b", "h", "q", "kv"), "keep": ("b", "h", "q", "kv")}
NAMES_OF_ARGUMENTS = {"score": "score, b, h, q_idx, kv_idx", "keep": "b, h, q_idx, kv_idx"}  # in FlexAttention


def refused_arguments(purpose: str, function: Any) -> None:
    """Refuses a function of plain Python with other arguments; one of any other kind is called."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARARGS:
        return
    most = code.co_argcount - inspect.ismethod(function)
    least = most - len(function.__defaults__ or ())
    if not least <= len(ARGUMENTS[purpose]) <= most:
        raise wrong_type(f"{purpose} takes {most} arguments; it must take ({NAMES_OF_ARGUMENTS[purpose]})")


def in_line(purpose: str, place: tuple[str, int] | None, sentence: str) -> RefusedError:
    """place: file and line, where the function does what the sentence says; None if unknown."""
    where = "the function"
    if place is not None:
        file, number = place
        line = linecache.getline(file, number).strip()
        where = f"line {number} of {os.path.basename(file)}" + (f", '{line[:80]}'," if line else "")
    return RefusedError(_core.printable(f"{purpose}: {where} {sentence}"))
