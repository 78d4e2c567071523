"""The arguments that the three forms of attention share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import RefusedError, invalid
from ..torch.autocast import cast, is_autocast
from ..torch.tensors import is_eager, refuse_types
from .groups import Group
from .shards import dense_sequences, packed_sequences

_TAKEN = frozenset(("scale", "softcap", "deterministic", "batch_invariant", "splits", "target", "family", "threads"))
OF_FORWARD = ("batch_invariant", "splits")  # options that say how forward runs, not what it computes


class Problem:
    """q, k and v after autocast; the sequences; the options of every call of attention."""

    def __init__(
        self,
        name: str,
        tensors: tuple[Tensor, Tensor, Tensor],
        group: Any,
        causal: bool,
        offsets: Tensor | None,
        longest: int | None,
        options: dict[str, Any],
        window: Any = None,
    ) -> None:
        q, k, v = tensors
        refuse_types(q=q, k=k, v=v)
        if not is_eager(q):
            raise RefusedError(
                f"{name} sends tensors to other processes: call it outside torch.func transforms and tracing"
            )
        for option, value in options.items():
            if option not in _TAKEN and value is not None:
                raise RefusedError(
                    f"{option} is not an option of {name}, which takes {', '.join(sorted(_TAKEN))}: see its "
                    "documentation for masks and packed sequences"
                )
        if not isinstance(causal, bool):
            raise invalid(f"causal is {causal!r}; it must be True or False")
        self.packed = offsets is not None
        rank, axes = (3, "[tokens, heads, dim]") if self.packed else (4, "[b, s, heads, dim]")
        for role, tensor in (("q", q), ("k", k), ("v", v)):
            if tensor.dim() != rank:
                raise invalid(f"{role} has shape {list(tensor.shape)}; it must be {axes}, this rank's tokens")
        if not q.shape[: rank - 2] == k.shape[: rank - 2] == v.shape[: rank - 2]:
            raise invalid(
                f"q has shape {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)}; they must have the same "
                "numbers of tokens"
            )
        if is_autocast(q):
            q, k, v = cast(q), cast(k), cast(v)
        self.q, self.k, self.v, self.causal, self.window = q, k, v, causal, window
        self.group = Group(group)
        in_chunks = causal or window is not None
        if offsets is None:
            self.sequences = dense_sequences(self.group, q.shape[0], q.shape[1], q.device, in_chunks)
        else:
            self.sequences = packed_sequences(self.group, offsets, longest, q.shape[0], q.device, in_chunks)
        self.options = {option: value for option, value in options.items() if value is not None}
        if torch.are_deterministic_algorithms_enabled():
            self.options.setdefault("deterministic", True)
