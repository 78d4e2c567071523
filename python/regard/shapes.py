"""The sizes of a problem, from the shapes of its arrays."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from .arrays import longest, shape_of
from .errors import invalid
from .kv_cache import page_words, sequences_of_new, value_words
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


def _checked(name: str, array: Any, axes: str, why: str) -> tuple[int, ...]:
    """The shape of an array that has these axes; read once, as PyTorch makes a new tuple each time."""
    shape = shape_of(name, array)
    if len(shape) == len(axes):
        return shape
    meaning = f"[tokens, heads, dim] as {why} given" if axes == "shd" else why or f"layout {axes}"
    raise invalid(f"{name} has shape {list(shape)}; it must have {len(axes)} dimensions ({meaning})")


def shape_words(q: Any, k: Any, v: Any, options: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    """The sizes as words of problem text. Whether all arrays agree with them is checked when the plan runs.

    Sizes that are read from values, as that of the longest packed sequence, become options unless they are given.
    """
    packed = "offsets_q" in tensors or "offsets_k" in tensors
    paged = "page_table" in tensors or "page_list" in tensors
    layout = options.get("layout", "bshd")
    if not packed and not (isinstance(layout, str) and layout in LAYOUTS):
        raise invalid(f"layout is {quote(layout)}; it must be 'bshd', 'bhsd' or 'sbhd'")
    if packed and "offsets_q" not in tensors:
        _checked("q", q, "shd", "offsets_q and offsets_k are")
        raise invalid("packed sequences need offsets_q and offsets_k; offsets_q is missing")
    # Packed queries attend to packed keys, or to a KV cache, whose sequences have no offsets.
    cached = packed and "offsets_k" not in tensors and (paged or len(shape_of("k", k)) == 4)
    if packed and cached:
        layout = "bshd"
    why = "offsets_q is" if cached else "offsets_q and offsets_k are" if packed else ""
    axes_q = "shd" if packed else layout
    axes_k = "shd" if packed and not cached else layout
    of_q = _checked("q", q, axes_q, why)
    if paged:
        return [*_query_words(of_q, axes_q, options, tensors), *page_words(k, v, layout, options, tensors)]
    of_k = _checked("k", k, axes_k, why)
    dv = None if v is None else _checked("v", v, axes_k, why)[axes_k.index("d")]
    s, h = axes_k.index("s"), axes_k.index("h")
    if not packed and "layout" not in options and "cache_index" not in tensors:  # a given layout is intended
        warn_if_swapped(of_q[s], of_q[h], of_k[s], of_k[h])
    words = [*_query_words(of_q, axes_q, options, tensors), f"hk={of_k[h]}"]
    words.append(value_words(of_k[axes_k.index("d")], dv, options, tensors))
    if packed and not cached:
        if "offsets_k" not in tensors:
            raise invalid("packed sequences need offsets_q and offsets_k; offsets_k is missing")
        options["sk"] = _longest("sk", "offsets_k", of_k[s], options, tensors)
        return [*words, f"tk={of_k[s]}"]
    if (cached or "cache_index" in tensors) and "cache" not in options:
        words.append(f"cache={of_k[axes_k.index('b')]}")
    return [*words, f"sk={of_k[s]}"]


def append_words(k: Any, v: Any, options: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    """The sizes of append, which has no queries: there are as many heads of them as of K."""
    layout = options.get("layout", "bshd")
    if not (isinstance(layout, str) and layout in LAYOUTS):
        raise invalid(f"layout is {quote(layout)}; it must be 'bshd', 'bhsd' or 'sbhd'")
    of_new = shape_of("k_new", tensors["k_new"])
    if len(of_new) not in (3, 4):
        raise invalid(f"k_new has shape {list(of_new)}; it must be [b, snew, hk, d] or, packed, [tokens, hk, d]")
    vectorized = options.get("kv_layout") == "vectorized"
    heads = shape_of("k", k, 4, "a cache of 4 dimensions")[1 if vectorized else layout.index("h")]
    batch = 1 if "slots" in tensors else sequences_of_new(options, tensors)
    words = [f"hq={heads} d={of_new[-1]} b={batch}"]
    if any(name in tensors for name in ("page_table", "page_list")) or options.get("paged"):
        return [*words, *page_words(k, v, layout, options, tensors)]
    of_k = _checked("k", k, layout, "")
    dv = None if v is None else _checked("v", v, layout, "")[-1]
    sequences = of_k[layout.index("b")]
    if "cache" not in options and ("cache_index" in tensors or sequences != batch):
        words.append(f"cache={sequences}")
    words.append(value_words(of_k[-1], dv, options, tensors))
    return [*words, f"hk={of_k[layout.index('h')]} sk={of_k[layout.index('s')]}"]


def _query_words(shape: tuple[int, ...], axes: str, options: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    s, h, d = axes.index("s"), axes.index("h"), axes.index("d")
    words = [f"hq={shape[h]} d={shape[d]}"]
    if "b" in axes:
        return [*words, f"b={shape[axes.index('b')]} sq={shape[s]}"]
    options["sq"] = _longest("sq", "offsets_q", shape[s], options, tensors)
    (offsets,) = shape_of("offsets_q", tensors["offsets_q"], 1, "[b+1]")
    return [*words, f"varlen b={offsets - 1} tq={shape[s]}"]


def _longest(word: str, name: str, tokens: int, options: dict[str, Any], tensors: dict[str, Any]) -> Any:
    """The longest packed sequence, or a bound; 0 if there are no tokens, whose number means b * sq where it is 0."""
    if isinstance(tokens, int) and tokens == 0:
        return 0
    return options[word] if word in options else longest(name, tensors[name])
