"""What a call requests: arrays and options become a problem, its tensors and its outputs.

Nothing is planned, allocated or run here (`execution`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy

from . import _core
from .arrays import dtype_word, gpu_of, shape_of
from .errors import invalid
from .functions import gradient_sizes, with_sizes
from .kv_cache import cache_words
from .shapes import append_words, shape_words
from .unknown import refuse_unknown
from .words import IMPLIES, mask_word, plain, quote, refuse_empty_way

_ROLES = frozenset(_core.roles())


class Request(NamedTuple):
    text: str  # of the problem
    dtype: str  # of q, as a word of the problem
    tensors: dict[str, Any]  # by name: inputs, and existing outputs to write to
    outputs: dict[str, _core.TensorSpec]  # all of them, in the order of the results
    zeros: bool  # outputs allocated for the call start as zeros: their rows past a logical length are not written
    longest: dict[str, Any]  # sq, sk and snew, where arrays do not say them by their shapes
    plan_options: tuple[Any, ...]  # target, family, threads, functions
    run_options: dict[str, Any]  # seed, offset, stream


class _Stated:
    """A problem parsed from its text, and its outputs."""

    def __init__(self, text: str) -> None:
        self.problem = _core.Problem(text)
        self.outputs = {name: spec for name, spec in self.problem.tensors.items() if spec.use == "output"}


_stated = lru_cache(maxsize=1024)(_Stated)


def leader_of(inputs: dict[str, Any]) -> str:
    """The array whose type and library are those of the call: q, or the new keys of append."""
    return "q" if "q" in inputs else "k_new"


def problem_of(text: str) -> _core.Problem:
    return _stated(text).problem


def _refuse_gradient_of_broadcast(bias: Any, spec: _core.TensorSpec) -> None:
    """A gradient is summed over batch and heads only."""
    shape = shape_of("bias", bias)
    if len(shape) < 4 or shape[2] == 1 != spec.shape[2]:
        raise invalid(
            f"bias has shape {list(shape)} and its gradient a row for each query: pass it expanded to [1|b, 1|hq, sq, "
            "sk] and sum grad_bias over what was expanded"
        )


def _tensors_among(options: dict[str, Any]) -> tuple[dict[str, Any], set[str], set[str]]:
    """Separates the tensors from the options: the arrays among them, the words that all of them add, and the names of
    those that are True, for outputs to be allocated."""
    tensors, implied, made = {}, set(), set()
    for name in [name for name in options if name in _ROLES]:
        value = options.pop(name)
        if isinstance(value, numpy.bool_):
            value = bool(value)
        if value is None or value is False:
            continue
        if name in IMPLIES:
            implied.add(IMPLIES[name](value))
        if value is True:
            made.add(name)
        else:
            tensors[name] = value
    return tensors, implied, made


def _words_of(options: dict[str, Any]) -> list[str]:
    words = []
    for name, option in options.items():
        value = plain(name, option)
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            quoted = isinstance(value, str) and " " in value
            words.append(f'{name}="{value}"' if quoted else f"{name}={value}")
    return words


def read(pass_: str, inputs: dict[str, Any], options: dict[str, Any], outputs: dict[str, Any]) -> Request:
    """inputs: q, k, v and whatever else the pass needs. options: tensors, words of the problem, and how it runs.
    outputs: the requested ones: an array to write to, or True.
    """
    leader = leader_of(inputs)
    q, options = inputs[leader], {**options, **outputs}
    refuse_unknown(options)
    target, family, threads = options.pop("target", None), options.pop("family", None), options.pop("threads", 0)
    functions = options.pop("functions", None)
    refuse_empty_way(functions)
    seed, offset, stream = options.pop("seed", 0), options.pop("offset", 0), options.pop("stream", None)
    if target is None:
        target = gpu_of("q", q)
    dtype = options.pop("dtype", None)
    if dtype is None:
        dtype = dtype_word("q", q)
    elif not isinstance(dtype, str):
        raise invalid(f"dtype is {quote(dtype)}; it must be text such as 'bf16'")

    given, implied, made = _tensors_among(options)
    tensors = {name: tensor for name, tensor in {**inputs, **given}.items() if tensor is not None}
    options = with_sizes(options, tensors)
    v = inputs.get("v")
    mask = mask_word(options)
    if pass_ == "append":
        sizes = append_words(inputs["k"], v, options, tensors)
    else:
        sizes = shape_words(q, inputs["k"], v, options, tensors)
    words = [pass_, f"{dtype}", *sizes, *sorted(implied)]
    words += cache_words(pass_, dtype, options, tensors)
    if mask:
        words.append(mask)
    varlen = "offsets_q" in tensors
    longest: dict[str, Any] = {name: options[name] for name in ("sq", "sk", "snew") if name in options}
    text = " ".join([*words, *_words_of(options)])

    specs = gradient_sizes(_stated(text).outputs, tensors)
    for name in made - specs.keys():
        raise invalid(f"{name} is True, which requests a result that {pass_} does not have")
    if "bias" in tensors and "grad_bias" in specs:
        _refuse_gradient_of_broadcast(tensors["bias"], specs["grad_bias"])
    # Forward writes all rows of O and LSE also where there are fewer keys, and that saves a GPU a whole launch.
    has_keys = pass_ != "fwd" or "dropout_mask" in specs
    zeros = varlen or "lengths_q" in tensors or (has_keys and "lengths_k" in tensors)
    run_options = {"seed": seed, "offset": offset, "stream": stream}
    plan_options = (target, family, threads, functions)
    return Request(text, dtype, tensors, specs, zeros, longest, plan_options, run_options)
