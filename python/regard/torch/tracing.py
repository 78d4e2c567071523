"""score= and keep= as Python functions: text in their place, and the tensors that they close over among tensors=."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from ..errors import RefusedError, invalid, wrong_type
from ..functions.closures import free_name
from ..functions.places import ARGUMENTS, NAMES_OF_ARGUMENTS
from ..functions.torch_trace import Traces
from ..functions.tree import Named, filled

TRACES = Traces()


class Function:
    """What `function` returns: text, and the tensors that it reads."""

    def __init__(self, purpose: str, of: Callable[..., Any], device: torch.device | None) -> None:
        """device: of the numbers on which the function runs; None: where its tensors are."""
        traced = _trace()(purpose, of, device)
        self.purpose, self.text = purpose, traced.text
        self.reads = tuple([(tensor, free_name(name, ()), detached) for tensor, name, detached in traced.tensors])
        self.__wrapped__ = of  # which says the signature, as for create_block_mask

    def __call__(self, *places: Any) -> Any:
        return self.__wrapped__(*places)


def function(f: Any, purpose: Literal["score", "keep"] | None = None) -> Any:
    """A Python function for `score=` or `keep=` of a call that torch.compile or torch.export compiles.

    f: score_mod(score, b, h, q_idx, kv_idx) or mask_mod(b, h, q_idx, kv_idx), as `attention` takes it; or the
    BlockMask of a `flex_attention`, which becomes one with such a function. It is traced here, so this is called
    outside of what is compiled. purpose: which of the two it is, if the number of its arguments does not say that.

    The result holds the tensors that f reads now: where others take their place, and not only their values change, it
    has to be made again, which traces nothing for the same code and compiles nothing. It can be called as f, for
    example by create_block_mask.

    Raises RefusedError for what the language cannot say, with the line of f, and within what PyTorch compiles;
    InvalidError (a ValueError) or TypeError for what is no such function.
    """
    if torch.compiler.is_compiling():
        raise RefusedError(
            "regard.torch.function traces a Python function, and is called within what PyTorch compiles; call it "
            "before, and pass on what it returns"
        )
    from .block_masks import is_block_mask, traced  # which need this module

    if is_block_mask(f):
        return traced(f)
    return Function(_purpose_of(f) if purpose is None else _known(purpose), f, None)


def _purpose_of(f: Any) -> str:
    if not callable(f):
        raise wrong_type(f"regard.torch.function takes a Python function, and this is of type {type(f).__name__}")
    signature = inspect.signature(f)
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    needed = [x for x in signature.parameters.values() if x.kind in positional and x.default is x.empty]
    for purpose, names in ARGUMENTS.items():
        if len(names) == len(needed):
            return purpose
    of_score, of_keep = NAMES_OF_ARGUMENTS.values()
    raise wrong_type(
        f"the function takes {signature}; it must take ({of_score}) or ({of_keep}), or purpose='score' or "
        "purpose='keep' must say which one it is"
    )


def _known(purpose: str) -> str:
    if purpose not in ARGUMENTS:
        raise invalid(f"purpose is {purpose!r}; it must be 'score' or 'keep'")
    return purpose


def has_python(options: dict[str, Any]) -> bool:
    return callable(options.get("score")) or callable(options.get("keep"))


def with_text(options: dict[str, Any], q: Any) -> dict[str, Any]:
    """The options with functions as text, in which sizes of tensors are filled in when the call is read. Raises
    RefusedError for what the language has not, with the line."""
    tensors = options.get("tensors")
    if isinstance(tensors, str):
        raise invalid("tensors is text beside a Python function, which brings its own; give a dict of tensors")
    named: dict[str, Any] = dict(tensors) if isinstance(tensors, Mapping) else {}
    result = dict(options)
    for purpose in ARGUMENTS:
        if callable(options.get(purpose)):
            traced = _function_of(purpose, options[purpose], q)
            names = [_named(named, purpose, *read) for read in traced.reads]
            result[purpose] = _with_names(traced.text, tuple(names))
    if named:
        result["tensors"] = named
    return result


def _function_of(purpose: str, given: Any, q: Any) -> Function:
    if isinstance(given, Function):
        if given.purpose != purpose:
            raise invalid(
                f"{purpose} is a regard.torch.function of ({NAMES_OF_ARGUMENTS[given.purpose]}), which is for "
                f"{given.purpose}; one for {purpose} takes ({NAMES_OF_ARGUMENTS[purpose]})"
            )
        return given
    if torch.compiler.is_compiling():
        raise RefusedError(
            f"{purpose} is a Python function, which is not traced within what PyTorch compiles: pass "
            "regard.torch.function(f), made before, or give the function as text"
        )
    return Function(purpose, given, q.device if isinstance(q, Tensor) else None)


def _trace() -> Any:
    """TRACES.of, past a compiler that may be at work around this call."""
    dynamo = sys.modules.get("torch._dynamo")
    return TRACES.of if dynamo is None else _past(dynamo)


@lru_cache(maxsize=1)
def _past(dynamo: Any) -> Any:
    return dynamo.disable(TRACES.of)


def _named(named: dict[str, Any], purpose: str, tensor: Tensor, name: str, detached: bool) -> str:
    """The name of a tensor, which is put among the others unless it is there."""
    for other, value in named.items():
        # A mask has no gradient, so that it may read what the score does.
        if value is tensor and (not detached or purpose == "keep"):
            return other
    while name in named:
        name += "_"
    named[name] = tensor.detach() if detached else tensor
    return name


def _with_names(text: str, names: tuple[str, ...]) -> str:
    return filled(text, [Named(name, [f"{{{name}.shape[{axis}]}}" for axis in range(4)]) for name in names])


# What torch.compiler.assume_constant_result does, without importing the compiler, which takes longer than PyTorch.
_with_names._dynamo_marked_constant = True  # type: ignore[attr-defined]
