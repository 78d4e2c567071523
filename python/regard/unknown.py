"""Unknown options: each is refused, with the name of the option that was probably meant."""

from __future__ import annotations

import difflib
import json
import re
from functools import lru_cache
from typing import Any

from . import _core
from .errors import InvalidError, invalid
from .options import Options
from .words import quote

# Options that problem text expresses with other words; its sizes come from the arrays.
_IN_PYTHON = {
    "mask=causal": "causal=True",
    "mask=causal_top_left": "causal='top_left'",
    "mask=none": "no option, as every key is visible by default",
    "bits": "bits=regard.pack_bits(mask) for a boolean mask, or bias= for numbers that are added to the scores",
    "bias=alibi": "alibi=, the slopes",
    "varlen": "offsets_q= and offsets_k=",
    "lengths": "lengths_q= and lengths_k=",
    "descale=tensor": "descale_q=, descale_k= and descale_v=",
    "dbias": "grad_bias=True",
    "dlse": "grad_lse=",
    "latent": "v=None and dv=, where v is the first columns of k",
    "paged=16": "page_table=, for k and v that are pages",
    "table=sglang": "page_list=, page_offsets= and last_page_lengths=",
    "slots=int64": "slots=",
    "positions=sequence": "positions=",
    "cache=8": "cache_index=",
    "snew=1": "k_new= and v_new=",
    "tnew=64": "offsets_new=",
    "kv=fp8": "no option, as the type of a cache is that of k and v",
}
_FUNCTIONS = "score= or keep=, which take text or, in regard.torch.attention and regard.jax.attention, functions"
_SIZES = frozenset(("b", "h", "hq", "hk", "s", "sq", "sk", "d", "dv", "tq", "tk"))


@lru_cache(maxsize=1)
def known() -> frozenset[str]:
    """The names of all options: tensors, words of problem text, and the conveniences of Python."""
    words = (row["word"].partition("=")[0] for row in json.loads(_core.words()))
    return frozenset(Options.__annotations__).union(words, _core.roles(), ("lse", "dropout_mask", "row_max"))


def refuse_unknown(options: dict[str, Any]) -> None:
    """Refuses them whatever their values are: even None was meant to have an effect."""
    for name in options:
        if name not in known():
            raise unknown(name, options[name])


def unknown(name: str, value: Any = None) -> InvalidError:
    near = difflib.get_close_matches(name, known(), 1, 0.8)
    meant = _given(near[0], value) if near else _FUNCTIONS if callable(value) else _other_name(name, value)
    return invalid(
        f"unknown option {name!r}; " + (f"did you mean {meant}?" if meant else "help(regard.options) lists them all")
    )


def _given(option: str, value: Any) -> str:
    """An option with the caller's value, if that is short."""
    return f"{option}={quote(value) if isinstance(value, (bool, int, float, tuple)) else ''}"


def _other_name(name: str, value: Any) -> str | None:
    """The option here for another library's name, found among the words of problem text."""
    try:
        _core.Problem(name)
    except InvalidError as error:
        found = re.search(r"did you mean '([^']*)'", str(error))
        word = found[1] if found else ""
    else:
        return None
    option, _, _ = word.partition("=")
    if option in _SIZES:
        return "no option, as sizes are those of the arrays"
    if word.startswith("mask=window"):
        return _given("window", value) if isinstance(value, tuple) else "window=(left, right)"
    return _IN_PYTHON.get(word) or (_given(option, value) if option in known() else None)
