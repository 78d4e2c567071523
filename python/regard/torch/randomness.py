"""Seeds of dropout from PyTorch's generators."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import invalid


def draw(q: Tensor, generator: torch.Generator | None) -> Tensor:
    """A seed and an offset on the device of q: what restores the generator's state, as checkpointing and the replay of
    a CUDA graph do, gets the same mask."""
    if generator is not None and generator.device.type != q.device.type:
        raise invalid(
            f"generator is for {generator.device.type} and q on {q.device.type}: make it by "
            f"torch.Generator('{q.device.type}')"
        )
    if generator is not None and torch.compiler.is_dynamo_compiling():
        raise invalid(
            "generator is given to a call that torch.compile compiles, whose graphs hold none: seed PyTorch's own by "
            "torch.manual_seed, or pass a tensor as seed="
        )
    return torch.randint(2**63 - 1, (2,), dtype=torch.int64, device=q.device, generator=generator)
