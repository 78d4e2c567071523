"""The library's handlers as targets of foreign calls, and where they run."""

from __future__ import annotations

from functools import lru_cache

import jax

from .. import _core
from ..planning import info

TARGET = _core.XLA_TARGET  # its name in a program

for _platform, _handler in _core.xla_handlers().items():
    jax.ffi.register_ffi_target(TARGET, _handler, platform=_platform)


_GPUS = {"cuda": "cuda", "rocm": "hip"}  # the target of each of JAX's platforms with GPUs


def _has(platform: str) -> bool:
    try:
        return bool(jax.devices(platform))
    except RuntimeError:  # JAX has no such backend here
        return False


@lru_cache(maxsize=1)
def platforms() -> dict[str, str | None]:
    """Each platform that a program of this process may be compiled for, by JAX's name, and the target of a plan
    there.

    Not to be called before the first attention call: asking JAX for its devices initialises them.
    """
    here = {gpu["kind"] for gpu in info()["gpus"]}
    return {"cpu": None} | {name: target for name, target in _GPUS.items() if target in here and _has(name)}
