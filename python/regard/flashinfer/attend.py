"""The path of every call: tensors and prepared options in, FlashInfer's results out."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..call import run_call
from ..errors import invalid
from ..flash_attn.words import is_on
from ..torch import attention
from ..torch.profiling import FORWARD, is_profiled, shown
from ..torch.tensors import bare, is_eager, refuse_others, refuse_without_strides, written
from ..words import number
from .words import LOG2E

Result = Any  # out, or (out, lse)


class Planned(NamedTuple):
    """Which tensors a call takes, and its options, which `run` does not change."""

    q_type: torch.dtype
    kv_type: torch.dtype
    o_type: torch.dtype
    q_tail: tuple[int, ...]  # the shape of Q after its tokens
    k_tail: tuple[int, ...]  # that of K after its pages, or tokens
    v_tail: tuple[int, ...]
    options: dict[str, Any]
    out: dict[str, str]  # the word for the type of O, where there is one


class Memory(NamedTuple):
    """Which results are requested, and where they go."""

    out: Tensor | None
    lse: Tensor | None
    return_lse: bool


class Scales(NamedTuple):
    """The factors of Q, K and V: numbers, or float32 tensors of one number."""

    q: Any
    k: Any
    v: Any


def refuse_other_tensors(planned: Planned, q: Tensor, k: Tensor, v: Tensor) -> None:
    if q.dtype != planned.q_type or k.dtype != planned.kv_type or v.dtype != planned.kv_type:
        raise invalid(
            f"q is {q.dtype}, k {k.dtype} and v {v.dtype}; the plan is for q_data_type={planned.q_type} and "
            f"kv_data_type={planned.kv_type}: give plan the types of the tensors"
        )
    if q.shape[1:] != planned.q_tail or k.shape[1:] != planned.k_tail or v.shape[1:] != planned.v_tail:
        raise invalid(
            f"q has shape {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)}, and the plan is for "
            f"[tokens, {_listed(planned.q_tail)}], [n, {_listed(planned.k_tail)}] and [n, {_listed(planned.v_tail)}]: "
            "plan again with the heads, dimensions and page size of these tensors"
        )


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def memory_for(
    q: Tensor, dv: int, o_type: torch.dtype, out: Tensor | None, lse: Tensor | None, return_lse: Any
) -> Memory:
    """Checks what the caller gives: out [tokens, hq, dv], and lse, float32 [tokens, hq]."""
    if out is not None:
        _refuse_other_memory("out", out, (*q.shape[:-1], dv), o_type, q)
    if return_lse is not True and return_lse is not False:
        return_lse = is_on("return_lse", return_lse)
    if lse is not None:
        _refuse_other_memory("lse", lse, q.shape[:-1], torch.float32, q)
    return Memory(out, lse if return_lse else None, return_lse)


def _refuse_other_memory(name: str, memory: Tensor, shape: tuple[int, ...], dtype: torch.dtype, q: Tensor) -> None:
    refuse_without_strides(**{name: memory})
    if memory.shape != shape or memory.dtype != dtype or memory.device != q.device:
        raise invalid(
            f"{name} is {memory.dtype} of shape {list(memory.shape)} on {memory.device}; it must be {dtype} of shape "
            f"{list(shape)} on {q.device}"
        )


def scaled(planned: Planned, scales: Scales, k: Tensor, sinks: Tensor | None) -> tuple[dict[str, Any], float | None]:
    """The options with the caller's factors and sinks, and what O is multiplied by afterwards, if anything."""
    options, times = planned.options, None
    if sinks is not None:
        refuse_others(sinks=sinks)
        options = {**options, "sink": bare(sinks)}
    if scales.q is None and scales.k is None and scales.v is None:
        return options, times
    types = {"q": planned.q_type, "k": planned.kv_type, "v": planned.kv_type}
    factors, of_scores = {}, 1.0
    for name, value in scales._asdict().items():
        if isinstance(value, Tensor):
            factors[name] = _one_number(name, value, types[name])
            continue
        factor = 1.0 if value is None else number(f"{name}_scale", value)
        if factor == 1:
            continue
        if types[name].itemsize == 1:
            factors[name] = factor_tensor(factor, k)  # a tensor, so that layers with other factors share a plan
        elif name == "v":
            times = factor
        else:
            of_scores *= factor
    if of_scores != 1:
        options = {**options, "scale": options["scale"] * of_scores}
    if not factors:
        return options, times
    for name, dtype in types.items():
        if dtype.itemsize == 1 and name not in factors:
            factors[name] = factor_tensor(1.0, k)
    return {**options, **{f"descale_{name}": factors[name] for name in types if name in factors}}, times


def _one_number(name: str, factor: Tensor, dtype: torch.dtype) -> Tensor:
    refuse_without_strides(factor=factor)
    if factor.numel() != 1 or factor.dtype != torch.float32:
        raise invalid(
            f"{name}_scale is {factor.dtype} of shape {list(factor.shape)}; it must be a number, or a tensor of one "
            "torch.float32"
        )
    if dtype.itemsize > 1:
        raise invalid(
            f"{name}_scale is a tensor, which goes only with 8-bit tensors, and {name} is {dtype}: give a number"
        )
    found: Tensor = bare(factor).reshape(1)
    return found


_factors: dict[tuple[float, torch.device], Tensor] = {}


def factor_tensor(value: float, like: Tensor) -> Tensor:
    """A tensor of this number: the same one for every call, except in a graph, which has memory of its own."""
    if not is_eager(like) or (like.is_cuda and torch.cuda.is_current_stream_capturing()):
        return torch.full((1,), value, dtype=torch.float32, device=like.device)
    found = _factors.get((value, like.device))
    if found is None:
        if len(_factors) >= 1024:
            _factors.clear()
        found = torch.tensor([value], dtype=torch.float32, device=like.device)  # waits, so that any stream may read it
        _factors[value, like.device] = found
    return found


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    options: dict[str, Any],
    word: dict[str, str],
    memory: Memory,
    times: float | None,
    natural: bool = False,
) -> Result:
    """Q is [b, s, hq, d], of b * s tokens, or packed [tokens, hq, d]; without V it is the first columns of K; word: the
    type of O, if it is not Q's; natural: whether LSE has base e."""
    out, lse, return_lse = memory
    one_query = q.dim() == 4 and q.shape[1] == 1
    eager = is_eager(q)
    if eager:
        in_place = lse is not None and one_query and lse.is_contiguous()
        outputs: dict[str, Any] = {"lse": bare(lse)[:, :, None] if in_place else return_lse, **word}
        if out is not None:
            outputs["o"] = bare(out) if q.dim() == 3 else bare(out).unflatten(0, q.shape[:2])
        run = shown(run_call, FORWARD, q, k, k if v is None else v) if is_profiled() else run_call
        inputs = {"q": bare(q), "k": bare(k)} if v is None else {"q": bare(q), "k": bare(k), "v": bare(v)}
        found: Any = run("fwd", inputs, options, outputs)
    else:
        values = None if v is None else v.detach()
        found = attention(q.detach(), k.detach(), values, **{"lse": return_lse, **options, **word})
    o: Tensor = found[0] if return_lse else found
    if out is None:
        out = o if q.dim() == 3 else o.flatten(0, 1)
    elif eager:
        written(out)
    else:
        out.copy_(o if q.dim() == 3 else o.flatten(0, 1))
    if times is not None:
        out.mul_(times)
    return (out, _by_token(found[1], lse, 1.0 if natural else LOG2E)) if return_lse else out


def _by_token(found: Tensor, lse: Tensor | None, factor: float) -> Tensor:
    """[tokens, hq], from [b, hq, s] or packed [hq, tokens], multiplied by the factor; in `lse` if that is given."""
    if found.dim() == 3 and found.shape[2] == 1:
        found = found.squeeze(2)
        return found.mul_(factor) if lse is None else torch.mul(found, factor, out=lse)
    rows = found.transpose(-1, -2)
    if lse is None:
        lse = rows.new_empty((rows.shape[:-1].numel(), rows.shape[-1]))
    torch.mul(rows, factor, out=lse if rows.dim() == 2 else lse.unflatten(0, rows.shape[:-1]))
    return lse
