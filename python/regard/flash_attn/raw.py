"""flash_attn's separate forward and backward passes, as ring attention and pipelines call them: autograd does not
record them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..errors import invalid
from ..functional import attention_backward
from ..torch.tensors import written, zero
from ..words import dropout_words
from .attend import attend_with_state
from .cached import paged_words
from .probabilities import refuse_probabilities
from .words import score_words, used_words, varlen_words, with_rows_contiguous


@torch.no_grad()
def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    words: dict[str, Any],
    dropout_p: float,
    return_softmax: bool,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The results of `_flash_attn_forward`, in the given memory for out if there is one."""
    return attend_with_state(q, k, v, words, dropout_p, return_softmax, out)


def sequence_words(
    k: Tensor,
    sequences: tuple[Tensor, Tensor, int, int],
    used: Tensor | None,
    num_splits: int,
    block_table: Tensor | None,
    leftpad_k: Tensor | None,
) -> dict[str, Any]:
    """Packed sequences, or packed queries on pages. sequences: cu_seqlens_q and _k, max_seqlen_q and _k."""
    if num_splits > 1:
        raise RuntimeError("num_splits > 1 is not supported by flash_attn for packed sequences: use 0 or 1")
    if block_table is not None:
        return paged_words(k, block_table, "block_table", sequences, used, leftpad_k)
    if leftpad_k is not None:
        raise invalid("leftpad_k is for a KV cache, and packed sequences begin where cu_seqlens_k says: leave it out")
    return {**varlen_words(*sequences), **used_words(None, used)}


def _flash_attn_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: Tensor | None,
    return_softmax: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out, softmax_lse, S_dmask (empty unless it is requested and there is dropout), and rng_state for backward."""
    words = score_words(softmax_scale, causal, (window_size_left, window_size_right), softcap, alibi_slopes)
    return forward(q, k, v, words, dropout_p, return_softmax)


def _flash_attn_varlen_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    return_softmax: bool = False,
    block_table: Tensor | None = None,
    leftpad_k: Tensor | None = None,
    seqused_k: Tensor | None = None,
    zero_tensors: bool = False,
    num_splits: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same for packed sequences. Rows that are not computed are zero with or without zero_tensors."""
    words = score_words(softmax_scale, causal, (window_size_left, window_size_right), softcap, alibi_slopes)
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    words |= sequence_words(k, sequences, seqused_k, num_splits, block_table, leftpad_k)
    if block_table is not None:
        refuse_probabilities(dropout_p, return_softmax)
    return forward(q, k, v, words, dropout_p, return_softmax)


@torch.no_grad()
def backward(
    dout: Tensor,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    gradients: tuple[Tensor | None, Tensor | None, Tensor | None],
    words: dict[str, Any],
    dropout_p: float = 0.0,
    rng_state: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """The gradients of q, k and v, written to the given tensors if any. inputs: q, k, v, out and softmax_lse."""
    if dropout_p and rng_state is None:
        raise ValueError("backward with dropout needs the rng_state that forward returned")
    *rows, lse = [tensor.detach() for tensor in inputs]
    dout, q, k, v, out = with_rows_contiguous(dout.detach(), *rows)
    lse = lse.masked_fill(lse == math.inf, -math.inf)  # rows that see no key
    if dropout_p:
        words = {**words, **dropout_words(dropout_p), "seed": rng_state}
    to_write: dict[str, Any] = dict(zip(("grad_q", "grad_k", "grad_v"), gradients))
    results: tuple[Tensor, ...] = attention_backward(dout, q, k, v, out, lse, **to_write, **words)
    written(*gradients)
    return results


def _flash_attn_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    dq: Tensor | None,
    dk: Tensor | None,
    dv: Tensor | None,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: Tensor | None,
    deterministic: bool,
    rng_state: Tensor | None = None,
) -> None:
    """Writes dq, dk and dv. The row sums that flash_attn returns stay inside the kernels here."""
    window = (window_size_left, window_size_right)
    words = score_words(softmax_scale, causal, window, softcap, alibi_slopes, deterministic)
    backward(dout, (q, k, v, out, softmax_lse), (dq, dk, dv), words, dropout_p, rng_state)


def _flash_attn_varlen_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    softmax_lse: Tensor,
    dq: Tensor | None,
    dk: Tensor | None,
    dv: Tensor | None,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: Tensor | None,
    deterministic: bool,
    rng_state: Tensor | None = None,
    zero_tensors: bool = False,
) -> None:
    """The same for packed sequences. Rows outside of them become zero with zero_tensors, otherwise stay as they are."""
    window = (window_size_left, window_size_right)
    words = score_words(softmax_scale, causal, window, softcap, alibi_slopes, deterministic)
    words |= varlen_words(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    if zero_tensors:
        zero(dq, dk, dv)
    backward(dout, (q, k, v, out, softmax_lse), (dq, dk, dv), words, dropout_p, rng_state)


_wrapped_flash_attn_forward = _flash_attn_forward
_wrapped_flash_attn_varlen_forward = _flash_attn_varlen_forward
_wrapped_flash_attn_backward = _flash_attn_backward
_wrapped_flash_attn_varlen_backward = _flash_attn_varlen_backward
