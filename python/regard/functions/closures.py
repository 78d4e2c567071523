"""What a Python function closes over: its arrays, and a key that is equal for functions whose traces are.

A trace depends on code, on constants and on kinds of arrays. Values that functions reach by the names in their code are
looked at: cells of closures, defaults, globals, attributes. What they reach otherwise, such as by an index into an
object, is not in the key, so such functions are traced at each call.
"""

from __future__ import annotations

import dis
import enum
import functools
import re
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(...), slice, enum.Enum, numpy.generic)
_NUMBERS = frozenset((bool, int, float))
_LIBRARIES = ("builtins", "math", "operator", "functools", "numpy", "torch", "jax", "jaxlib")
_CALLED = "__call__"  # by no name
_READERS = frozenset(["getattr", "vars", "__dict__", "globals", "locals", "eval", "exec", "attrgetter", "__import__"])
_READS_OTHERWISE = ("__getitem__", "__getattr__", "__getattribute__", "__iter__", "__len__", "__bool__", "__contains__")
_MOST_VALUES = 1000


class Closure(NamedTuple):
    key: Any  # hashable; None if there is none
    arrays: list[Any]  # each once
    names: list[str]  # by which the function reaches them
    attributes: frozenset[str]  # names in the code of all functions
    kind_of: Callable[[Any], Any]


def closure_of(function: Any, kind_of: Callable[[Any], Any]) -> Closure:
    """kind_of: what a trace depends on of an array; None for what is no array."""
    plain = _plain(function, kind_of)
    if plain is not None:
        return plain
    names: frozenset[str] = frozenset()
    while True:
        walk = _Walk(kind_of, names)
        key = walk.value("function", function)
        if names >= walk.named or not walk.read_attributes:
            return Closure(key if walk.is_complete else None, walk.arrays, walk.names, names, kind_of)
        names = names | walk.named


def arrays_in(value: Any, closure: Closure) -> list[Any]:
    """The arrays that the code of a closure can reach by way of this value."""
    walk = _Walk(closure.kind_of, closure.attributes)
    walk.value("", value)
    return walk.arrays


def free_name(name: str, taken: Iterable[str]) -> str:
    """A name of the language for what a function reaches by that one."""
    chosen = _in_language(name)
    while chosen in taken:
        chosen += "_"
    return chosen


@functools.lru_cache(maxsize=1024)
def _in_language(name: str) -> str:
    chosen = re.sub(r"\W", "_", name, flags=re.ASCII) + "_"  # no word of the language ends in one
    return f"x{chosen}" if chosen[0].isdigit() else chosen


def _plain(function: Any, kind_of: Callable[[Any], Any]) -> Closure | None:
    """The closure of a function that reads only arrays, numbers and modules of libraries, as most do; None for any
    other. It is found in a third of the time that a walk takes."""
    if type(function) is not types.FunctionType or function.__defaults__ or function.__kwdefaults__:
        return None
    code = _code_of(function.__code__)
    if function.__dict__ or not code.reads_by_names:
        return None
    of_module = function.__globals__
    read = [(name, of_module[name]) for name in code.globals if name in of_module]  # others are of builtins
    try:
        read += [(name, cell.cell_contents) for name, cell in zip(code.cells, function.__closure__ or ())]
    except ValueError:  # a name that is not assigned yet
        return None
    key: list[Any] = [code]
    places: list[int] = []  # of arrays, by identity
    arrays: list[Any] = []
    names: list[str] = []
    for name, value in read:
        kind = type(value)
        if kind is types.ModuleType:
            if not _is_library(value.__name__):
                return None
            key += (name, value)
        elif kind in _NUMBERS:
            key += (name, kind, repr(value))
        elif (kind := kind_of(value)) is None:
            return None
        else:
            if id(value) not in places:
                places.append(id(value))
                arrays.append(value)
                names.append(name)
            key += (name, places.index(id(value)), kind)
    return Closure(tuple(key), arrays, names, frozenset(), kind_of)


class _Walk:
    def __init__(self, kind_of: Callable[[Any], Any], attributes: frozenset[str]) -> None:
        self.arrays: list[Any] = []
        self.names: list[str] = []
        self.named: set[str] = set()  # names in the code of all functions
        self.read_attributes = False
        self.is_complete = True
        self._kind_of, self._attributes = kind_of, attributes
        self._places: dict[int, int] = {}  # of arrays, by identity
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # what lives only as long as this, whose identity is in use

    def value(self, name: str, value: Any) -> Any:
        kind = self._kind_of(value)
        if kind is not None:
            place = self._places.setdefault(id(value), len(self.arrays))
            if place == len(self.arrays):
                self.arrays.append(value)
                self.names.append(name)
            return "array", place, kind
        if isinstance(value, _CONSTANTS):
            return type(value), repr(value)
        if id(value) in self._seen:
            return "again", self._seen[id(value)]
        if len(self._seen) == _MOST_VALUES:
            self.is_complete = False
            return None
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        return self._parts(name, value)

    def _parts(self, name: str, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value), *[self.value(name, entry) for entry in value]
        if isinstance(value, dict):
            return dict, *[(repr(key), self.value(str(key), entry)) for key, entry in value.items()]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return "method", self.value(name, value.__func__), self.value("self", value.__self__)
        if isinstance(value, functools.partial):
            return "partial", *[self.value(name, part) for part in (value.func, value.args, value.keywords)]
        if isinstance(value, types.ModuleType):
            return value.__name__, *self._attributes_of(value, iter(()))
        if isinstance(value, type) and not _is_of_library(value):
            return value, *self._attributes_of(value, iter(value.__mro__))
        if isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType, type)):
            return self._hashable(value)
        if _is_of_library(type(value)):
            wrapped = getattr(value, "__wrapped__", None)  # by jax.jit, for example
            if wrapped is not None and not _is_library(getattr(value, "__module__", None) or ""):
                return "wrapped", type(value), self.value(name, wrapped)
            # Such as PagedAttention, whose functions read its tensors.
            return self._hashable(value), *self._attributes_of(value, iter(()))
        return type(value), *self._attributes_of(value, iter(type(value).__mro__))

    def _hashable(self, value: Any) -> Any:
        try:
            hash(value)
        except TypeError:
            self.is_complete = False
        else:
            return value

    def _function(self, function: types.FunctionType) -> Any:
        code = function.__code__
        self.named |= _names_of(code)
        parts: list[Any] = ["function", code]
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                parts.append(self.value(name, cell.cell_contents))
            except ValueError:  # a name that is not assigned yet
                self.is_complete = False
        parts.append(self.value("default", function.__defaults__))
        parts.append(self.value("default", function.__kwdefaults__))
        if not _is_library(function.__module__ or ""):
            read = [name for name in globals_of(code) if name in function.__globals__]
            parts += [(name, self.value(name, function.__globals__[name])) for name in read]
            if not _code_of(code).reads_by_names:
                self.is_complete = False
            self.read_attributes = self.read_attributes or bool(vars(function))
            parts += [(name, self.value(name, x)) for name, x in vars(function).items() if name in self._attributes]
        return tuple(parts)

    def _attributes_of(self, value: Any, classes: Iterator[type]) -> list[Any]:
        """Those attributes that some code names, and what runs where the value is called."""
        if _is_library(value.__name__ if isinstance(value, types.ModuleType) else ""):
            return []
        self.read_attributes = True
        members: dict[str, Any] = {}
        for owner in reversed([owner for owner in classes if owner is not object and not _is_of_library(owner)]):
            members.update(vars(owner))
        if any(name in members for name in _READS_OTHERWISE):
            self.is_complete = False
        own = dict(getattr(value, "__dict__", {}))
        for group in ("_parameters", "_buffers", "_modules"):  # of modules of PyTorch
            own.update(own.get(group) or {})
        found = []
        for name in sorted(self._attributes | {_CALLED}):
            if name in own:
                found.append((name, self.value(name, own[name])))
            elif name in members:
                found.append((name, self._member(name, members[name], value)))
        return found

    def _member(self, name: str, member: Any, of: Any) -> Any:
        if isinstance(member, (staticmethod, classmethod)):
            return self.value(name, member.__func__)
        if isinstance(member, property):
            return self.value(name, member.fget)
        if isinstance(member, types.MemberDescriptorType):  # of __slots__
            return self.value(name, getattr(of, name, None))
        return self.value(name, member)


def _codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and that of functions which it makes."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_of(constant)


@functools.lru_cache(maxsize=1024)
def _names_of(code: types.CodeType) -> frozenset[str]:
    return frozenset(name for one in _codes_of(code) for name in one.co_names)


@functools.lru_cache(maxsize=1024)
def globals_of(code: types.CodeType) -> tuple[str, ...]:
    """The names that are read as globals, in order."""
    instructions = [step for one in _codes_of(code) for step in dis.get_instructions(one)]
    return tuple(sorted({step.argval for step in instructions if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}))


@functools.lru_cache(maxsize=1024)
def _imported_by(code: types.CodeType) -> frozenset[str]:
    steps = [step for one in _codes_of(code) for step in dis.get_instructions(one)]
    return frozenset(step.argval for step in steps if step.opname == "IMPORT_NAME")


class _Code:
    """What is found in code once. There is one for all equal code, and comparing it takes less time."""

    def __init__(self, code: types.CodeType) -> None:
        self.cells, self.globals = code.co_freevars, globals_of(code)
        imports = any(not _is_library(name) for name in _imported_by(code))
        self.reads_by_names = not (imports or _names_of(code) & _READERS)  # only: not through getattr, say


_code_of = functools.lru_cache(maxsize=1024)(_Code)


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


def _is_of_library(kind: type) -> bool:
    return _is_library(kind.__module__)
