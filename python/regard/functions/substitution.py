"""A Python function that reads other arrays in place of those that it closes over.

JAX traces it with tracers in their places, so that no trace can depend on the numbers in an array.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

from .closures import Closure, arrays_in, globals_of


class FixedError(Exception):
    """An array is reached by way of something that cannot be made again."""


def with_arrays(function: Any, closure: Closure, arrays: Sequence[Any], unwrapped: Callable[[Any], Any]) -> Any:
    """The function, with `arrays` in place of closure.arrays. Raises FixedError.

    unwrapped: gives the Python function of a compiled one, and None for everything else.
    """
    return _Substitution(closure, arrays, unwrapped).of(function)


class _Substitution:
    def __init__(self, closure: Closure, arrays: Sequence[Any], unwrapped: Callable[[Any], Any]) -> None:
        self._closure, self._unwrapped = closure, unwrapped
        self._made: dict[int, Any] = {id(array): other for array, other in zip(closure.arrays, arrays)}

    def of(self, value: Any) -> Any:
        if id(value) not in self._made:
            if not arrays_in(value, self._closure):
                return value
            self._made[id(value)] = self._again(value)
        return self._made[id(value)]

    def _again(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return types.MethodType(self.of(value.__func__), self.of(value.__self__))
        if type(value) is functools.partial:
            return functools.partial(self.of(value.func), *self.of(value.args), **self.of(value.keywords))
        if type(value) in (list, tuple):
            return type(value)([self.of(entry) for entry in value])
        if type(value) is dict:
            return {key: self.of(entry) for key, entry in value.items()}
        function = self._unwrapped(value)
        return self._object(value) if function is None else self.of(function)

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        names = dict(function.__globals__)
        cells = tuple([types.CellType() for _ in function.__closure__ or ()])
        made = types.FunctionType(function.__code__, names, function.__name__, None, cells or None)
        self._made[id(function)] = made  # as it may call itself
        for cell, other in zip(cells, function.__closure__ or ()):
            cell.cell_contents = self.of(other.cell_contents)
        made.__defaults__, made.__kwdefaults__ = self.of(function.__defaults__), self.of(function.__kwdefaults__)
        made.__dict__.update(self._entries(function))
        names.update({name: self.of(names[name]) for name in globals_of(function.__code__) if name in names})
        return made

    def _object(self, value: Any) -> Any:
        """One whose own attributes are arrays, or lead to them, and not those of its class."""
        has_entries = hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType))
        if not has_entries or arrays_in(type(value), self._closure):
            raise FixedError
        try:
            made = object.__new__(type(value))
        except TypeError:
            raise FixedError from None
        self._made[id(value)] = made
        made.__dict__.update(self._entries(value))
        return made

    def _entries(self, value: Any) -> dict[str, Any]:
        read = self._closure.attributes
        return {name: self.of(x) if name in read else x for name, x in vars(value).items()}
