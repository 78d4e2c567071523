"""Functions of the score and the mask: the options score, keep, tensors and grads as words and tensors of a problem."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..arrays import dtype_name, shape_of
from ..errors import invalid, wrong_type
from ..words import quote

# The type of the language as which an array's numbers are read.
LANGUAGE_TYPES = {
    "float32": "fp32",
    "bfloat16": "fp32",
    "float16": "fp32",
    "int32": "int32",
    "int64": "int32",
    "uint8": "int32",
    "bool": "bool",
}
_MOST = 8
_ROLE = "captured_"
_SIZE = re.compile(r"\{(\w+)\.shape\[(\d)\]\}")


class Sizes(NamedTuple):
    """What is allocated for the gradient of a captured tensor."""

    shape: tuple[int, ...]
    dtype: str


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        also = ", as only regard.torch and regard.jax take Python functions" if callable(value) else ""
        raise wrong_type(f"{name} is of type {type(value).__name__}; it must be text such as 's*2.0'{also}")
    if '"' in value or "'" in value:
        raise invalid(f"{name} is {quote(value)}; a function cannot contain quotes")
    return " ".join(value.split())


def _declared(name: Any, array: Any) -> str:
    if not isinstance(name, str):
        raise wrong_type(f"a name in tensors is of type {type(name).__name__}; it must be text")
    rank = len(shape_of(f"tensors[{name!r}]", array))
    dtype = dtype_name(f"tensors[{name!r}]", array)
    if dtype not in LANGUAGE_TYPES:
        raise invalid(
            f"tensors[{name!r}] has dtype {dtype}; functions read {', '.join(LANGUAGE_TYPES)}: convert it first"
        )
    return f"{name}:{LANGUAGE_TYPES[dtype]}[{rank}]"


def with_functions(options: dict[str, Any]) -> dict[str, Any]:
    """The options with texts for `score`, `keep`, `tensors` and `grads`, and the tensors by the names of their roles;
    the same dict if there is no function."""
    names = [name for name in ("score", "keep", "tensors", "grads") if options.get(name) is not None]
    if not names:
        return options
    result = {name: value for name, value in options.items() if name not in ("tensors", "grads")}
    for name in ("score", "keep"):
        if name in names:
            result[name] = _text(name, options[name])
    tensors = options.get("tensors")
    if isinstance(tensors, str):
        result["tensors"] = tensors
    elif tensors is not None:
        if not isinstance(tensors, Mapping):
            raise wrong_type(
                f"tensors is of type {type(tensors).__name__}; it must be a dict of arrays by the names that score "
                "and keep use"
            )
        if len(tensors) > _MOST:
            raise invalid(f"tensors has {len(tensors)} arrays; functions read at most {_MOST}")
        if tensors:
            result["tensors"] = ",".join(_declared(name, array) for name, array in tensors.items())
        for i, (name, array) in enumerate(tensors.items()):  # an array of one number is given as [1]
            result[f"{_ROLE}{i}"] = array if shape_of(f"tensors[{name!r}]", array) else array.reshape(1)
    grads = options.get("grads")
    if isinstance(grads, str):
        result["grads"] = grads
    elif grads is not None:
        grads = tuple(grads)
        if not all(isinstance(name, str) for name in grads):
            raise wrong_type("grads must be names of tensors, such as ('slope',)")
        if grads:
            result["grads"] = ",".join(grads)
    return result


def is_captured(name: str) -> bool:
    """Whether a role is that of a tensor that a function reads."""
    return name.startswith(_ROLE)


def index_of(name: str) -> int:
    """The place of a captured tensor in tensors=, by the name of its role."""
    return int(name[len(_ROLE) :])


def names_of(declared: str) -> list[str]:
    """The names in the word tensors=."""
    return [tensor.partition(":")[0] for tensor in declared.split(",")]


def with_sizes(options: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """The options with the sizes of captured tensors in score and keep, which "{slope.shape[0]}" stands for."""
    result = options
    for purpose in ("score", "keep"):
        text = options.get(purpose)
        if isinstance(text, str) and "{" in text:
            role_of = {name: f"{_ROLE}{i}" for i, name in enumerate(names_of(options.get("tensors") or ""))}

            def size(found: re.Match[str], role_of: dict[str, str] = role_of) -> str:
                role = role_of.get(found[1])
                return found[0] if role is None else str(shape_of(found[1], tensors[role])[int(found[2])])

            result = {**result, purpose: _SIZE.sub(size, text)}
    return result


def name_for_messages(name: str, options: Mapping[str, Any]) -> str:
    """The name of an option as the caller gave it: that of a captured tensor is in the word tensors=."""
    declared = options.get("tensors")
    if not is_captured(name) or not isinstance(declared, str):
        return name
    return f"tensors[{names_of(declared)[index_of(name)]!r}]"


def gradient_sizes(outputs: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """The outputs, where gradients of captured tensors have the shapes of those."""
    return {
        name: Sizes(tuple(shape_of(name, tensors[name[5:]])), spec.dtype)
        if name.startswith("grad_captured_") and name[5:] in tensors
        else spec
        for name, spec in outputs.items()
    }
