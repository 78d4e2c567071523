"""`flashinfer.cascade`: merges results of the same queries over different keys. LSE has base 2."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import invalid
from ..torch.merging import merge
from ..torch.tensors import refuse_others, refuse_without_strides
from .words import LOG2E

__all__ = ["merge_state", "merge_state_in_place", "merge_states"]


@torch.no_grad()
def merge_state(v_a: Tensor, s_a: Tensor, v_b: Tensor, s_b: Tensor) -> tuple[Tensor, Tensor]:
    """v_a and v_b: [tokens, heads, d]; s_a and s_b, their LSE: [tokens, heads]. Returns both of their merged result."""
    _refuse_other_states(v_a=v_a, s_a=s_a, v_b=v_b, s_b=s_b)
    v, s = v_a.detach().clone(memory_format=torch.contiguous_format), _natural(s_a)
    _add(v, s, v_b, s_b)
    return v, s.mul_(LOG2E)


@torch.no_grad()
def merge_state_in_place(v: Tensor, s: Tensor, v_other: Tensor, s_other: Tensor, mask: Tensor | None = None) -> None:
    """Merges v_other and s_other into v and s, both of which change.

    mask: bool [tokens]; where it is False, v and s stay as they are.
    """
    _refuse_other_states(v=v, s=s, v_other=v_other, s_other=s_other)
    if s.dtype != torch.float32:
        raise invalid(f"s is {s.dtype}; to be changed in place it must be torch.float32")
    refuse_others(mask=mask)
    if mask is not None and (mask.dtype != torch.bool or mask.shape != v.shape[:1]):
        raise invalid(f"mask is {mask.dtype} of shape {list(mask.shape)}; it must be torch.bool [{v.shape[0]}]")
    merged = v.detach() if mask is None else v.detach().clone(memory_format=torch.contiguous_format)
    of_merged = _natural(s)
    _add(merged, of_merged, v_other, s_other)
    of_merged.mul_(LOG2E)
    if mask is None:
        s.copy_(of_merged)
    else:
        v.copy_(torch.where(mask[:, None, None], merged, v))
        s.copy_(torch.where(mask[:, None], of_merged, s))


@torch.no_grad()
def merge_states(v: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """v: [tokens, states, heads, d]; s: [tokens, states, heads]. Returns v and s of all states together."""
    refuse_without_strides(v=v, s=s)
    if v.dim() != 4 or s.shape != v.shape[:-1]:
        raise invalid(
            f"v has shape {list(v.shape)} and s {list(s.shape)}; they must be [tokens, states, heads, d] and [tokens, "
            "states, heads]"
        )
    partial_o, partial_lse = v.detach().transpose(0, 1), _natural(s).transpose(0, 1)
    o, lse = merge(partial_o[:, :, None], partial_lse[..., None])
    return o.squeeze(1), lse.squeeze(2).mul_(LOG2E)


def _natural(s: Tensor) -> Tensor:
    return s.detach().to(torch.float32, memory_format=torch.contiguous_format) / LOG2E


def _add(v: Tensor, natural: Tensor, v_other: Tensor, s_other: Tensor) -> None:
    """For `merge` each token is a sequence, so that its LSE [parts, b, h, s] has the order of FlashInfer's."""
    merge(
        v_other.detach()[None, :, None],
        _natural(s_other)[None, :, :, None],
        out=v.detach()[:, None],
        lse=natural[:, :, None],
        accumulate=True,
    )


def _refuse_other_states(**states: Tensor) -> None:
    refuse_without_strides(**states)
    (one, v), (_, s), (other, v_other), (_, s_other) = states.items()
    if v.dim() != 3 or v_other.shape != v.shape or not s.shape == s_other.shape == v.shape[:-1]:
        shapes = ", ".join(f"{name} {list(state.shape)}" for name, state in states.items())
        raise invalid(
            f"the shapes are {shapes}; those of {one} and {other} must be [tokens, heads, d], those of their LSE "
            "[tokens, heads]"
        )
    if v_other.dtype != v.dtype:
        raise invalid(f"{one} is {v.dtype} and {other} {v_other.dtype}; they must have the same type")
