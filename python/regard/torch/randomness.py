"""Seeds of dropout from PyTorch's generators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidError, wrong_type


def seed(options: dict[str, Any], q: Tensor, generator: torch.Generator | None) -> None:
    """Gives dropout a seed and an offset from the generator, on the device of q, unless the options have a seed.

    Code that restores the generator's state gets the same mask. Checkpointing and CUDA graph replay do so for
    PyTorch's own generators.
    """
    if generator is not None:
        refuse_generator(options, q, generator)
    if options.get("dropout") and "seed" not in options:
        options["seed"] = torch.randint(2**63 - 1, (2,), dtype=torch.int64, device=q.device, generator=generator)


def refuse_generator(options: dict[str, Any], q: Tensor, generator: torch.Generator) -> None:
    if not isinstance(generator, torch.Generator):
        raise wrong_type(f"generator is of type {type(generator).__name__}; it must be a torch.Generator")
    if "seed" in options:
        raise InvalidError("seed and generator both say which mask dropout draws: give one of the two")
    if torch.compiler.is_dynamo_compiling():
        raise InvalidError(
            "generator is given to a call that torch.compile compiles, whose graphs hold none: seed PyTorch's own by "
            "torch.manual_seed, or pass a tensor as seed="
        )
    if generator.device.type != q.device.type:
        raise InvalidError(
            f"generator is for {generator.device} and q on {q.device}: make it by torch.Generator('{q.device}')"
        )
