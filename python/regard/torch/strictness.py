"""How a strict block of replace_sdpa handles layers of torch.nn that compute attention themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.backends import mha
from torch.nn.modules.module import register_module_forward_hook

from ..errors import RefusedError


def not_computed(why: str, block: str = "replace_sdpa") -> RefusedError:
    return RefusedError(f"attention within {block}(strict=True) is not computed by Regard: {why}")


class Strictness:
    """While strict blocks are open, PyTorch's fused layers for inference are off for the whole process, and
    nn.MultiheadAttention may not return weights in threads for which `strict` is true."""

    def __init__(self, strict: Callable[[], bool]) -> None:
        self._strict = strict
        self._blocks = 0
        self._fused = True
        self._hook: Any = None

    def count(self, more: int) -> None:
        if not self._blocks:
            self._fused = mha.get_fastpath_enabled()
            mha.set_fastpath_enabled(False)
            self._hook = register_module_forward_hook(self._refuse_weights)
        self._blocks += more
        if not self._blocks:
            mha.set_fastpath_enabled(self._fused)
            self._hook.remove()

    def _refuse_weights(self, module: Any, arguments: Any, output: Any) -> None:
        weights = output[1] if isinstance(module, torch.nn.MultiheadAttention) and isinstance(output, tuple) else None
        if weights is not None and self._strict():
            raise not_computed(
                "nn.MultiheadAttention with need_weights=True, its default, computes attention by itself: pass "
                "need_weights=False"
            )
