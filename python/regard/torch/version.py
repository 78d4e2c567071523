"""Which versions of PyTorch this front works with."""

from __future__ import annotations

import torch

OLDEST = (2, 9)


def refuse_old_torch() -> None:
    found = torch.__version__
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(
            f"regard.torch needs PyTorch {oldest} or newer, and this is {found}: upgrade it, or use regard.attention, "
            "which works with tensors of any version"
        )
