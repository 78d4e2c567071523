"""A group of processes, and what they send each other."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor

from ..errors import RefusedError, invalid


class Group:
    """group: one of torch.distributed, or None for all processes."""

    def __init__(self, group: Any) -> None:
        if not dist.is_available():
            raise RefusedError("this PyTorch has no torch.distributed: install one that was built with it")
        if not dist.is_initialized():
            raise invalid("torch.distributed is not initialised: call torch.distributed.init_process_group first")
        self.group, self.rank, self.ranks = group, dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise invalid("this process is not a member of the group: make the call only in processes of the group")

    def _peer(self, steps: int) -> int:
        rank = (self.rank + steps) % self.ranks
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def pass_on(self, *tensors: Tensor, tag: int = 0) -> Passing:
        """Begins to send the tensors to the next rank, and to receive those of the rank before."""
        sent = [tensor.contiguous() for tensor in tensors]
        received = [tensor.new_empty(tensor.shape) for tensor in sent]
        operations = []
        for number, (one, other) in enumerate(zip(sent, received)):
            operations.append(dist.P2POp(dist.isend, one, self._peer(1), self.group, tag + number))
            operations.append(dist.P2POp(dist.irecv, other, self._peer(-1), self.group, tag + number))
        return Passing(dist.batch_isend_irecv(operations), sent, received)

    def gather(self, tensor: Tensor) -> Gathering:
        """Begins to gather the tensors of all ranks, [ranks, ...]."""
        tensor = tensor.contiguous()
        gathered = tensor.new_empty((self.ranks, *tensor.shape))
        work = _all_gather(
            gathered.flatten(0, 1) if tensor.dim() else gathered, tensor, group=self.group, async_op=True
        )
        return Gathering(work, tensor, gathered)

    def sum_and_scatter(self, tensor: Tensor) -> Tensor:
        """The sum over all processes of entry `rank` of their tensors [ranks, ...]."""
        tensor = tensor.contiguous()
        mine = tensor.new_empty(tensor.shape[1:])
        _reduce_scatter(mine, tensor.flatten(0, 1), group=self.group)
        return mine

    def exchange(self, tensor: Tensor) -> Tensor:
        """Sends entry i of [ranks, ...] to rank i; returns the entries received, in the order of the ranks they are
        from."""
        tensor = tensor.contiguous()
        received = tensor.new_empty(tensor.shape)
        dist.all_to_all_single(received, tensor, group=self.group)
        return received


class Passing:
    """Tensors in flight. They must not be written to before they have arrived."""

    def __init__(self, works: list[Any], sent: list[Tensor], received: list[Tensor]) -> None:
        self._works, self._sent, self._received = works, sent, received

    def arrived(self) -> list[Tensor]:
        for work in self._works:
            work.wait()
        return self._received


class Gathering:
    def __init__(self, work: Any, sent: Tensor, gathered: Tensor) -> None:
        self._work, self._sent, self._gathered = work, sent, gathered

    def arrived(self) -> Tensor:
        self._work.wait()
        return self._gathered


# PyTorch 2.13 gave them these names, and warns about the older ones.
_all_gather: Any = getattr(dist, "all_gather_single", None) or getattr(dist, "all_gather_into_tensor", None)
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or getattr(dist, "reduce_scatter_tensor", None)
