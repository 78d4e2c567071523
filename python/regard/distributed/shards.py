"""Which tokens a rank has.

Each sequence is cut into 2 * ranks chunks, and rank r has the chunks r and 2 * ranks - 1 - r, one after the other: with
a causal mask all ranks then have the same amount to compute (DualChunkSwap).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import invalid
from ..torch.tensors import refuse_types
from ..words import whole
from .groups import Group


class Sequences:
    """Packed sequences, of each of which every rank has the same number of tokens.

    offsets: int32 [b + 1], where each sequence begins among this rank's tokens; longest: the most tokens that one has
    here; tokens: the total here. Without `in_chunks` nothing depends on the order of the tokens of a sequence, and each
    rank has one chunk of it.
    """

    def __init__(self, group: Group, offsets: Tensor, longest: int, tokens: int, in_chunks: bool) -> None:
        self.group, self.offsets, self.longest, self.tokens = group, offsets, longest, tokens
        self.rank, self.ranks = group.rank, group.ranks
        self.in_chunks = in_chunks

    def halves(self) -> Tensor:
        """Offsets of the two chunks of each sequence here, [2 b + 1]."""
        first, last = self.offsets[:-1], self.offsets[1:]
        return torch.cat((torch.stack((first, (first + last) // 2), 1).flatten(), self.offsets[-1:]))

    def _chunks(self) -> Tensor:
        """The tokens of a chunk of each sequence, at least 1, as they are divisors."""
        lengths = self.offsets.diff()
        return (lengths // 2 if self.in_chunks else lengths).clamp(min=1)

    def places(self, sequence: Tensor, position: Tensor) -> Tensor:
        """The indices, among the gathered tokens of all ranks, of the tokens at these positions of these sequences."""
        chunk = self._chunks()[sequence]
        number, row = position // chunk, position % chunk
        late = (number >= self.ranks).long() if self.in_chunks else torch.zeros_like(number)
        rank = torch.where(late > 0, 2 * self.ranks - 1 - number, number)
        # Rows after the last sequence belong to none: any valid index will do.
        return (rank * self.tokens + self.offsets[sequence] + late * chunk + row).clamp(0, self.ranks * self.tokens - 1)

    def in_order(self) -> Tensor:
        """The indices, among the gathered tokens, of the tokens of all sequences, one after the other."""
        return self.places(*_located(self.offsets.long() * self.ranks, self.ranks * self.tokens))

    def here(self) -> Tensor:
        """The indices of this rank's tokens among those of all sequences, one after the other."""
        sequence, row = _located(self.offsets.long(), self.tokens)
        chunk = self._chunks()[sequence]
        late = (row >= chunk).long()
        number = torch.where(late > 0, 2 * self.ranks - 1 - self.rank, self.rank)
        start = self.offsets.long()[sequence] * self.ranks
        return (start + number * chunk + row - late * chunk).clamp(0, self.ranks * self.tokens - 1)

    def seen(self) -> tuple[Tensor, Tensor, int]:
        """The keys that this rank's chunks see with a causal mask: their indices among the gathered tokens, the offsets
        of each chunk's keys, as `halves` for the queries, and the most keys of a chunk."""
        chunk = self.offsets.diff() // 2
        counts = torch.stack(((self.rank + 1) * chunk, (2 * self.ranks - self.rank) * chunk), 1).flatten()
        starts = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
        total = (2 * self.ranks + 1) * (self.tokens // 2)
        half, position = _located(starts, total)
        return self.places(half // 2, position), starts.int(), (2 * self.ranks - self.rank) * (self.longest // 2)


def _located(starts: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """The sequence of each of `total` tokens, and its position there."""
    token = torch.arange(total, device=starts.device)
    sequence = torch.searchsorted(starts[1:], token.to(starts.dtype), right=True).clamp(max=len(starts) - 2)
    return sequence, token - starts[sequence]


def dense_sequences(group: Group, b: int, s: int, device: torch.device, in_chunks: bool) -> Sequences:
    if in_chunks and s % 2:
        raise invalid(
            f"each rank has {s} tokens of a sequence; causal attention needs two equal chunks, as "
            "regard.distributed.shard makes them"
        )
    offsets = torch.arange(b + 1, dtype=torch.int32, device=device) * s
    return Sequences(group, offsets, s, b * s, in_chunks)


def packed_sequences(
    group: Group, offsets: Any, longest: Any, tokens: int, device: torch.device, in_chunks: bool
) -> Sequences:
    """offsets, longest: of whole sequences; tokens: those of this rank."""
    if not isinstance(offsets, Tensor) or offsets.dim() != 1 or not len(offsets):
        raise invalid(
            "offsets must be an int32 tensor [b + 1]: where each whole sequence begins, and where the last one ends"
        )
    parts = group.ranks * (2 if in_chunks else 1)
    if offsets.device.type == "cpu":  # what is on a GPU is not read
        lengths = offsets.diff()
        if int(offsets[0]) != 0 or (lengths < 0).any():
            raise invalid(f"offsets are {offsets.tolist()}; they must begin with 0 and not decrease")
        if (lengths % parts).any() or int(offsets[-1]) != tokens * group.ranks:
            raise invalid(
                f"offsets are {offsets.tolist()} and this rank has {tokens} tokens; each sequence must have a multiple "
                f"of {parts} tokens, of which every rank has the same number"
            )
        longest = max(lengths.tolist(), default=0) if longest is None else longest
    if longest is None:
        raise invalid(
            "offsets are on a GPU, where they are not read: give longest, the length of the longest sequence or a "
            "bound above it"
        )
    of_rank = (offsets // group.ranks).to(device, torch.int32)
    longest = -(-whole("longest", longest) // parts) * (2 if in_chunks else 1)
    return Sequences(group, of_rank, longest, tokens, in_chunks)


def shard(x: Tensor, *, group: Any = None, dim: int = 1, offsets: Tensor | None = None) -> Tensor:
    """This rank's tokens of a tensor of whole sequences.

    Each sequence is cut into 2 * ranks chunks along `dim`, and rank r gets the chunks r and 2 * ranks - 1 - r, joined.
    With offsets, int32 [b + 1], the tensor is packed, [tokens, ...], and each sequence in it is cut likewise; lengths
    must be multiples of 2 * ranks. Positions for RoPE are shard(torch.arange(s), dim=0).

    x: the whole tensor, the same on every rank, of any type. group: a process group of torch.distributed, by default
    all processes; nothing is sent.

    Returns x with a share of 1 / ranks along `dim` (packed: of its tokens). Autograd records it.

    Raises InvalidError (a ValueError) for a length that is not a multiple of 2 * ranks, other offsets, a `dim` that x
    does not have, or without torch.distributed.init_process_group; TypeError if x is not a tensor, or dim not a number.
    """
    refuse_types(x=x)
    processes = Group(group)
    parts = 2 * processes.ranks
    if offsets is not None:
        _refuse_uneven("x", x.shape[0], processes.ranks)
        sequences = packed_sequences(processes, offsets, 0, x.shape[0] // processes.ranks, x.device, True)
        return x.index_select(0, sequences.here())
    _refuse_other_axes(x, dim)
    if x.shape[dim] % parts:
        raise invalid(f"x has {x.shape[dim]} tokens; {processes.ranks} ranks need a multiple of {parts}: pad it")
    chunks = x.chunk(parts, dim) if x.shape[dim] else [x] * parts
    return torch.cat((chunks[processes.rank], chunks[parts - 1 - processes.rank]), dim)


@torch.no_grad()
def unshard(x: Tensor, *, group: Any = None, dim: int = 1, offsets: Tensor | None = None) -> Tensor:
    """Gathers the whole sequences, in every process, from what `shard` gave each rank. Autograd does not record it.

    x: this rank's part, of the same shape on every rank; group, dim and offsets (those of the whole sequences) as in
    `shard`.

    Returns a tensor with `ranks` times as many tokens along `dim`, the same on every rank.

    Raises InvalidError (a ValueError) for an odd number of tokens, offsets that do not fit them, a `dim` that x does
    not have, or without torch.distributed.init_process_group; TypeError if x is not a tensor, or dim not a number.
    """
    refuse_types(x=x)
    processes = Group(group)
    if offsets is not None:
        sequences = packed_sequences(processes, offsets, 0, x.shape[0], x.device, True)
        return processes.gather(x).arrived().flatten(0, 1).index_select(0, sequences.in_order())
    _refuse_other_axes(x, dim)
    if x.shape[dim] % 2:
        raise invalid(f"x has {x.shape[dim]} tokens, an odd number; each rank has two equal chunks of a sequence")
    pairs = [one.chunk(2, dim) if one.shape[dim] else (one, one) for one in processes.gather(x).arrived().unbind(0)]
    return torch.cat([early for early, _ in pairs] + [late for _, late in reversed(pairs)], dim)


def _refuse_other_axes(x: Tensor, dim: int) -> None:
    if not -x.dim() <= whole("dim", dim) < x.dim():
        raise invalid(f"dim is {dim}, and x has shape {list(x.shape)}; give the axis of its tokens")


def _refuse_uneven(name: str, tokens: int, ranks: int) -> None:
    if tokens % ranks:
        raise invalid(f"{name} has {tokens} tokens, which {ranks} ranks cannot share equally: pad the sequences")
