"""Functions of JAX arrays as text of the language, by way of their jaxpr."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..errors import RefusedError, invalid, wrong_type
from . import LANGUAGE_TYPES
from .closures import Closure, closure_of
from .operations import (
    Operand,
    add,
    bitwise,
    clamp,
    compared,
    divide,
    fmod,
    larger,
    less,
    multiply,
    node_of,
    numeric,
    power,
    real,
    smaller,
    subtract,
    where,
)
from .places import ARGUMENTS, in_line, refused_arguments
from .substitution import with_arrays
from .tree import Node, converted, literal, load, operation, variable, with_read, written

_OURS = (os.path.dirname(jax.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
_Number: Any = jax.ShapeDtypeStruct
_BRANCH = "branches or loops on data; jnp.where(condition, a, b) takes one of two values, and & | ~ join conditions"
_HOLDS = "do it outside, and close over an array that holds the results"
_TERMS = f"write its terms out, or {_HOLDS}"
_REMEDIES = {
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min", "reduce_or", "reduce_and", "argmax", "iota"), _TERMS),
    "dot_general": "close over the products, indexed by [b, h, q_idx, ...]",
    "gather": "index the array by [], with one number for each dimension",
    "log1p": "write jnp.log(1 + x)",
    "expm1": "write jnp.exp(x) - 1",
}
_NAMED = {"floor_divide": "//", "remainder": "%"}  # functions of jnp that are one operation of the language


_DERIVATIVES = ("custom_jvp_call", "custom_vjp_call")
_COMPILED: Any = type(jax.jit(lambda: None))
_MOST_TRACES = 1024


class Traced(NamedTuple):
    """A function as text, in which the arrays' names are filled in later."""

    text: str
    arrays: list[
        tuple[Any, str, bool]
    ]  # with the name by which the function reaches it, and whether it stops gradients


class _Trace(NamedTuple):
    text: str
    read: tuple[tuple[int, bool], ...]  # places in the closure, and whether the function stops gradients


class Traces:
    """Traces by what they depend on: code, constants, and the types and shapes of arrays."""

    def __init__(self) -> None:
        self.made = 0  # of those that were asked for
        self._known: dict[Any, _Trace] = {}

    def of(self, purpose: str, function: Any) -> Traced:
        """purpose: "score" or "keep". Raises RefusedError for what the language lacks, with the line of code."""
        if not callable(function):
            raise wrong_type(f"{purpose} is of type {type(function).__name__}; it must be text or a Python function")
        closure = closure_of(function, _kind_of)
        wide: bool = jax.config.jax_enable_x64  # type: ignore[attr-defined]
        key = None if closure.key is None else (purpose, wide, closure.key)
        trace, arrays = self._known.get(key), closure.arrays
        if trace is None:
            refused_arguments(purpose, function)
            self.made += 1
            trace = None if key is None else _of_any_arrays(purpose, function, closure)
            if trace is not None:
                self._keep(key, trace)
            else:
                trace, arrays = _of_these_arrays(purpose, function, closure.arrays)
        names = [*closure.names, *["x"] * (len(arrays) - len(closure.arrays))]
        return Traced(trace.text, [(arrays[place], names[place], stopped) for place, stopped in trace.read])

    def _keep(self, key: Any, trace: _Trace) -> None:
        if len(self._known) >= _MOST_TRACES:
            self._known.clear()
        self._known[key] = trace


def _kind_of(value: Any) -> Any:
    return (value.dtype, value.shape, value.weak_type) if isinstance(value, jax.Array) else None


def _unwrapped(value: Any) -> Any:
    return value.__wrapped__ if isinstance(value, _COMPILED) else None


class _View:
    """A closed-over array, some of whose dimensions have an index.

    stopped: whether the function stops its gradient. axes: which dimensions are those of the value.
    """

    def __init__(self, place: int, stopped: bool, indices: Sequence[Node | None], axes: Sequence[int]) -> None:
        self.place, self.stopped, self.indices, self.axes = place, stopped, tuple(indices), tuple(axes)


def _of_any_arrays(purpose: str, function: Any, closure: Closure) -> _Trace | None:
    """The trace for all arrays of these types and shapes; None if it may be another one for others."""
    count = len(closure.arrays)

    def on_others(arrays: Sequence[Any], *places: Any) -> Any:
        return with_arrays(function, closure, arrays, _unwrapped)(*places)

    try:
        closed = jax.make_jaxpr(on_others)(closure.arrays, *_places(purpose))
        reader = _Reader(purpose, closure.arrays)
        trace = reader.trace(closed)
    except Exception:  # the other trace finds the same where it is an error
        return None
    return trace if len(reader.arrays) == count else None


def _of_these_arrays(purpose: str, function: Any, arrays: Sequence[Any]) -> tuple[_Trace, list[Any]]:
    """The trace, and the arrays, followed by those that the function reaches otherwise than by names."""
    try:
        closed = jax.make_jaxpr(function)(*_places(purpose))
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError) as error:
        raise _refused(purpose, _frames_of(error), _BRANCH) from None
    except jax.errors.TracerArrayConversionError as error:
        raise _refused(purpose, _frames_of(error), "reads data into NumPy; use jnp") from None
    reader = _Reader(purpose, arrays)
    return reader.trace(closed), reader.arrays


def _places(purpose: str) -> list[Any]:
    return [_Number((), jnp.float32 if name == "s" else jnp.int32) for name in ARGUMENTS[purpose]]


class _Reader:
    def __init__(self, purpose: str, arrays: Sequence[Any]) -> None:
        self.purpose = purpose
        self.arrays: list[Any] = [*arrays]
        self.read: dict[tuple[int, bool], int] = {}  # the numbers of those arrays that the text reads
        self._equations: list[Any] = []  # those that are being read, one within another

    def trace(self, closed: Any) -> _Trace:
        """closed: the jaxpr of a function, whose arguments are places, after the arrays if it takes those."""
        purpose, names = self.purpose, ARGUMENTS[self.purpose]
        if len(closed.out_avals) != 1 or closed.out_avals[0].shape:
            raise invalid(f"{purpose} returns {closed.out_avals}; it must return one array without dimensions")
        taken = len(closed.jaxpr.invars) - len(names)
        arguments = [*map(self._array, self.arrays[:taken]), *map(variable, names)]
        (result,) = self.run(closed.jaxpr, closed.consts, arguments)
        root = self.node(result)
        if purpose == "keep" and root.type != "bool":
            raise invalid(
                f"keep returns {closed.out_avals[0].dtype}; it must return a condition, such as kv_idx <= q_idx"
            )
        text = written(converted(root, "fp32") if purpose == "score" else root)
        return _Trace(*with_read(text, tuple(self.read)))

    def run(self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, [self._array(constant) for constant in constants]))
        values |= dict(zip(jaxpr.invars, arguments))

        def value(atom: Any) -> Any:
            return self._array(atom.val) if hasattr(atom, "val") else values[atom]

        for equation in jaxpr.eqns:
            self._equations.append(equation)
            values |= dict(zip(equation.outvars, self._results(equation, [value(atom) for atom in equation.invars])))
            self._equations.pop()
        return [value(atom) for atom in jaxpr.outvars]

    def _array(self, value: Any) -> Any:
        """A number, or an array that is closed over."""
        if isinstance(value, (bool, int, float)):
            return literal(value)
        if not isinstance(value, jax.Array) and not value.shape:
            return literal(value.item())
        known = [place for place, array in enumerate(self.arrays) if array is value]
        place = known[0] if known else len(self.arrays)
        if not known:
            self.arrays.append(value)
        return _View(place, False, [None] * value.ndim, range(value.ndim))

    def node(self, value: Any) -> Node:
        if isinstance(value, Node):
            return value
        if value.axes:
            raise self._refused("works on a whole array; index it first, or do this outside and close over it")
        dtype = str(self.arrays[value.place].dtype)
        if dtype not in LANGUAGE_TYPES:
            kinds = ", ".join(LANGUAGE_TYPES)
            raise self._refused(f"reads an array of {dtype}; functions read {kinds}: convert it outside")
        number = self.read.setdefault((value.place, value.stopped), len(self.read))
        return load(number, value.indices, LANGUAGE_TYPES[dtype])

    def _results(self, equation: Any, operands: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        operation_name = params.get("name")
        inner = params.get("jaxpr", params.get("call_jaxpr"))
        if inner is not None and name in ("jit", "pjit", "closed_call", *_DERIVATIVES):
            if name in _DERIVATIVES and self.purpose == "score" and not _is_of_jax(inner):
                raise self._refused(
                    f"calls a function with a derivative of its own (jax.{name[:10]}); a score has that of its formula"
                )
            if operation_name in _NAMED:
                nodes = [self.node(operand) for operand in operands]
                return [numeric(_NAMED[operation_name])(*nodes)]
            return self.run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands)
        if name in ("pvary", "pcast"):  # within shard_map: along which axes of the mesh a value varies
            return operands
        if name == "stop_gradient":
            return [self._stopped(operands[0])]
        if isinstance(operands[0] if operands else None, _View) and operands[0].axes:
            return [self._indexed(equation, name, operands)]
        if name in ("squeeze", "reshape", "broadcast_in_dim", "copy", "optimization_barrier"):
            if equation.outvars[0].aval.shape:
                raise self._refused("makes an array of several numbers; close over one that was made before")
            return operands[:1]
        return [self._computed(equation, name, [self.node(operand) for operand in operands])]

    def _stopped(self, value: Any) -> Any:
        if isinstance(value, _View):
            return _View(value.place, True, value.indices, value.axes)
        if self.purpose == "score" and value.type == "fp32" and (value.operands or value.name == "s"):
            raise self._refused(
                "stops the gradient of what it computed, and only that of arrays that it closes over can be stopped"
            )
        return value

    def _indexed(self, equation: Any, name: str, operands: list[Any]) -> Any:
        view, params = operands[0], equation.params
        indices = list(view.indices)
        if name == "squeeze":
            axes = [axis for i, axis in enumerate(view.axes) if i not in params["dimensions"]]
            sizes = self.arrays[view.place].shape
            gone = [axis for axis in view.axes if axis not in axes and indices[axis] is None]
            if any(sizes[axis] != 1 for axis in gone):
                raise self._refused("works on a whole array; index it first")
            for axis in gone:
                indices[axis] = literal(0)
            return _View(view.place, view.stopped, indices, axes)
        if name == "dynamic_slice":
            starts, sizes = [self.node(start) for start in operands[1:]], params["slice_sizes"]
        elif name == "slice" and params["strides"] is None:
            starts = [literal(start) for start in params["start_indices"]]
            sizes = [limit - start for start, limit in zip(params["start_indices"], params["limit_indices"])]
        elif name == "copy":
            return view
        elif name in _REMEDIES:
            raise self._refused_operation(name)
        else:
            raise self._refused("works on a whole array; index it first, or do this outside and close over it")
        for axis, start, size in zip(view.axes, starts, sizes):
            if size == 1:
                indices[axis] = start
            elif size != self.arrays[view.place].shape[axis]:
                raise self._refused("takes a part of an array; an index is a whole number, or ':'")
        return _View(view.place, view.stopped, indices, view.axes)

    def _computed(self, equation: Any, name: str, nodes: list[Node]) -> Node:
        make = _PRIMITIVES.get(name)
        dtype = equation.outvars[0].aval.dtype
        if make is None:
            raise self._refused_operation(name)
        kind = {"b": "bool", "i": "int32"}.get(dtype.kind, "fp32")
        if str(dtype) not in ("bool", "int32", "int64", "float32"):
            raise self._refused(f"computes in {dtype}; functions compute in float32 and int32: convert first")
        try:
            return converted(make(*nodes, **equation.params), kind)
        except RefusedError as error:
            raise self._refused(f"calls {name} {error}") from None

    def _refused_operation(self, name: str) -> RefusedError:
        if name in ("while", "cond", "scan"):
            return self._refused(_BRANCH)
        why = _REMEDIES.get(name, _HOLDS)
        if name.startswith("random_") or name == "threefry2x32":
            why = "as a random number, take an integer hash of b, h, q_idx and kv_idx"
        return self._refused(f"calls {name}, which functions of scores and masks do not have; {why}")

    def _refused(self, sentence: str) -> RefusedError:
        """The outermost equation has its own line; those within are kept by JAX, with the line of whoever was first."""
        traceback = self._equations[0].source_info.traceback if self._equations else None
        frames = [(frame.file_name, frame.line_num) for frame in getattr(traceback, "frames", ())]
        return _refused(self.purpose, frames, sentence)


def _refused(purpose: str, frames: Sequence[tuple[str, int]], sentence: str) -> RefusedError:
    """frames: file and line, the innermost first."""
    return in_line(purpose, next((frame for frame in frames if not frame[0].startswith(_OURS)), None), sentence)


def _is_of_jax(jaxpr: Any) -> bool:
    """Whether a function with a derivative of its own is one of JAX's, such as jax.nn.relu."""
    _, _, file = (getattr(jaxpr, "jaxpr", jaxpr).debug_info.func_src_info or "").partition(" at ")
    return file.startswith(_OURS)


def _frames_of(error: BaseException) -> list[tuple[str, int]]:
    frames, traceback = [], error.__traceback__
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return frames[::-1]


def _less(x: Node, y: Node, **_: Any) -> Node:
    """Indices of arrays are compared with 0, which most cannot be below."""
    if x.low is not None and y.high is not None and x.low >= y.high:
        return literal(False)
    return less(x, y)


def _select(which: Node, *cases: Node, **_: Any) -> Node:
    if len(cases) != 2 or which.type != "bool":
        raise RefusedError("with a number; take one of two values by a condition")
    if which.name in ("true", "false"):
        return cases[which.name == "true"]
    return where(which, cases[1], cases[0])


def _convert(x: Node, new_dtype: Any, **_: Any) -> Node:
    if str(new_dtype) not in ("bool", "int32", "int64", "float32"):
        raise RefusedError(f"to {new_dtype}; functions compute in float32 and int32")
    return converted(x, {"b": "bool", "i": "int32"}.get(new_dtype.kind, "fp32"))


def _shifted(x: Node, y: Node) -> Node:
    if x.low is None or x.low < 0:
        raise RefusedError("of a number that may be negative; use >> of an int32")
    return numeric(">>")(x, y)


def _without_parameters(make: Callable[..., Node]) -> Callable[..., Node]:
    return lambda *operands, **_: make(*operands)


def _quotient(x: Operand, y: Operand) -> Node:
    return divide(x, y, "trunc" if node_of(x).type == "int32" else None)


_WITHOUT_PARAMETERS: dict[str, Callable[..., Node]] = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "div": _quotient,
    "rem": fmod,
    "max": larger,
    "min": smaller,
    "pow": power,
    "square": lambda x: power(x, 2),
    "neg": numeric("-"),
    "abs": numeric("abs"),
    "sign": numeric("sign"),
    "floor": numeric("floor"),
    "ceil": numeric("ceil"),
    "gt": lambda x, y: _less(y, x),
    "le": compared("<="),
    "ge": compared(">="),
    "eq": compared("=="),
    "ne": compared("!="),
    "and": bitwise("&", "&&"),
    "or": bitwise("|", "||"),
    "xor": bitwise("^", "!="),
    "not": lambda x: operation("!" if x.type == "bool" else "~", x, type=x.type),
    "shift_left": numeric("<<"),
    "shift_right_arithmetic": numeric(">>"),
    "shift_right_logical": _shifted,
    "logistic": real("sigmoid"),
    "clamp": lambda least, x, most: clamp(x, least, most),
    **{name: real(name) for name in ("exp", "exp2", "log", "tanh", "sqrt", "rsqrt", "sin", "cos")},
}
_PRIMITIVES: dict[str, Callable[..., Node]] = {
    **{name: _without_parameters(make) for name, make in _WITHOUT_PARAMETERS.items()},
    "lt": _less,
    "select_n": _select,
    "convert_element_type": _convert,
    "integer_pow": lambda x, y: power(x, y) if y >= 0 else divide(1.0, power(x, -y)),
    "round": lambda x, rounding_method: numeric("round")(x) if int(rounding_method) == 1 else _no_round(),
}


def _no_round() -> Node:
    raise RefusedError("away from zero; jnp.round rounds to even")
