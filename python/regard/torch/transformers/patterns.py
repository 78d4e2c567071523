"""Recognises transformers' own mask patterns by their functions: all keys, earlier keys, or a window of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import transformers.masking_utils as theirs
from transformers.utils.import_utils import is_tracing


class Pattern(NamedTuple):
    causal: bool
    window: tuple[int, int] | None = None


def pattern_of(function: Callable[..., Any]) -> Pattern | None:
    """None for a model's own pattern, and for windows while PyTorch compiles or traces, when their functions cannot be
    inspected."""
    if function is theirs.causal_mask_function:
        return Pattern(causal=True)
    if function is theirs.bidirectional_mask_function:
        return Pattern(causal=False)
    if is_tracing() or not is_made_by(theirs.and_masks, function):
        return None
    parts = variables(function)["mask_functions"]
    if len(parts) != 2:
        return None
    window, all_keys = parts
    if all_keys is theirs.causal_mask_function and is_made_by(theirs.sliding_window_overlay, window):
        return Pattern(causal=True, window=(variables(window)["sliding_window"] - 1, 0))
    if all_keys is theirs.bidirectional_mask_function and is_made_by(
        theirs.sliding_window_bidirectional_overlay, window
    ):
        size = variables(window)["sliding_window"]
        return Pattern(causal=False, window=(size, size))
    return None


def is_made_by(maker: Callable[..., Any], function: Any) -> bool:
    """Whether it is the function that `maker` defines inside itself and returns."""
    return getattr(function, "__code__", None) in maker.__code__.co_consts


def variables(function: Any) -> dict[str, Any]:
    """The variables that it captured from the enclosing function."""
    return dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__), strict=True))
