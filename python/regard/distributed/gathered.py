"""all_gather_attention: every rank gathers the keys and values of all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError
from ..torch.attention import attention
from .groups import Gathering, Group
from .problem import Problem


@torch.compiler.disable
def all_gather_attention(
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
    """Attention to the keys of all ranks, which every rank gathers: two collectives and one call of attention, at the
    price of memory for all keys.

    Tensors, results and options are those of `ring_attention`. window=(left, 0) or, with causal=True, (left, any) lets
    each query see `left` keys to its left. In backward the gradients of keys and values are summed over the ranks in
    fp32.

    Raises InvalidError (a ValueError) and RefusedError (a NotImplementedError).
    """
    if window is not None:
        left, right = window
        if not causal and right != 0:
            raise RefusedError("a window of all_gather_attention ends at the query: give window=(left, 0)")
        window = (left, 0)
    problem = Problem("all_gather_attention", (q, k, v), group, causal, offsets, longest, options, window)
    sequences = problem.sequences
    if sequences.in_chunks:
        index, offsets_k, sk = sequences.seen()
        offsets_q, sq = sequences.halves(), sequences.longest // 2
        mask: dict[str, Any] = {"causal": True} if window is None else {"window": window}
    else:
        index, offsets_k, sk = sequences.in_order(), sequences.offsets * sequences.ranks, 0
        offsets_q, sq, sk, mask = sequences.offsets, sequences.longest, sequences.longest * sequences.ranks, {}
    k, v = (_packed(x) for x in (problem.k, problem.v))
    gathering = [problem.group.gather(x.detach()) for x in (k, v)]
    keys, values = (_Gathered.apply(problem.group, index, of, x) for of, x in zip(gathering, (k, v)))
    words = {**mask, "offsets_q": offsets_q, "offsets_k": offsets_k, "sq": sq, "sk": sk, **problem.options}
    o, found_lse = attention(_packed(problem.q), keys, values, lse=True, **words)
    if not problem.packed:
        b, s = q.shape[:2]
        o, found_lse = o.unflatten(0, (b, s)), found_lse.unflatten(1, (b, s)).transpose(0, 1)
    return (o, found_lse) if lse else o


def _packed(x: Tensor) -> Tensor:
    return x.flatten(0, 1) if x.dim() == 4 else x


class _Gathered(torch.autograd.Function):
    """The rows of all ranks' tensors that `index` names. A row may be there twice."""

    @staticmethod
    def forward(ctx: Any, group: Group, index: Tensor, gathering: Gathering, x: Tensor) -> Tensor:
        ctx.group, ctx.shape = group, x.shape
        ctx.save_for_backward(index)
        return gathering.arrived().flatten(0, 1).index_select(0, index)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        ranks, tokens = ctx.group.ranks, ctx.shape[0]
        of_all = torch.zeros((ranks * tokens, *ctx.shape[1:]), dtype=torch.float32, device=grad.device)
        of_all.index_add_(0, index, grad.float())
        mine = ctx.group.sum_and_scatter(of_all.unflatten(0, (ranks, tokens)))
        return None, None, None, mine.to(grad.dtype)
