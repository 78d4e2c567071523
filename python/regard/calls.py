"""attention and attention_backward: arrays in, arrays out.

A call writes its problem text from shapes and options, and takes the plan that this text was given before. The
plan is remembered for the last 1024 texts. Calls with PyTorch's tensors are remembered by what their tensors and
options are (`_core.Calls`): one like an earlier one writes no text, and costs less than PyTorch's own attention.
"""

from __future__ import annotations

import json
import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy

from . import _core
from .arrays import as_kind, dtype_word, empty_like_kind, first_line, longest, on_gpu, shape_of
from .errors import RegardError, invalid, wrong_type

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Options

A = TypeVar("A")

_ROLES = frozenset(_core.roles())
_DRAWN = "seed"  # a tensor when it is an array, else a number


class _Call:
    """A plan and what is needed to give it its outputs."""

    def __init__(self, text: str, target: str | None, family: str | None, threads: int) -> None:
        problem = _core.Problem(text)
        self.plan = _core.Plan(problem, target, family, threads)
        self.outputs = [spec for spec in problem.tensors.values() if spec.use == "output"]


_call = lru_cache(maxsize=1024)(_Call)
_calls = _core.Calls()


def _bias_word(bias: Any) -> str:
    shape = shape_of("bias", bias)
    if not 1 <= len(shape) <= 4:
        raise invalid(f"bias has shape {list(shape)}; it must be [1|b, 1|hq, 1|sq, sk]")
    of_batch, of_head = ([1] * (4 - len(shape)) + list(shape))[:2]
    return "bias=" + ("1" if of_batch == 1 else "b") + ("1" if of_head == 1 else "h")


def _refuse_gradient_of_broadcast(bias: Any, spec: _core.TensorSpec) -> None:
    """A gradient is summed over batch and heads, and over nothing else."""
    shape = shape_of("bias", bias)
    if len(shape) < 4 or shape[2] == 1 != spec.shape[2]:
        raise invalid(
            f"bias has shape {list(shape)} and its gradient a row for each query: pass it expanded to [1|b, 1|hq, sq, "
            "sk] and sum grad_bias over what was expanded"
        )


# What the presence of a tensor adds to the problem.
_IMPLIES: dict[str, Any] = {
    "bias": _bias_word,
    "alibi": lambda slopes: "bias=alibi" if len(shape_of("alibi", slopes)) == 1 else "bias=alibi_b",
    "sink": lambda _: "sink",
    "ranges": lambda _: "ranges",
    "bits": lambda _: "bits",
    "lse": lambda _: "lse",
    "dropout_mask": lambda _: "dropout_mask",
    "grad_bias": lambda _: "dbias",
    "lengths_q": lambda _: "lengths",
    "lengths_k": lambda _: "lengths",
    "k_new": lambda keys: f"snew={shape_of('k_new', keys, 4, '[b, snew, hk, d]')[1]}",
    "descale_q": lambda factors: "descale=tensor" if len(shape_of("descale_q", factors)) == 1 else "descale=head",
}


def _told_type(value: Any) -> str:
    return f"of type {type(value).__name__}"


def _told(value: Any) -> str:
    """A value in a message, on one short line."""
    said = repr(value) if isinstance(value, (bool, int, float, str, tuple)) else _told_type(value)
    said = " ".join(said.split())
    return said if len(said) <= 100 else said[:100] + "..."


@lru_cache(maxsize=1)
def _words() -> dict[str, str]:
    """What each word of problem text takes, in words of Python."""
    takes = {"": "True or False", "N": "a whole number", "X": "a number"}
    rows = [row["word"].partition("=") for row in reversed(json.loads(_core.words()))]
    return {word: takes.get(value, f"text such as {value.split('|')[:2][-1]!r}") for word, _, value in rows}


def _taken(name: str, value: Any) -> str:
    """What the word of that name takes. A word that is none is refused with the one that was probably meant."""
    takes = _words().get(name)
    if takes is None:
        numbers = isinstance(value, (list, tuple)) and all(isinstance(number, (int, float)) for number in value)
        _core.Problem(name + ("=" + ",".join(map(str, value)) if numbers else ""))
    return takes or "a number, text, True or False"


def _plain(name: str, value: Any, takes: str = "") -> Any:
    """The value of a word: text, a number or a switch, where it is NumPy's, too. Arrays have no truth value."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        _core.check_readable(name, value)
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            return value.item()
        if hasattr(value, "__index__") and not hasattr(value, "shape"):
            return operator.index(value)
        if hasattr(value, "__float__") and not hasattr(value, "shape"):
            return float(value)
        takes = takes or _taken(name, value)
    except RegardError:
        raise
    except Exception as error:  # such as a parameter that is not initialised yet
        raise invalid(f"{name} cannot be read: {first_line(error)}") from error
    if name == "mask" and (hasattr(value, "shape") or isinstance(value, (list, tuple))):
        kind = "an array" if hasattr(value, "shape") else _told_type(value)
        raise invalid(f"mask is {kind} and the option takes text: give a boolean mask as bits=regard.pack_bits(mask)")
    raise wrong_type(f"{name} is {_told_type(value)}; it must be {takes}")


def _whole(name: str, value: Any) -> int:
    number = _plain(name, value, "a whole number")
    if isinstance(number, bool) or not isinstance(number, int):
        kind = "an int" if isinstance(number, float) else "a whole number"
        raise wrong_type(f"{name} is {_told(number)}; it must be {kind}")
    return number


def _mask_word(options: dict[str, Any]) -> str | None:
    """mask=..., from `mask` or from `causal`, `window` and `sink_tokens` together."""
    causal = _plain("causal", options.pop("causal", False), "True (bottom-right), 'top_left' or False")
    window = options.pop("window", None)
    sink_tokens = options.pop("sink_tokens", None)
    sink_tokens = 0 if sink_tokens is None else _whole("sink_tokens", sink_tokens)
    if causal is False and window is None and sink_tokens == 0:
        return None
    if "mask" in options:
        raise invalid("mask= says all of it: give either mask or causal, window and sink_tokens")
    if causal not in (True, False, "top_left"):
        raise invalid(f"causal is {causal!r}; it must be True (bottom-right), 'top_left' or False")
    top_left = causal == "top_left"
    if window is None and sink_tokens == 0:
        return "mask=causal_top_left" if top_left else "mask=causal"
    _core.check_readable("window", window)
    try:
        left, right = (-1, -1) if window is None else window
    except Exception:
        raise invalid(f"window is {_told(window)}; it must be a pair (left, right), -1 for unbounded") from None
    left, right = _whole("window's left side", left), _whole("window's right side", right)
    if causal is not False:
        right = 0
    word = f"mask=window:{left},{right}" + (",top_left" if top_left else "")
    return word + (f",sink={sink_tokens}" if sink_tokens else "")


def _shape_words(q: Any, k: Any, v: Any, options: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    """The sizes of the problem. Whether all arrays agree with them is checked where the plan runs."""
    varlen = "offsets_q" in tensors or "offsets_k" in tensors
    layout = options.get("layout", "bshd")
    if not varlen and not (isinstance(layout, str) and layout in ("bshd", "bhsd", "sbhd")):
        raise invalid(f"layout is {_told(layout)}; it must be 'bshd', 'bhsd' or 'sbhd'")
    axes = "shd" if varlen else layout
    shapes = []  # asked once: PyTorch makes a new tuple each time
    for name, array in (("q", q), ("k", k), ("v", v)):
        shape = shape_of(name, array)
        if len(shape) != len(axes):
            raise invalid(
                f"{name} has shape {list(shape)}; it must have {len(axes)} dimensions ("
                + ("[tokens, heads, dim] as offsets_q and offsets_k are given)" if varlen else f"layout {axes})")
            )
        shapes.append(shape)
    of_q, of_k, of_v = shapes
    s, h, d = axes.index("s"), axes.index("h"), axes.index("d")
    words = [f"hq={of_q[h]} hk={of_k[h]} d={of_q[d]} dv={of_v[d]}"]
    if not varlen:
        return [*words, f"b={of_q[axes.index('b')]} sq={of_q[s]} sk={of_k[s]}"]
    for name in ("offsets_q", "offsets_k"):
        if name not in tensors:
            raise invalid(f"packed sequences need offsets_q and offsets_k; {name} is missing")
    if "sq" not in options:
        options["sq"] = longest("offsets_q", tensors["offsets_q"])
    if "sk" not in options:
        options["sk"] = longest("offsets_k", tensors["offsets_k"])
    (offsets,) = shape_of("offsets_q", tensors["offsets_q"], 1, "[b+1]")
    return [*words, f"varlen b={offsets - 1} tq={of_q[s]} tk={of_k[s]}"]


def _run(pass_: str, inputs: dict[str, Any], options: dict[str, Any]) -> Any:
    results = _calls.again(pass_, inputs, options)
    return _run_first(pass_, inputs, options) if results is None else results


def _run_first(pass_: str, inputs: dict[str, Any], options: dict[str, Any]) -> Any:
    """Splits options into tensors and words, plans, allocates what is missing, runs."""
    asked = (pass_, dict(inputs), dict(options)) if _calls.takes(inputs["q"]) else None
    target, family = options.pop("target", None), options.pop("family", None)
    threads, offset, seed = options.pop("threads", 0), options.pop("offset", 0), options.pop(_DRAWN, 0)
    stream, q = options.pop("stream", None), inputs["q"]
    if target is None and on_gpu("q", q):
        target = "cuda"
    dtype = options.pop("dtype", None)
    if dtype is None:
        dtype = dtype_word("q", q)
    elif not isinstance(dtype, str):
        raise invalid(f"dtype is {_told(dtype)}; it must be text such as 'bf16'")

    tensors, implied = inputs, set()
    for name in [name for name in options if name in _ROLES]:
        value = options.pop(name)
        if isinstance(value, numpy.bool_):
            value = bool(value)
        if value is None or value is False:
            continue
        if name in _IMPLIES:
            implied.add(_IMPLIES[name](value))
        if value is not True:
            tensors[name] = value
    mask = _mask_word(options)
    words = [pass_, f"{dtype}", *_shape_words(q, inputs["k"], inputs["v"], options, tensors), *sorted(implied)]
    if mask:
        words.append(mask)
    for name, option in options.items():
        value = _plain(name, option)
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            words.append(f"{name}={value}")

    text = " ".join(words)
    try:
        call = _call(text, target, family, threads)
    except TypeError:  # what has no hash is no option, either: the plan says which
        call = _Call(text, target, family, threads)
    for spec in call.outputs:
        if spec.name == "grad_bias" and "bias" in tensors:
            _refuse_gradient_of_broadcast(tensors["bias"], spec)
    given = {spec.name: tensors[spec.name] for spec in call.outputs if spec.name in tensors}
    # Rows past a logical length are left as they are: in arrays made here they are zero.
    zeros = "offsets_q" in tensors or "lengths_q" in tensors or "lengths_k" in tensors
    fresh = {spec.name: empty_like_kind(q, dtype, spec, zeros) for spec in call.outputs if spec.name not in given}
    call.plan.run(seed=seed, offset=offset, stream=stream, **{**tensors, **fresh})
    # Without sq and sk the problem of packed sequences depends on what their offsets hold.
    if asked and ("offsets_q" not in tensors or asked[2].keys() >= {"sq", "sk"}):
        outputs = [
            (spec.name, spec.shape, None if spec.dtype == dtype else getattr(fresh.get(spec.name), "dtype", None))
            for spec in call.outputs
        ]
        _calls.remember(*asked, call.plan, outputs, zeros)
    results = tuple(given[spec.name] if spec.name in given else as_kind(q, fresh[spec.name]) for spec in call.outputs)
    return results[0] if len(results) == 1 else results


@overload
def attention(
    q: A,
    k: A,
    v: A,
    *,
    lse: Literal[False] = ...,
    dropout_mask: Literal[False] = ...,
    **options: Unpack[Options],
) -> A: ...
@overload
def attention(
    q: A, k: A, v: A, *, lse: A | bool = ..., dropout_mask: A | bool = ..., **options: Unpack[Options]
) -> tuple[A, ...]: ...
def attention(q: Any, k: Any, v: Any, *, lse: Any = False, dropout_mask: Any = False, **options: Any) -> Any:
    """Fused attention: softmax(scale Q K^T + ...) V.

    q: [b, sq, hq, d]; k: [b, sk, hk, d]; v: [b, sk, hk, dv]: fp32, bf16, fp16 or fp8 arrays of NumPy or of any
    library that speaks DLPack or has __cuda_array_interface__, in host memory or on an NVIDIA GPU. hq is a multiple
    of hk. Any strides but negative ones do, without a copy, as long as the last dimension is contiguous;
    layout="bhsd" or "sbhd" names another order of the axes. With offsets_q and offsets_k (int32 [b+1]) the arrays
    are packed sequences [tokens, heads, dim].

    Returns o, [b, sq, hq, dv] in the same layout, an array of the same library; (o, lse) with lse=True, where lse
    is fp32 [b, hq, sq] (packed: [hq, tokens]) in natural logarithm; dropout_mask=True adds the uint8 mask, for
    tests. `out`, `lse` and `dropout_mask` may be arrays to write to, which share memory with no other array of the
    call; for arrays on a GPU that are not PyTorch's they have to be.

    Arrays on a GPU are computed there, in `stream`: an address, an object that has cuda_stream, or, by default,
    PyTorch's current stream for its tensors, the one that __cuda_array_interface__ names, else CUDA's default one.
    Nothing is waited for but arrays whose interface names another stream.

    With dropout every call draws the same mask for the same seed and offset, and both are 0 where they are not
    given: give each call its own.

    A row that sees no key gives O = 0 and LSE = -inf. In arrays made here, rows past a logical length are 0.

    Options (regard.options.Options lists them with shapes): causal, window, sink_tokens or mask; ranges, bits;
    scale, softcap, bias, alibi, sink; dropout with seed and offset; lengths_q, lengths_k; descale_q, descale_k,
    descale_v; layout, dtype, out; batch_invariant; splits, target, family, threads. NumPy has no bfloat16:
    arrays of ml_dtypes work, and uint16 arrays do with dtype="bf16".

    Raises InvalidError (a ValueError) for input that makes no sense, RefusedError (a NotImplementedError) for
    what nothing here solves, NoKernelError (a RuntimeError), NoMemoryError (a MemoryError). See regard.errors.
    """
    out = options.pop("out", None)
    if isinstance(out, str):
        options["out"] = out
    elif out is not None:
        options["o"] = out
    options["lse"] = lse
    options["dropout_mask"] = dropout_mask
    return _core.eagerly(_run, "fwd", {"q": q, "k": k, "v": v}, options)


def attention_backward(
    grad_o: A,
    q: A,
    k: A,
    v: A,
    o: A,
    lse: A,
    *,
    grad_q: A | None = None,
    grad_k: A | None = None,
    grad_v: A | None = None,
    grad_bias: A | bool = False,
    grad_sink: A | None = None,
    **options: Unpack[Options],
) -> tuple[A, ...]:
    """Gradients of `attention`, from its inputs, its results o and lse, and the gradient of o.

    The options are those of the forward call, and must be the same: dropout needs the same seed and offset.

    Returns (grad_q, grad_k, grad_v), then grad_bias if it is asked for (True, or an array to write to), then
    grad_sink if there is a sink. grad_k and grad_v are summed over the query heads of a group; grad_bias over the
    dimensions that bias broadcasts. The other gradients may also be arrays to write to.

    deterministic=True gives the same bits on every run.

    Raises as `attention` does.
    """
    named: dict[str, Any] = dict(options)
    named.update(grad_q=grad_q, grad_k=grad_k, grad_v=grad_v, grad_bias=grad_bias, grad_sink=grad_sink)
    inputs = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "grad_o": grad_o}
    results: tuple[A, ...] = _core.eagerly(_run, "bwd", inputs, named)
    return results
