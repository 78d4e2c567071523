"""merge: combines partial results of attention, each over some of the keys, into the result over all of them."""

from __future__ import annotations

from typing import Any

from . import _core
from .arrays import as_kind, dtype_word, empty_like_kind, gpu_of, shape_of
from .errors import invalid
from .execution import planned
from .request import problem_of
from .words import plain


def merge(
    partial_o: Any,
    partial_lse: Any,
    *,
    out: Any = None,
    lse: Any = None,
    accumulate: bool = False,
    target: str | None = None,
    threads: int = 0,
    stream: Any = None,
) -> tuple[Any, Any]:
    """Merges results of the same queries over different keys into the result over all of these keys.

    partial_o: [parts, b, s, h, dv] or packed [parts, tokens, h, dv], bf16, fp16 or fp32; partial_lse: fp32 [parts, b,
    h, s] or packed [parts, h, tokens], in natural logarithm: what `attention(..., lse=True)` returns, for any number of
    parts. A part in which a row saw no key has O = 0 and LSE = -inf, and does not count.

    Returns (o, lse) of one part's shapes. `out` and `lse` may be arrays to write to; out may also be the dtype of o as
    text, by default that of partial_o. With accumulate=True both must be given: they are one more part, and are
    changed in place. target is by default the GPU of partial_o, or the best target of this CPU; threads are those of a
    CPU, 0 for all; stream is that of a GPU, as in `attention`.

    Raises InvalidError (a ValueError) for other shapes or types, no parts, accumulate=True without both results, an
    unknown target, or one for arrays that are elsewhere; NoKernelError (a RuntimeError) and NoMemoryError (a
    MemoryError) as `attention` does.
    """
    results: tuple[Any, Any] = _core.eagerly(
        _merge, partial_o, partial_lse, out, lse, accumulate, (target, None, threads), stream
    )
    return results


def _merge(
    partial_o: Any, partial_lse: Any, out: Any, lse: Any, accumulate: bool, plan_options: tuple[Any, ...], stream: Any
) -> tuple[Any, Any]:
    shape, of_lse = tuple(shape_of("partial_o", partial_o)), tuple(shape_of("partial_lse", partial_lse))
    if len(shape) not in (4, 5) or of_lse != (*shape[:-3], shape[-2], shape[-3]):
        raise invalid(
            f"partial_o has shape {list(shape)} and partial_lse {list(of_lse)}; they must be [parts, b, s, h, dv] and "
            "[parts, b, h, s], or [parts, tokens, h, dv] and [parts, h, tokens]"
        )
    accumulate = bool(plain("accumulate", accumulate, "True or False"))
    if accumulate and (out is None or isinstance(out, str) or lse is None):
        raise invalid("accumulate changes o and lse in place: give both, as out= and lse=")
    packed = len(shape) == 4
    parts, b, s, h, dv = (shape[0], 1, *shape[1:]) if packed else shape
    dtype, _ = dtype_word("partial_o", partial_o), dtype_word("partial_lse", partial_lse)
    if not packed:
        partial_o = partial_o.reshape(parts, b * s, h, dv)
        partial_lse = partial_lse.swapaxes(1, 2).reshape(parts, h, b * s)
    word = out if isinstance(out, str) else dtype if out is None else dtype_word("out", out)
    text = f"merge {dtype} out={word} lse parts={parts} b={b} hq={h} hk={h} sq={s} d={dv} dv={dv}"
    text += " accumulate" if accumulate else ""
    given = {"o": None if isinstance(out, str) else out, "lse": lse}
    specs = problem_of(text).tensors if any(array is None for array in given.values()) else {}
    arrays = {
        name: empty_like_kind(partial_o, dtype, specs[name], False)
        if array is None
        else array[None]
        if packed
        else array
        for name, array in given.items()
    }
    target = gpu_of("partial_o", partial_o) if plan_options[0] is None else plan_options[0]
    plan = planned(text, target, *plan_options[1:])
    plan.run(partial_o=partial_o, partial_lse=partial_lse, **arrays, stream=stream)
    found = [
        as_kind(partial_o, arrays[name])[0]
        if array is None and packed
        else as_kind(partial_o, arrays[name])
        if array is None
        else array
        for name, array in given.items()
    ]
    return found[0], found[1]
