"""all_to_all_attention: each rank has all tokens of some heads while it attends (Ulysses)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError
from ..torch.attention import attention
from .groups import Group
from .problem import Problem


@torch.compiler.disable
def all_to_all_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    group: Any = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    offsets: Tensor | None = None,
    longest: int | None = None,
    lse: bool = False,
    **options: Any,
) -> Any:
    """Attention for which the ranks exchange tokens for heads, and back: hq and hk must be multiples of the number
    of ranks.

    Tensors, results and options are those of `ring_attention`; window=(left, right) is that of `attention`.

    Raises InvalidError (a ValueError) and RefusedError (a NotImplementedError).
    """
    problem = Problem("all_to_all_attention", (q, k, v), group, causal, offsets, longest, options, window)
    ranks, sequences = problem.group.ranks, problem.sequences
    for name, heads in (("q", q.shape[-2]), ("k", k.shape[-2]), ("v", v.shape[-2])):
        if heads % ranks:
            raise RefusedError(f"{name} has {heads} heads, which {ranks} ranks cannot share: use ring_attention")
    order = sequences.in_order()
    whole = [_heads(problem.group, x, order) for x in (problem.q, problem.k, problem.v)]
    words: dict[str, Any] = {"causal": causal, **problem.options}
    if window is not None:
        words["window"] = window
    if problem.packed:
        starts, most = sequences.offsets * ranks, sequences.longest * ranks
        words |= {"offsets_q": starts, "offsets_k": starts, "sq": most, "sk": most}
    else:
        whole = [x.unflatten(0, (q.shape[0], -1)) for x in whole]
    o, found_lse = attention(whole[0], whole[1], whole[2], lse=True, **words)
    found_lse = found_lse.transpose(-1, -2)  # heads after tokens, as in o
    if not problem.packed:
        o, found_lse = o.flatten(0, 1), found_lse.flatten(0, 1)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=order.device)
    shape = q.shape[:-1]
    o = _tokens(problem.group, o, back).reshape(*shape, v.shape[-1])
    if not lse:
        return o
    return o, _tokens(problem.group, found_lse[..., None], back).reshape(shape).transpose(-1, -2)


def _heads(group: Group, x: Tensor, order: Tensor) -> Tensor:
    """All tokens, in order, of this rank's heads, [tokens, heads, d], from this rank's tokens of all heads."""
    parts = x.reshape(-1, group.ranks, x.shape[-2] // group.ranks, x.shape[-1]).transpose(0, 1)
    found: Tensor = _Exchange.apply(group, parts)
    return found.flatten(0, 1).index_select(0, order)


def _tokens(group: Group, x: Tensor, back: Tensor) -> Tensor:
    """This rank's tokens of all heads, [tokens, heads * d]."""
    parts = x.index_select(0, back).unflatten(0, (group.ranks, -1))
    found: Tensor = _Exchange.apply(group, parts)
    return found.transpose(0, 1).flatten(1)


class _Exchange(torch.autograd.Function):
    """Its transpose is itself."""

    @staticmethod
    def forward(ctx: Any, group: Group, x: Tensor) -> Tensor:
        ctx.group = group
        return group.exchange(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, ctx.group.exchange(grad)
