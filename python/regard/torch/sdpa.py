"""`scaled_dot_product_attention` with the same arguments as PyTorch's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..arrays import bits_by_torch
from ..errors import InvalidError, invalid
from ..words import dropout_words
from .attention import attention
from .autocast import cast, is_autocast, type_cast_to
from .broadcasting import of_four_dimensions, refuse_mask
from .tensors import is_causal_bias, refuse_freed, refuse_other_switches, refuse_types, refuse_without_strides


def sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, computed by Regard.

    query: [N, ..., Hq, L, E]; key: [N, ..., H, S, E]; value: [N, ..., H, S, Ev]; leading dimensions are broadcast, and
    with enable_gqa the heads of the query are a multiple of those of key and value. attn_mask is broadcast to
    [N, ..., Hq, L, S]: booleans, True where a query sees a key, or numbers that are added to the scores, of the query's
    type or float32, which may require a gradient; or a CausalBias of torch.nn.attention.bias. is_causal is aligned to
    the top left, and can be combined with a mask. Rows that see no key are 0.

    [N, L, Hq, E], as `attention` takes it, would run as well, with a wrong result: transpose it.

    The result has the query's memory order. PyTorch accepts the following, and this function does not: float64 and
    complex numbers, head dimensions above 512, no heads or a head dimension of 0, tensors of other subclasses that
    override functions, and any dropout_p other than 0 and 1/256 to 255/256, the resolution of the mask. Kept weights
    are divided by 1 - dropout_p. scale is by default 1 / sqrt(E).

    Returns a tensor [N, ..., Hq, L, Ev] of the query's type.

    Raises InvalidError (a ValueError) for shapes that cannot be broadcast, and types and values of dropout_p that it
    does not take; RefusedError (a NotImplementedError) for tensors of other subclasses, and for what nothing here
    solves; TypeError for what is not a tensor. NoKernelError (a RuntimeError) and NoMemoryError (a MemoryError) as
    `attention`.
    """
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        refuse_types(query=query, key=key, value=value)
    if not (attn_mask is None or isinstance(attn_mask, Tensor)):
        refuse_types(attn_mask=attn_mask)
    refuse_other_switches(is_causal=is_causal, enable_gqa=enable_gqa)
    causal: str | bool = "top_left" if is_causal else False
    if is_causal_bias(attn_mask):
        attn_mask, causal = None, causal_of(attn_mask, query, key, is_causal)
    shape: tuple[int, ...] = query.shape[:-1]
    plain = query.dim() == key.dim() == value.dim() == 4 and query.shape[:2] == key.shape[:2] == value.shape[:2]
    if not plain:
        query, key, value, attn_mask, shape = of_four_dimensions(query, key, value, attn_mask, enable_gqa)
    options: dict[str, Any] = {}
    if attn_mask is not None:
        refuse_freed(attn_mask=attn_mask)
        options = mask_option(attn_mask, query, key.shape[2])
    if causal:
        options["causal"] = causal
    if scale is not None:
        options["scale"] = scale
    if dropout_p:
        options.update(dropout_words(dropout_p))
    o: Tensor = in_memory_order(query, key, value, **options)
    return o if plain else o.reshape(*shape, o.shape[-1])


def in_memory_order(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
    """`attention` of tensors [b, h, s, d], whose result has the query's memory order."""
    query, key, value = with_contiguous_rows(query), with_contiguous_rows(key), with_contiguous_rows(value)
    if query.stride(1) >= query.stride(2):
        return attention(query, key, value, layout="bhsd", **options)
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)  # [b, s, h, d] in memory
    result = attention(query, key, value, layout="bshd", **options)
    if isinstance(result, Tensor):
        return result.transpose(1, 2)
    o, *others = result
    return (o.transpose(1, 2), *others)


def causal_of(bias: Any, query: Tensor, key: Tensor, is_causal: bool) -> str | bool:
    """The corner of a CausalBias, whose memory has no contents."""
    if is_causal:
        raise InvalidError("attn_mask is a CausalBias, which is the whole mask: leave is_causal out")
    sizes = query.shape[-2], key.shape[-2]
    if sizes != (bias.seq_len_q, bias.seq_len_kv):
        raise invalid(
            f"attn_mask is a CausalBias of {bias.seq_len_q} queries and {bias.seq_len_kv} keys, and there are "
            f"{sizes[0]} and {sizes[1]}"
        )
    corners: dict[str, str | bool] = {"UPPER_LEFT": "top_left", "LOWER_RIGHT": True}
    return corners[bias.variant.name]


def with_contiguous_rows(tensor: Tensor) -> Tensor:
    try:
        if tensor.stride(-1) == 1:
            return tensor
    except (AttributeError, RuntimeError):
        refuse_without_strides(**{"an argument": tensor})
        raise
    except IndexError:  # a single number, whose shape is checked later
        return tensor
    refuse_without_strides(**{"an argument": tensor})
    refuse_freed(tensor=tensor)
    return tensor.contiguous()


def mask_option(mask: Tensor, query: Tensor, keys: int) -> dict[str, Tensor]:
    """A mask as bits, or as a bias in its own type."""
    refuse_mask(mask, (*query.shape[:3], keys))
    if mask.shape[-1] == 1 != keys:
        mask = mask.expand(*mask.shape[:-1], keys)
    if mask.dtype == torch.bool:
        # A tensor of ceil(keys / 32) words would tie an exported graph to more or fewer than 32 keys.
        return {"bits": mask if torch.compiler.is_exporting() else bits_by_torch(mask)}
    dtype = query.dtype
    if is_autocast(query):
        mask, dtype = cast(mask), type_cast_to(query)
    if mask.dtype not in (dtype, torch.float32):
        raise InvalidError(f"attn_mask is {mask.dtype}; it must be torch.bool, torch.float32 or query's {dtype}")
    return {"bias": with_contiguous_rows(mask)}
