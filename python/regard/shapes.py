"""The sizes of a problem, from the shapes of its arrays."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from .arrays import longest, shape_of
from .errors import invalid
from .words import quote

LAYOUTS = ("bshd", "bhsd", "sbhd")
_MOST_HEADS = 128  # of existing models
_warned = False


def warn_if_swapped(sq: int, hq: int, sk: int, hk: int) -> None:
    """Warns, once per process, if arrays of [b, s, h, d] with these sizes look like [b, h, s, d].

    If one is mistaken for the other, sequences become heads: as many of Q as of K, more than there are tokens, and
    more than models have, or, if K had fewer heads than Q, fewer tokens of K than of Q.
    """
    global _warned
    if _warned or not all(isinstance(size, int) for size in (sq, hq, sk, hk)):  # symbols of exported programs
        return
    if not (hq == hk and sq < hq and sk < hk and (hq > _MOST_HEADS or sk < sq)):
        return
    _warned = True
    warnings.warn(
        f"q has {sq} tokens of {hq} heads, which looks like [b, h, s, d] where [b, s, h, d] is expected: transpose q, "
        "k and v, or pass layout='bhsd' to a function that takes it (this warning appears once)",
        stacklevel=_stack_level_of_caller(),
    )


def _stack_level_of_caller() -> int:
    """The stacklevel for warnings.warn, of the frame that called this package. There may be PyTorch frames between
    those of this package."""
    level, of_caller, frame = 0, 1, sys._getframe(1)
    while frame.f_back is not None:
        level += 1
        if frame.f_globals.get("__name__", "").partition(".")[0] == "regard":
            of_caller = level + 1
        frame = frame.f_back
    return of_caller


def shape_words(q: Any, k: Any, v: Any, options: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    """The sizes as words of problem text. Whether all arrays agree with them is checked when the plan runs.

    The longest packed sequences become options unless they are given.
    """
    varlen = "offsets_q" in tensors or "offsets_k" in tensors
    layout = options.get("layout", "bshd")
    if not varlen and not (isinstance(layout, str) and layout in LAYOUTS):
        raise invalid(f"layout is {quote(layout)}; it must be 'bshd', 'bhsd' or 'sbhd'")
    axes = "shd" if varlen else layout
    shapes = []  # read once: PyTorch makes a new tuple each time
    for name, array in (("q", q), ("k", k), ("v", v)):
        shape = shape_of(name, array)
        if len(shape) != len(axes):
            raise invalid(
                f"{name} has shape {list(shape)}; it must have {len(axes)} dimensions ("
                + ("[tokens, heads, dim] as offsets_q and offsets_k are given)" if varlen else f"layout {axes})")
            )
        shapes.append(shape)
    of_q, of_k, of_v = shapes
    s, h, d = axes.index("s"), axes.index("h"), axes.index("d")
    if not varlen and "layout" not in options:  # a layout that is given is intended
        warn_if_swapped(of_q[s], of_q[h], of_k[s], of_k[h])
    words = [f"hq={of_q[h]} hk={of_k[h]} d={of_q[d]} dv={of_v[d]}"]
    if not varlen:
        return [*words, f"b={of_q[axes.index('b')]} sq={of_q[s]} sk={of_k[s]}"]
    for name in ("offsets_q", "offsets_k"):
        if name not in tensors:
            raise invalid(f"packed sequences need offsets_q and offsets_k; {name} is missing")
    if "sq" not in options:
        options["sq"] = longest("offsets_q", tensors["offsets_q"])
    if "sk" not in options:
        options["sk"] = longest("offsets_k", tensors["offsets_k"])
    (offsets,) = shape_of("offsets_q", tensors["offsets_q"], 1, "[b+1]")
    return [*words, f"varlen b={offsets - 1} tq={of_q[s]} tk={of_k[s]}"]
