"""Which JAX this front works with."""

from __future__ import annotations

OLDEST = (0, 9)


def refuse_old(found: str) -> None:
    """An ImportError where this version of JAX is too old."""
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST:
        raise ImportError(f"regard.jax needs JAX {OLDEST[0]}.{OLDEST[1]} or newer, and this is {found}: update jax")


try:
    import jax
except ModuleNotFoundError as error:
    raise ImportError("regard.jax needs JAX, which is not installed: pip install jax") from error
refuse_old(jax.__version__)
