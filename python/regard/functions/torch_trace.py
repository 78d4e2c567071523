"""Functions of PyTorch tensors, as FlexAttention takes them, as text of the language.

The function runs once on numbers that stand for a place in the score matrix. Each operation of ATen that it reaches
becomes an expression; whatever reads the value of such a number is refused. That is what make_fx does, without the
seconds that importing it takes, and an error is raised where the function is in its own line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ..errors import InvalidError, RefusedError, invalid, wrong_type
from . import LANGUAGE_TYPES
from .aten import DEFAULT_REMEDY, MAKE_CONSTANTS, OPERATIONS, REMEDIES, keeps_its_bits, type_of
from .closures import closure_of
from .places import ARGUMENTS, in_line, refused_arguments
from .tree import Node, converted, literal, load, operation, size, variable, with_read, written

_OURS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
_SIZES = (
    Tensor.shape.__get__,  # type: ignore[attr-defined]
    Tensor.size,
    Tensor.__len__,
    Tensor.numel,
    Tensor.nelement,
)
_BRANCH = "branches on data; torch.where(condition, a, b) takes one of two values, and & | ~ join conditions"
_VALUE = "needs data as a Python number, as loops and slices do; write the terms out, or read a tensor that holds them"
_MOST_TRACES = 1024


class Traced(NamedTuple):
    """A function as text, in which the tensors' names and sizes are filled in later."""

    text: str
    tensors: list[
        tuple[Tensor, str, bool]
    ]  # with the name by which the function reaches it, and whether it detaches it


class _Trace(NamedTuple):
    text: str
    read: tuple[tuple[int, bool], ...]  # places in the closure, and whether the function detaches the tensor
    of_sizes: bool


class Traces:
    """Traces by what they depend on: code, constants and kinds of tensors."""

    def __init__(self) -> None:
        self.made = 0  # of those that were asked for
        self._known: dict[Any, _Trace] = {}

    def of(self, purpose: str, function: Any, device: torch.device | None) -> Traced:
        """purpose: "score" or "keep". device: of the numbers on which the function runs; None: where its tensors
        are."""
        if not callable(function) or isinstance(function, (type, torch.nn.Module)):
            raise wrong_type(f"{purpose} is of type {type(function).__name__}; it must be text or a Python function")
        refused_arguments(purpose, function)
        closure = closure_of(function, _kind_of)
        if device is None:
            device = closure.arrays[0].device if closure.arrays else torch.device("cpu")
        key: Any = None if closure.key is None else (purpose, device.type, closure.key)
        trace = self._known.get(key)
        if trace is not None and trace.of_sizes:
            trace = self._known.get(_of_sizes(key, closure.arrays))
        if trace is None:
            trace = _traced(purpose, function, closure.arrays, device)
            self.made += 1
            self._keep(key, trace, closure.arrays)
        return Traced(trace.text, [(closure.arrays[i], closure.names[i], detached) for i, detached in trace.read])

    def _keep(self, key: Any, trace: _Trace, arrays: Sequence[Tensor]) -> None:
        if key is None:
            return
        if len(self._known) >= _MOST_TRACES:
            self._known.clear()
        self._known[key] = trace
        if trace.of_sizes:
            self._known[_of_sizes(key, arrays)] = trace


def _of_sizes(key: Any, arrays: Sequence[Tensor]) -> Any:
    return key, tuple([array.shape for array in arrays])


def _kind_of(value: Any) -> Any:
    return (value.dtype, value.dim()) if isinstance(value, Tensor) else None


class _View:
    """A closed-over tensor, some of whose dimensions have an index."""

    def __init__(self, place: int, detached: bool, indices: Sequence[Node | None]) -> None:
        self.place, self.detached, self.indices = place, detached, tuple(indices)

    @property
    def open(self) -> list[int]:
        """The dimensions without an index."""
        return [i for i, index in enumerate(self.indices) if index is None]


def _traced(purpose: str, function: Any, arrays: Sequence[Tensor], device: torch.device) -> _Trace:
    record = _Record(purpose, function, arrays)
    with _disable_current_modes(), torch.no_grad():
        places = [
            record.of_node(torch.zeros((), dtype=torch.float32 if name == "s" else torch.int32, device=device), name)
            for name in ARGUMENTS[purpose]
        ]
        with _Calls(record), _Operations(record):
            result = function(*places)
    return record.finished(result)


class _Record:
    """What each tensor stands for while a function runs."""

    def __init__(self, purpose: str, function: Any, arrays: Sequence[Tensor]) -> None:
        self.purpose, self.function, self.arrays = purpose, function, arrays
        self.of_sizes = False
        self.reads = _BRANCH  # what a value would be read for
        self._stands_for: dict[int, Node | _View | None] = {}  # None: a tensor that the function made, of any value
        self._kept: list[Tensor] = list(arrays)  # so that no other has its identity
        self._read: dict[tuple[int, bool], int] = {}
        for place, array in enumerate(arrays):
            self._stands_for[id(array)] = _View(place, False, (None,) * array.dim())

    def of_node(self, tensor: Tensor, what: str | Node | _View | None) -> Tensor:
        self._kept.append(tensor)
        self._stands_for[id(tensor)] = variable(what) if isinstance(what, str) else what
        return tensor

    def what(self, tensor: Tensor) -> Node | _View | None:
        if id(tensor) not in self._stands_for:
            raise self.refused(
                "reads a tensor that is reached in another way than by names, which may be another one in the next "
                "call; close over it"
            )
        return self._stands_for[id(tensor)]

    def node(self, value: Any) -> Node:
        if not isinstance(value, Tensor):
            return literal(value)
        what = self.what(value)
        if isinstance(what, Node):
            return what
        if what is None:
            if value.dim():
                raise self.refused("makes a tensor of several numbers; close over one that was made before")
            with _disable_current_modes():
                return literal(value.item())
        if what.open:
            raise self.refused("works on a whole tensor; index it first, or do this outside and close over the result")
        return self._load(what)

    def _load(self, view: _View) -> Node:
        array = self.arrays[view.place]
        type = LANGUAGE_TYPES.get(str(array.dtype).partition(".")[2])
        if type is None:
            kinds = ", ".join(LANGUAGE_TYPES)
            raise self.refused(f"reads a tensor of {array.dtype}; functions read {kinds}: convert it outside")
        detached = array.requires_grad and (view.detached or self.purpose == "keep")
        number = self._read.setdefault((view.place, detached), len(self._read))
        indices = []
        for dimension, index in enumerate(view.indices):
            assert index is not None
            if index.low is None or index.low < 0:
                from_end = operation("+", index, size(number, dimension))
                is_constant = index.high is not None and index.low == index.high
                below = operation("<", index, literal(0), type="bool")
                index = from_end if is_constant else operation("where", below, from_end, index)
            indices.append(index)
        node = load(number, indices, type)
        if array.dtype == torch.uint8:
            node.low, node.high = 0, 255
        return node

    def indexed(self, tensor: Tensor, places: Any) -> Any:
        """What tensor[places] is; NotImplemented if nothing that is recorded has a part in it."""
        entries = list(places) if isinstance(places, tuple) else [places]
        parts = [entry for entry in (tensor, *entries) if isinstance(entry, Tensor)]
        if all(self.what(part) is None for part in parts):
            return NotImplemented
        view = self.what(tensor)
        if not isinstance(view, _View):
            raise self.refused("indexes a tensor that is not closed over; close over one that was made before")
        if any(entry is ... for entry in entries):
            at = next(i for i, entry in enumerate(entries) if entry is ...)
            entries[at : at + 1] = [slice(None)] * (len(view.open) - len(entries) + 1)
        if len(entries) > len(view.open):
            raise self.refused(f"gives {len(entries)} indices to a tensor of {len(view.open)} dimensions")
        indices = list(view.indices)
        for dimension, entry in zip(view.open, entries):
            if isinstance(entry, slice) and entry == slice(None):
                continue
            if isinstance(entry, (bool, slice, list)) or entry is None:
                raise self.refused(f"indexes a tensor with {_kind(entry)}; an index is a whole number, or ':'")
            if isinstance(entry, Tensor) and entry.dtype in (torch.uint8, torch.bool):
                raise self.refused(f"indexes a tensor with {entry.dtype}, which PyTorch reads as a mask; convert it")
            index = self.node(entry)
            if index.type != "int32":
                raise self.refused(f"indexes a tensor with {index.type}; an index is a whole number")
            indices[dimension] = index
        return self._placeholder(tensor, _View(view.place, view.detached, indices))

    def detached(self, tensor: Tensor) -> Any:
        what = self.what(tensor)
        if isinstance(what, _View):
            return self._placeholder(tensor, _View(what.place, True, what.indices))
        if isinstance(what, Node) and self.purpose == "score":
            raise self.refused(
                "detaches what it computed, and only tensors that it closes over can be detached; detach those"
            )
        return tensor

    def _placeholder(self, like: Tensor, view: _View) -> Tensor:
        with _disable_current_modes():
            shape = [self.arrays[view.place].shape[dimension] for dimension in view.open]
            made = torch.zeros((), dtype=like.dtype, device=like.device).expand(shape)
        return self.of_node(made, view)

    def finished(self, result: Any) -> _Trace:
        if not isinstance(result, Tensor):
            raise wrong_type(
                f"{self.purpose} returns {_kind(result)}; it must return a tensor without dimensions"
                + (", such as score.new_ones((), dtype=torch.bool)" if isinstance(result, bool) else "")
            )
        if result.dim():
            raise invalid(f"{self.purpose} returns a tensor of {result.dim()} dimensions; it must have none")
        root = self.node(result)
        if self.purpose == "keep" and root.type != "bool":
            raise invalid(f"keep returns {result.dtype}; it must return a condition, such as kv_idx <= q_idx")
        text = written(converted(root, "fp32") if self.purpose == "score" else root)
        return _Trace(*with_read(text, tuple(self._read)), self.of_sizes)

    def refused(self, sentence: str) -> RefusedError:
        """The error, with the line of the function where it is running."""
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_OURS):
            frame = frame.f_back
        place = None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
        return in_line(self.purpose, place, sentence)


def _kind(value: Any) -> str:
    return repr(value) if isinstance(value, (bool, int, float, slice, type(None))) else f"a {type(value).__name__}"


class _Calls(TorchFunctionMode):
    """Sees calls before PyTorch reads the values in them, as it reads indices without dimensions."""

    def __init__(self, record: _Record) -> None:
        super().__init__()
        self._record = record

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        record = self._record
        if function is Tensor.__getitem__:
            found = record.indexed(*args)
            if found is not NotImplemented:
                return found
        elif function is Tensor.data.__get__:  # type: ignore[attr-defined]
            return record.detached(args[0])
        elif function in _SIZES and args[0].dim():
            record.of_sizes = True
        name = getattr(function, "__name__", "")
        record.reads = _BRANCH if name in ("__bool__", "is_nonzero") else _VALUE
        return function(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees operations."""

    def __init__(self, record: _Record) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._record = record

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        record, kwargs = self._record, kwargs or {}
        name = function._schema.name.partition("::")[2]
        if name in ("lift_fresh", "lift_fresh_copy"):  # a tensor that was just made of Python numbers
            return record.of_node(args[0].clone(), None)
        tensors = [value for value in _flat((*args, *kwargs.values())) if isinstance(value, Tensor)]
        recorded = [tensor for tensor in tensors if record.what(tensor) is not None]
        if torch.Tag.nondeterministic_seeded in function.tags:
            raise self._refused(name, "as a random number, take an integer hash of b, h, q_idx and kv_idx")
        if not recorded or name in MAKE_CONSTANTS:
            results = function(*args, **kwargs)
            for result in _flat((results,)):
                if isinstance(result, Tensor):
                    record.of_node(result, None)
            return results
        if name in ("_local_scalar_dense", "item", "is_nonzero", "equal"):
            raise record.refused(record.reads)
        if name in ("detach", "detach_"):
            return record.detached(args[0])
        if name == "alias":
            return args[0]
        if name == "select":
            return record.indexed(args[0], (*[slice(None)] * (args[1] % args[0].dim()), args[2]))
        if name == "index":
            return record.indexed(args[0], tuple(slice(None) if index is None else index for index in args[1]))
        return self._computed(function, name, args, kwargs)

    def _computed(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        record = self._record
        in_place = name.endswith("_") and name[:-1] in OPERATIONS
        operator = name[:-1] if in_place else name
        make = OPERATIONS.get(operator)
        if make is None or "out" in kwargs:
            raise self._refused(name, REMEDIES.get(name, DEFAULT_REMEDY))
        operands = [record.node(value) if isinstance(value, Tensor) else value for value in args]
        named = {key: record.node(value) if isinstance(value, Tensor) else value for key, value in kwargs.items()}
        if in_place and isinstance(record.what(args[0]), _View):
            raise record.refused("changes a tensor that it closes over; a function may only read")
        result = args[0] if in_place else function(*args, **kwargs)
        if result.dtype.is_floating_point:  # whole numbers that would be none in int32 are converted as PyTorch does
            operands = [float(x) if isinstance(x, int) and abs(x) >= 2**31 else x for x in operands]
        if result.dtype == torch.float64 or not keeps_its_bits(operator, result.dtype):
            raise record.refused(f"computes in {result.dtype}; functions compute in float32 and int32: convert first")
        try:
            node = make(*operands, **named)
        except RefusedError as error:
            raise record.refused(f"calls aten.{name} {error}") from None
        except InvalidError as error:
            raise record.refused(f"calls aten.{name}: {error}") from None
        return record.of_node(result, converted(node, type_of(result.dtype)))

    def _refused(self, name: str, why: str) -> RefusedError:
        return self._record.refused(f"calls aten.{name}, which functions of scores and masks do not have; {why}")


def _flat(values: Any) -> list[Any]:
    flat = []
    for value in values:
        flat += _flat(value) if isinstance(value, (tuple, list)) else [value]
    return flat
