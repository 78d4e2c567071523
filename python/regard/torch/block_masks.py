"""Masks of torch.nn.attention.flex_attention: the function of one, and whether its blocks say the same."""

from __future__ import annotations

import copy
import sys
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..errors import RefusedError, invalid, wrong_type
from .tracing import Function

_WHOLE = 1 << 30  # the block size of PyTorch's mask of one block
# An attribute of masks whose blocks were compared: the function. Compiled code looks at it at each call.
_COMPARED = "_regard_compared"


def is_block_mask(value: Any) -> bool:
    theirs = sys.modules.get("torch.nn.attention.flex_attention")
    return theirs is not None and isinstance(value, theirs.BlockMask)


def traced(block_mask: Any) -> Any:
    """The mask for compiled code: with its function as text, and blocks that were compared with the function."""
    _refuse_part(block_mask)
    _compare(block_mask)
    result = copy.copy(block_mask)
    if not _is_everything(result):
        result.mask_mod = Function("keep", result.mask_mod, result.kv_num_blocks.device)
        setattr(result, _COMPARED, result.mask_mod)
    return result


def function_of(block_mask: Any, query: Tensor, key: Tensor) -> Any:
    """The function of a block mask that hides and shows what its function does; None if that is everything."""
    if not is_block_mask(block_mask):
        raise wrong_type(
            f"block_mask is of type {type(block_mask).__name__}; it must be a BlockMask of create_block_mask"
        )
    _refuse_part(block_mask)
    sizes = block_mask.seq_lengths
    if not _is_whole(block_mask) and tuple(sizes) != (query.shape[2], key.shape[2]):
        raise invalid(
            f"block_mask is of {sizes[0]} queries and {sizes[1]} keys, and there are {query.shape[2]} and "
            f"{key.shape[2]}; make one for these lengths"
        )
    counts = block_mask.kv_num_blocks
    if counts.dim() != 3 or any(n not in (1, size) for n, size in zip(counts.shape, query.shape[:2])):
        raise invalid(
            f"block_mask is of {list(counts.shape[:-1])} sequences and heads; it must be of {list(query.shape[:2])}, "
            "or of 1 of each"
        )
    _compare(block_mask)
    return None if _is_everything(block_mask) else block_mask.mask_mod


def _is_whole(block_mask: Any) -> bool:
    return tuple(block_mask.BLOCK_SIZE) == (_WHOLE, _WHOLE)


def _is_everything(block_mask: Any) -> bool:
    theirs = sys.modules["torch.nn.attention.flex_attention"]
    return block_mask.mask_mod is theirs.noop_mask


def _refuse_part(block_mask: Any) -> None:
    theirs = sys.modules["torch.nn.attention.flex_attention"]
    if block_mask.mask_mod is theirs._sliced_mask_mod_error:
        raise invalid("block_mask is a part of another, which has no function; make one of the function of the part")


def _compare(block_mask: Any) -> None:
    """Refuses a mask whose blocks say something else than its function."""
    if _is_whole(block_mask):
        return
    compared = getattr(block_mask, _COMPARED, None)
    if torch.compiler.is_compiling():
        if compared is not None and (isinstance(block_mask.mask_mod, Function) or _is_everything(block_mask)):
            return
        raise RefusedError(
            "block_mask has blocks, which are not compared with its function within what PyTorch compiles: pass "
            "regard.torch.function(block_mask), made before"
        )
    if compared is not block_mask.mask_mod:
        _refuse_blocks(block_mask)
        setattr(block_mask, _COMPARED, block_mask.mask_mod)


def _refuse_blocks(mask: Any) -> None:
    """Compares each block with what the function says of its places."""
    listed, full = _dense(mask.kv_num_blocks, mask.kv_indices), None
    if mask.full_kv_num_blocks is not None:
        full = _dense(mask.full_kv_num_blocks, mask.full_kv_indices)
    (rows, keys), (block_rows, block_keys) = mask.seq_lengths, mask.BLOCK_SIZE
    if listed.shape[2] != -(-rows // block_rows) or listed.shape[3] != -(-keys // block_keys):
        raise invalid("block_mask has other blocks than its seq_lengths; make it with create_block_mask")
    hidden = ~listed if full is None else ~(listed | full)
    for b in range(listed.shape[0]):  # one row of blocks of a sequence at a time, for little memory
        for block in range(listed.shape[2]):
            first = block * block_rows
            places = range(listed.shape[1]), range(first, min(first + block_rows, rows))
            seen = seen_places(mask.mask_mod, b, *places, keys, listed.device).transpose(1, 2)
            wrong = _in_blocks(seen, block_keys, False).any(-1) & hidden[b, :, block]
            if full is not None:
                wrong |= ~_in_blocks(seen, block_keys, True).all(-1) & full[b, :, block]
            if wrong.any():
                raise RefusedError(
                    "block_mask hides or shows other blocks than its mask_mod, as from_kv_blocks can make it; the "
                    "function must say all, such as with blocks[b, h, q_idx // 128, kv_idx // 128] of a tensor that it "
                    "closes over"
                )


def seen_places(mask_mod: Any, b: int, heads: range, rows: range, keys: int, device: Any) -> Tensor:
    """What a function returns at these places of a sequence: [heads, rows, keys]."""
    ranges = range(b, b + 1), heads, rows, range(keys)
    numbers = [torch.arange(some.start, some.stop, dtype=torch.int32, device=device) for some in ranges]
    places = torch.meshgrid(*numbers, indexing="ij")
    with _Indices():
        seen: Tensor = torch.vmap(mask_mod)(*[place.reshape(-1) for place in places])
    return seen.reshape(len(heads), len(rows), keys)


def _in_blocks(seen: Tensor, block_keys: int, after: bool) -> Tensor:
    """[h, keys, rows] as [h, blocks of keys, places of a block]; `after`: the places after the last key."""
    missing = -seen.shape[1] % block_keys
    padded = torch.nn.functional.pad(seen, (0, 0, 0, missing), value=after)
    return padded.reshape(seen.shape[0], -1, block_keys * seen.shape[2])


def _dense(counts: Tensor, indices: Tensor) -> Tensor:
    """Which blocks are listed, [B, H, rows, keys] of blocks."""
    columns = indices.shape[-1]
    is_listed = torch.arange(columns, device=counts.device) < counts[..., None]
    dense = torch.zeros(*indices.shape[:-1], columns + 1, dtype=torch.bool, device=counts.device)
    return dense.scatter_(-1, indices.long().where(is_listed, columns), True)[..., :columns]


class _Indices(TorchFunctionMode):
    """tensor[i] where i stands for many numbers, which PyTorch would read as one."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is Tensor.__getitem__:
            places = args[1] if isinstance(args[1], tuple) else (args[1],)
            if all(isinstance(place, (int, Tensor)) for place in places):
                device = args[0].device
                tensors = [
                    place if isinstance(place, Tensor) else torch.tensor(place, device=device) for place in places
                ]
                return torch.ops.aten.index(args[0], tensors)
        return function(*args, **(kwargs or {}))
