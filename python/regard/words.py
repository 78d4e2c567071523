"""Options as words of problem text: what a value means, and which values add nothing to the text."""

from __future__ import annotations

import json
import operator
from functools import lru_cache
from typing import Any

from . import _core
from .arrays import first_line, known_word, shape_of
from .errors import RegardError, invalid, wrong_type


def _text_of_type(value: Any) -> str:
    return f"of type {type(value).__name__}"


def quote(value: Any) -> str:
    """A value in a message, on one short line."""
    said = repr(value) if isinstance(value, (bool, int, float, str, tuple)) else _text_of_type(value)
    said = " ".join(said.split())
    return said if len(said) <= 100 else said[:100] + "..."


@lru_cache(maxsize=1)
def _words() -> dict[str, str]:
    """The values that each word of problem text takes, in Python terms."""
    takes = {"": "True or False", "N": "a whole number", "X": "a number"}
    rows = [row["word"].partition("=") for row in reversed(json.loads(_core.words()))]
    return {word: takes.get(value, f"text such as {value.split('|')[:2][-1]!r}") for word, _, value in rows}


def plain(name: str, value: Any, takes: str = "") -> Any:
    """The value of a word: text, a number or a switch, also from NumPy. Arrays have no truth value."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        _core.check_readable(name, value)
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            return value.item()
        if hasattr(value, "__index__") and not hasattr(value, "shape"):
            return operator.index(value)
        if hasattr(value, "__float__") and not hasattr(value, "shape"):
            return float(value)
        takes = takes or _words().get(name) or "a number, text, True or False"
    except (RegardError, MemoryError):
        raise
    except Exception as error:  # such as a parameter that is not initialised yet
        raise invalid(f"{name} cannot be read: {first_line(error)}") from error
    if name == "mask" and (hasattr(value, "shape") or isinstance(value, (list, tuple))):
        kind = "an array" if hasattr(value, "shape") else _text_of_type(value)
        raise invalid(f"mask is {kind} and the option takes text: give a boolean mask as bits=regard.pack_bits(mask)")
    raise wrong_type(f"{name} is {_text_of_type(value)}; it must be {takes}")


def whole(name: str, value: Any) -> int:
    number = plain(name, value, "a whole number")
    if isinstance(number, bool) or not isinstance(number, int):
        kind = "an int" if isinstance(number, float) else "a whole number"
        raise wrong_type(f"{name} is {quote(number)}; it must be {kind}")
    return number


def refuse_empty_way(functions: Any) -> None:
    """The option functions=: the library takes "" as any way, and text of a caller that is empty is a mistake."""
    if isinstance(functions, str) and not functions:
        raise invalid("functions is ''; give a word such as 'bits', or leave it out")


def count(name: str, value: Any, least: int = 1) -> int:
    """A whole number from `least` on."""
    try:
        found = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = least - 1
    if found < least:
        raise invalid(f"{name} is {quote(value)}; it must be a whole number from {least} on")
    return found


def number(name: str, value: Any) -> float:
    if type(value) is float:
        return value
    found = None if isinstance(value, str) else plain(name, value, "a number")
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise wrong_type(f"{name} is {quote(value)}; it must be a number")
    return float(found)


def bias_words(bias: Any) -> str:
    shape = shape_of("bias", bias)
    if not 1 <= len(shape) <= 4:
        raise invalid(f"bias has shape {list(shape)}; it must be [1|b, 1|hq, 1|sq, sk]")
    of_batch, of_head = ([1] * (4 - len(shape)) + list(shape))[:2]
    words = "bias=" + ("1" if of_batch == 1 else "b") + ("1" if of_head == 1 else "h")
    dtype = known_word("bias", bias)
    return f"{words} bias_type={dtype}" if dtype else words


# The words that the presence of a tensor adds to the problem.
IMPLIES: dict[str, Any] = {
    "bias": bias_words,
    "alibi": lambda slopes: "bias=alibi" if len(shape_of("alibi", slopes)) == 1 else "bias=alibi_b",
    "sink": lambda _: "sink",
    "ranges": lambda _: "ranges",
    "bits": lambda _: "bits",
    "lse": lambda _: "lse",
    "dropout_mask": lambda _: "dropout_mask",
    "row_max": lambda _: "row_max",
    "grad_bias": lambda _: "dbias",
    "grad_lse": lambda _: "dlse",
    "lengths_q": lambda _: "lengths",
    "lengths_k": lambda _: "lengths",
    "left_padding": lambda _: "left_padding",
    "k_rope": lambda _: "k_rope",
}


def dropout_words(dropout_p: float) -> dict[str, Any]:
    """Dropout for interfaces that divide kept weights by 1 - p, though the true probability is a multiple of 1/256."""
    dropout_p = plain("dropout_p", dropout_p, "a number from 0 to 1")
    if not dropout_p:
        return {}
    words: dict[str, Any] = {"dropout": dropout_p}
    if isinstance(dropout_p, str) or not 0 < dropout_p < 1:
        return words
    return {**words, "keep_scale": 1 / (1 - dropout_p)}


PAIR = "a pair (left, right) of whole numbers, -1 for unbounded"


def mask_word(options: dict[str, Any]) -> str | None:
    """mask=..., from `mask` or from `causal`, `window` and `sink_tokens` together."""
    causal = plain("causal", options.pop("causal", False), "True (bottom-right), 'top_left' or False")
    window = options.pop("window", None)
    sink_tokens = options.pop("sink_tokens", None)
    sink_tokens = 0 if sink_tokens is None else whole("sink_tokens", sink_tokens)
    if causal is False and window is None and sink_tokens == 0:
        return None
    if "mask" in options:
        raise invalid("mask= says all of it: give either mask or causal, window and sink_tokens")
    if causal not in (True, False, "top_left"):
        raise invalid(f"causal is {causal!r}; it must be True (bottom-right), 'top_left' or False")
    top_left = causal == "top_left"
    if window is None and sink_tokens == 0:
        return "mask=causal_top_left" if top_left else "mask=causal"
    _core.check_readable("window", window)
    try:
        left, right = (-1, -1) if window is None else window
    except MemoryError:
        raise
    except Exception:
        raise invalid(f"window is {quote(window)}; it must be {PAIR}") from None
    left, right = whole("window's left side", left), whole("window's right side", right)
    if causal is not False:
        right = 0
    word = f"mask=window:{left},{right}" + (",top_left" if top_left else "")
    return word + (f",sink={sink_tokens}" if sink_tokens else "")
