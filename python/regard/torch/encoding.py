"""Options as the arguments of an operator, which takes lists of tensors and numbers, and text.

Sizes stay numbers, so that they can be symbols while PyTorch traces; the text says what each option is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import wrong_type
from ..functions import name_for_messages

SCHEMA = "Tensor[] tensors, SymInt[] whole, float[] real, str text"  # of the options of an operator


class Encoded(NamedTuple):
    tensors: list[Tensor]
    whole: list[Any]  # numbers, or their symbols
    real: list[float]
    text: str


def encode(options: dict[str, Any]) -> Encoded:
    encoded = Encoded([], [], [], "")
    codes = [
        f"{name!r}: {_code(name_for_messages(name, options), option, encoded)}" for name, option in options.items()
    ]
    return encoded._replace(text="{" + ", ".join(codes) + "}")


def _code(name: str, option: Any, to: Encoded) -> str:
    if option is None or isinstance(option, bool):
        return repr(option)
    if isinstance(option, str):
        return repr("=" + option)
    if isinstance(option, (tuple, list)):
        return "(" + "".join([_code(name, entry, to) + "," for entry in option]) + ")"
    if isinstance(option, Tensor):
        to.tensors.append(option)
        return "'tensor'"
    if isinstance(option, (int, torch.SymInt)):
        to.whole.append(option)
        return "'whole'"
    if isinstance(option, (float, torch.SymFloat)):
        to.real.append(float(option))
        return "'real'"
    raise wrong_type(
        f"{name} is of type {type(option).__name__}; where PyTorch compiles, traces or transforms a call, an option is "
        "a tensor, a number, text, True or False"
    )


def without_empty_lists(encoded: Encoded, tensor: Tensor) -> Encoded:
    """The same for `decode`, which does not read lists that the text does not name. AOTInductor calls an operator
    without its empty lists."""
    return Encoded(encoded.tensors or [tensor], encoded.whole or [0], encoded.real or [0.0], encoded.text)


def decode(tensors: Sequence[Tensor], whole: Sequence[int], real: Sequence[float], text: str) -> dict[str, Any]:
    """The options from which `encode` made this; the lists may have more elements."""
    values: dict[str, Iterator[Any]] = {"tensor": iter(tensors), "whole": iter(whole), "real": iter(real)}

    def option(code: Any) -> Any:
        if isinstance(code, tuple):
            return tuple([option(entry) for entry in code])
        if isinstance(code, str):
            return code[1:] if code.startswith("=") else next(values[code])
        return code

    return {name: option(code) for name, code in _parsed(text).items()}


@lru_cache(maxsize=1024)
def _parsed(text: str) -> dict[str, Any]:
    codes: dict[str, Any] = ast.literal_eval(text)
    return codes
