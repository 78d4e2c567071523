"""The libraries that have front ends here: whether they are installed and new enough."""

from __future__ import annotations

import importlib
from typing import NamedTuple


class Host(NamedTuple):
    title: str
    oldest: tuple[int, int]
    instead: str  # of an older version


HOSTS = {
    "torch": Host("PyTorch", (2, 9), "upgrade it, or use regard.attention, which works with tensors of any version"),
    "jax": Host("JAX", (0, 9), "upgrade it"),
    "vllm": Host("vLLM", (0, 32), "upgrade it"),
    "transformers": Host(
        "transformers",
        (5, 10),
        "upgrade it, or use attn_implementation='sdpa' under regard.torch.replace_sdpa()",
    ),
}


def require(front: str, package: str) -> None:
    """Raises an ImportError of one sentence if `package` is missing or too old for `front`."""
    title, oldest, instead = HOSTS[package]
    needs = f"{front} needs {title} {oldest[0]}.{oldest[1]} or newer"
    try:
        found = importlib.import_module(package).__version__
    except ModuleNotFoundError as error:
        if error.name != package:  # installed, but one of its dependencies is not
            raise
        raise ImportError(f"{needs}, which is not installed: pip install {package}", name=package) from error
    if tuple(int(part) for part in found.split(".")[:2]) < oldest:
        raise ImportError(f"{needs}, and this is {found}: {instead}", name=package)
