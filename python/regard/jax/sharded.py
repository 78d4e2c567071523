"""Inside shard_map: the mesh axes along which a value varies are part of its type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

Axes = frozenset[Any]


def _axes_of(value: Any) -> Axes:
    kind = jax.typeof(value)
    manual = getattr(kind, "manual_axis_type", None)  # older versions have the axes directly
    axes: Axes = kind.vma if manual is None else manual.varying
    return axes


def as_varying(value: jax.Array, axes: Axes) -> jax.Array:
    missing = axes - _axes_of(value)
    return jax.lax.pcast(value, tuple(sorted(missing)), to="varying") if missing else value


def with_equal_axes(values: Sequence[Any]) -> tuple[tuple[jax.Array, ...], Axes]:
    """All values, varying along every axis along which any of them varies.

    JAX then sums the gradients of shared values.
    """
    axes: Axes = frozenset().union(*[_axes_of(value) for value in values])
    return tuple(as_varying(value, axes) for value in values), axes
