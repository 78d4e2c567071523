"""The arguments that the three forms of attention share."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...errors import RefusedError, invalid
from ..sharded import as_varying, with_equal_axes
from ..values import as_jax, switch
from .shards import Sequences, dense_sequences, packed_sequences

_TAKEN = frozenset(("scale", "softcap", "deterministic", "batch_invariant", "splits", "target", "family", "threads"))


class Problem:
    """q, k, v, packed, all varying along the same axes of the mesh; the sequences; the options of every call."""

    def __init__(
        self,
        name: str,
        tensors: tuple[Any, Any, Any],
        axis_name: Any,
        causal: Any,
        offsets: Any,
        longest: Any,
        options: dict[str, Any],
        window: Any = None,
    ) -> None:
        for option in ("score", "keep"):
            if options.get(option) is not None:
                raise RefusedError(
                    f"{option} is not an option of {name}: a function counts places in whole sequences, of which a "
                    "device has a part; attention inside shard_map takes it where the mesh splits the batch or heads"
                )
        for option, value in options.items():
            if option not in _TAKEN and value is not None:
                raise RefusedError(
                    f"{option} is not an option of {name}, which takes {', '.join(sorted(_TAKEN))}: see its "
                    "documentation for masks and packed sequences"
                )
        q, k, v = (as_jax(role, x) for role, x in zip("qkv", tensors, strict=True))
        rank, axes = (4, "[b, s, heads, dim]") if offsets is None else (3, "[tokens, heads, dim]")
        for role, x in (("q", q), ("k", k), ("v", v)):
            if x.ndim != rank:
                raise invalid(f"{role} has shape {list(x.shape)}; it must be {axes}, this device's tokens")
        if not q.shape[: rank - 2] == k.shape[: rank - 2] == v.shape[: rank - 2]:
            raise invalid(
                f"q has shape {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)}; they must have the same "
                "numbers of tokens"
            )
        axis_name = tuple(axis_name) if isinstance(axis_name, list) else axis_name
        try:
            self.ranks: int = jax.lax.axis_size(axis_name)
        except NameError as error:
            raise invalid(f"there is no mesh axis {axis_name!r} here: call {name} inside shard_map") from error
        self.axis_name, self.rows = axis_name, q.shape[:-2]
        self.causal = switch("causal", causal)
        in_chunks = self.causal or window is not None
        self.sequences: Sequences = (
            dense_sequences(self.ranks, q.shape[0], q.shape[1], in_chunks)
            if offsets is None
            else packed_sequences(self.ranks, offsets, longest, q.shape[0], in_chunks)
        )
        flat = [x.reshape(-1, *x.shape[-2:]) for x in (q, k, v)]
        names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
        self.q, self.k, self.v = with_equal_axes([as_varying(x, frozenset(names)) for x in flat])[0]
        self.options = {option: value for option, value in options.items() if value is not None}

    def results(self, o: jax.Array, lse: jax.Array, with_lse: Any) -> Any:
        """From packed results, [tokens, h, dv] and [h, tokens], those of the caller's shape."""
        o = o.reshape(*self.rows, *o.shape[1:])
        if not switch("lse", with_lse):
            return o
        return o, jnp.moveaxis(lse.reshape(-1, *self.rows), 0, -2)
