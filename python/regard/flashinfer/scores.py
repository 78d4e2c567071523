"""How scores are computed, and which keys a query sees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError, invalid
from ..flash_attn.words import is_on, whole
from ..words import number, quote
from .attend import Planned


def slopes(heads: int, device: torch.device) -> Tensor:
    """The slopes of ALiBi's authors: for the first n heads, a power of two, the powers of 2^(-8/n), and for the others
    the odd powers of its square root."""
    n = 1 << (heads.bit_length() - 1)
    powers = [2 ** (-8 * (i + 1) / n) for i in range(n)]
    powers += [2 ** (-4 * (2 * i + 1) / n) for i in range(heads - n)]
    return torch.tensor(powers, dtype=torch.float32, device=device)


def score_options(
    d: int,
    *,
    causal: bool,
    one_query: bool = False,
    pos_encoding_mode: Any,
    window_left: Any,
    logits_soft_cap: Any,
    sm_scale: Any,
    rope_scale: Any,
    rope_theta: Any,
    heads: int,
    device: torch.device,
) -> dict[str, Any]:
    """one_query: whether each sequence has one query, which no causal mask changes."""
    for name, value in (("rope_scale", rope_scale), ("rope_theta", rope_theta)):
        if value is not None:
            number(name, value)
    scale = d**-0.5 if sm_scale is None else number("sm_scale", sm_scale)
    options: dict[str, Any] = {"scale": scale}
    left = whole("window_left", window_left)
    if left >= 0:
        options["window"] = (left, -1)
    if causal and not one_query:
        options["causal"] = True
    cap = 0.0 if logits_soft_cap is None else number("logits_soft_cap", logits_soft_cap)
    if not cap <= 0:
        options["softcap"] = cap
    if pos_encoding_mode == "NONE":
        return options
    if pos_encoding_mode != "ALIBI":
        raise _other_positions(pos_encoding_mode)
    if not (causal or one_query) or cap > 0:
        raise RefusedError(
            "pos_encoding_mode is 'ALIBI', whose bias here also grows with the distance from later keys, and which "
            "does not go with a soft cap: give causal=True, and no logits_soft_cap"
        )
    options["alibi"] = slopes(heads, device)
    return options


def _other_positions(mode: Any) -> Exception:
    if isinstance(mode, str) and mode == "ROPE_LLAMA":
        return RefusedError(
            "pos_encoding_mode is 'ROPE_LLAMA', which rotates cached keys whenever they are read: rotate keys once, "
            "before they are appended, and queries before run"
        )
    return invalid(f"pos_encoding_mode is {quote(mode)}; it must be 'NONE' or 'ALIBI'")


_SCORES = frozenset(("scale", "window", "causal", "softcap", "alibi"))


def with_scores(planned: Planned, scores: dict[str, Any]) -> Planned:
    others = {name: option for name, option in planned.options.items() if name not in _SCORES}
    return planned._replace(options={**others, **scores})


def invariance(fixed_split_size: Any, disable_split_kv: Any) -> dict[str, Any]:
    """In FlashInfer either of them makes results independent of the batch."""
    if fixed_split_size is not None:
        whole("fixed_split_size", fixed_split_size)
    if fixed_split_size is None and not is_on("disable_split_kv", disable_split_kv):
        return {}
    return {"batch_invariant": True}


def refuse_other_window(window_left: Any, planned: int) -> None:
    left = whole("window_left", window_left)
    if max(left, -1) != max(planned, -1):
        raise invalid(f"window_left is {left}, and the plan has {planned}: plan again for another window")
