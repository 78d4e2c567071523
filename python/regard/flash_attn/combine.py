"""flash_attn_combine: partial results of the same queries, merged."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import invalid
from ..torch.merging import merge
from ..torch.tensors import is_eager, refuse_others, refuse_without_strides


@torch.no_grad()
def combine(
    out_partial: Tensor, lse_partial: Tensor, out: Tensor | None, out_dtype: torch.dtype | None
) -> tuple[Tensor, Tensor]:
    refuse_without_strides(out_partial=out_partial, lse_partial=lse_partial)
    refuse_others(out=out)
    for name, partial in (("out_partial", out_partial), ("lse_partial", lse_partial)):
        if partial.dtype != torch.float32:
            raise invalid(f"{name} is {partial.dtype}; partial results are torch.float32")
    if out_partial.dim() not in (4, 5) or lse_partial.shape != out_partial.shape[:-1]:
        raise invalid(
            f"out_partial has shape {list(out_partial.shape)} and lse_partial {list(lse_partial.shape)}; they must be "
            "[parts, b, s, heads, d] and [parts, b, s, heads], or the same with tokens in place of b and s"
        )
    if out is not None and out_dtype is not None and out.dtype != out_dtype:
        raise invalid(f"out is {out.dtype} and out_dtype {out_dtype}: give one of them")
    memory = out if out is not None and is_eager(out_partial) else _word(out_dtype if out is None else out.dtype)
    found, lse = merge(out_partial.detach(), lse_partial.detach().transpose(-1, -2), out=memory)
    if out is not None and memory is not out:
        found = out.copy_(found)
    return found, lse.transpose(-1, -2)


_words = {None: "fp32", torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def _word(out_dtype: torch.dtype | None) -> str:
    if isinstance(out_dtype, (torch.dtype, type(None))) and out_dtype in _words:
        return _words[out_dtype]
    raise invalid(f"out_dtype is {out_dtype}; it must be torch.float32, torch.bfloat16 or torch.float16")
