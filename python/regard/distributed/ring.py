"""ring_attention: keys and values go from rank to rank, and the results of each are merged."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..call import run_call
from ..torch.attention import attention
from ..torch.merging import merge
from ..torch.tensors import bare
from .problem import OF_FORWARD, Problem


@torch.compiler.disable
def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    group: Any = None,
    causal: bool = False,
    offsets: Tensor | None = None,
    longest: int | None = None,
    lse: bool = False,
    **options: Any,
) -> Any:
    """Attention to the keys of all ranks; each rank holds the keys of two at a time.

    q: [b, s, hq, d]; k: [b, s, hk, d]; v: [b, s, hk, dv]: this rank's tokens, the same number on each; with
    causal=True, those that `shard` gives it. With offsets, int32 [b + 1], where each whole sequence begins, they are
    packed, [tokens, heads, dim], and `longest` is the longest whole sequence or a bound, which offsets on a GPU need.
    Every process of `group`, by default of all, makes the same call.

    While a rank attends to some keys, it sends them to the next one. Results are merged in fp32. In backward the
    gradients of keys and values, in fp32, follow them around the ring, each computed from the merged O and LSE.

    Returns o, [b, s, hq, dv] or packed, this rank's rows; (o, lse) with lse=True, as `attention` does. q, k and v have
    gradients, through both. options: scale, softcap, deterministic, batch_invariant, splits, target, family, threads.
    Windows are for `all_gather_attention` and `all_to_all_attention`.

    Raises InvalidError (a ValueError) and RefusedError (a NotImplementedError).
    """
    problem = Problem("ring_attention", (q, k, v), group, causal, offsets, longest, options)
    o, merged_lse = _Ring.apply(problem, problem.q, problem.k, problem.v)
    return (o, merged_lse) if lse else o


class Pair(NamedTuple):
    """Rows of Q and of a rank's K that see each other, and the options of their call."""

    q: slice
    k: slice
    options: dict[str, Any]

    def of_lse(self, lse: Tensor) -> Tensor:
        return lse[..., self.q]


_ALL = slice(None)


class _Pairs:
    """What a rank's queries see of the keys of another."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.rank = problem, problem.group.rank
        self.axis = 0 if problem.packed else 1
        sequences = problem.sequences
        starts, self.longest = sequences.offsets, sequences.longest
        self.options = problem.options
        self.offsets = {"whole": starts}
        if problem.packed and problem.causal:
            # Sequence 2i is one half of sequence i, or all of it, and 2i + 1 the other, or nothing.
            self.offsets["halves"] = sequences.halves()
            self.offsets["first"] = torch.cat((starts[:1], starts[1:].repeat_interleave(2)))
            self.offsets["second"] = torch.cat((starts[:-1].repeat_interleave(2), starts[-1:]))

    def of(self, source: int) -> Pair:
        """With a causal mask queries see, of their rank's own keys, those up to their own; of an earlier rank's keys,
        the first chunk; of a later rank's keys, all, but only from the second chunk of queries."""
        if not self.problem.causal:
            return self._pair(_ALL, _ALL, "whole", "whole")
        if source == self.rank:
            return self._pair(_ALL, _ALL, "whole", "whole", causal=True)
        half = self.problem.q.shape[self.axis] // 2
        if source < self.rank:
            return self._pair(_ALL, slice(0, half), "first", "halves")
        return self._pair(slice(half, None), _ALL, "halves", "second")

    def _pair(self, rows_q: slice, rows_k: slice, of_q: str, of_k: str, **options: Any) -> Pair:
        options |= self.options
        if not self.problem.packed:
            return Pair(rows_q, rows_k, options)
        bounds = {name: self.longest // 2 if name == "halves" else self.longest for name in (of_q, of_k)}
        options |= {"offsets_q": self.offsets[of_q], "offsets_k": self.offsets[of_k]}
        return Pair(_ALL, _ALL, {**options, "sq": bounds[of_q], "sk": bounds[of_k]})

    def cut(self, tensor: Tensor, rows: slice) -> Tensor:
        return tensor[rows] if self.axis == 0 else tensor[:, rows]


class _Parts:
    """Results of parts of the keys: the first two are written side by side and merged, into fp32 if more follow."""

    def __init__(self, pairs: _Pairs, q: Tensor, v: Tensor) -> None:
        self.pairs, self.count, self.ranks = pairs, 0, pairs.problem.group.ranks
        self.dtype = torch.bfloat16 if q.dtype.itemsize == 1 else q.dtype
        most = min(self.ranks, 2)
        self.o = q.new_empty((most, *q.shape[:-1], v.shape[-1]), dtype=self.dtype)
        rows = q.shape[:-3] + (q.shape[-2], q.shape[-3])
        self.lse = q.new_full((most, *rows), -torch.inf, dtype=torch.float32)  # rows that see nothing of a part

    def add(self, pair: Pair, q: Tensor, k: Tensor, v: Tensor) -> None:
        if self.count < 2:
            out, lse = self.pairs.cut(self.o[self.count], pair.q), pair.of_lse(self.lse[self.count])
            attention(q, k, v, out=out, lse=lse, **pair.options)
            if self.count == 1:
                self.o, self.lse = merge(self.o, self.lse, out=None if self.ranks == 2 else "fp32")
        else:
            o, lse = attention(q, k, v, lse=True, **pair.options)
            out = self.pairs.cut(self.o, pair.q)
            merge(o[None], lse[None], out=out, lse=pair.of_lse(self.lse), accumulate=True)
        self.count += 1

    def merged(self) -> tuple[Tensor, Tensor]:
        return (self.o[0], self.lse[0]) if self.ranks == 1 else (self.o.to(self.dtype), self.lse)


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, problem: Problem, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        pairs, group = _Pairs(problem), problem.group
        ctx.pairs = pairs
        parts = _Parts(pairs, q, v)
        keys, values = k, v
        for step in range(group.ranks):
            passing = group.pass_on(keys, values) if step + 1 < group.ranks else None
            pair = pairs.of((group.rank - step) % group.ranks)
            parts.add(pair, pairs.cut(q, pair.q), pairs.cut(keys, pair.k), pairs.cut(values, pair.k))
            if passing is not None:
                keys, values = passing.arrived()
        o, lse = parts.merged()
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, o, lse)
        return o, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_o: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, o, lse = map(bare, ctx.saved_tensors)
        pairs, group = ctx.pairs, ctx.pairs.problem.group
        grad_o = torch.zeros_like(o) if grad_o is None else grad_o
        grad_o = grad_o if grad_o.stride(-1) == 1 else grad_o.contiguous()
        if grad_lse is not None and grad_lse.stride(-1) != 1:
            grad_lse = grad_lse.contiguous()
        keys, values = k, v
        grad_q = grad_k = grad_v = q  # none yet
        passing_gradients: Any = None
        for step in range(group.ranks):
            passing = group.pass_on(keys, values) if step + 1 < group.ranks else None
            pair = pairs.of((group.rank - step) % group.ranks)
            inputs = {
                **{"q": pairs.cut(q, pair.q), "k": pairs.cut(keys, pair.k), "v": pairs.cut(values, pair.k)},
                **{"o": pairs.cut(o, pair.q), "lse": pair.of_lse(lse), "grad_o": pairs.cut(grad_o, pair.q)},
            }
            options = {name: option for name, option in pair.options.items() if name not in OF_FORWARD}
            if grad_lse is not None:
                options["grad_lse"] = pair.of_lse(grad_lse)
            of_q, of_k, of_v = run_call("bwd", inputs, options, {})
            if step == 0:  # of all rows
                grad_q, grad_k, grad_v = of_q.float(), of_k.float(), of_v.float()
            else:
                pairs.cut(grad_q, pair.q).add_(of_q)
                grad_k, grad_v = passing_gradients.arrived()
                pairs.cut(grad_k, pair.k).add_(of_k)
                pairs.cut(grad_v, pair.k).add_(of_v)
            if group.ranks > 1:  # after the last step they return to the rank of these keys
                passing_gradients = group.pass_on(grad_k, grad_v, tag=2)
            if passing is not None:
                keys, values = passing.arrived()
        if passing_gradients is not None:
            grad_k, grad_v = passing_gradients.arrived()
        return None, grad_q.to(q.dtype), grad_k.to(k.dtype), grad_v.to(v.dtype)
