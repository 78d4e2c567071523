"""`flex_attention` with the arguments of torch.nn.attention.flex_attention, and in its place."""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..errors import InvalidError, RefusedError, invalid, wrong_type
from ..words import quote
from .replacing import Replacement
from .sdpa import in_memory_order
from .strictness import not_computed
from .tensors import refuse_types

# The options that choose among PyTorch's own kernels and their tiles. They change no result.
_OF_KERNELS = frozenset(
    (
        *("num_warps", "num_stages", "kpack", "matrix_instr_nonkdim", "waves_per_eu", "USE_TMA", "WRITE_DQ"),
        *("BLOCK_M", "BLOCK_N", "BLOCK_M1", "BLOCK_N1", "BLOCK_M2", "BLOCK_N2", "PRESCALE_QK"),
        *("ROWS_GUARANTEED_SAFE", "BLOCKS_ARE_CONTIGUOUS", "FORCE_USE_FLEX_ATTENTION"),
    )
)
_WHOLE = 1 << 30  # the block size of PyTorch's mask of one block
_ignored: set[str] = set()  # what was warned of
_checked: weakref.WeakSet[Any] = weakref.WeakSet()


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: Any = None,
) -> Any:
    """torch.nn.attention.flex_attention.flex_attention, computed by Regard, with gradients also on CPUs.

    query: [B, Hq, L, E]; key: [B, Hkv, S, E]; value: [B, Hkv, S, Ev]. score_mod(score, b, h, q_idx, kv_idx) and the
    block mask's mask_mod(b, h, q_idx, kv_idx) are traced as `attention` traces score= and keep=. The function of a
    block mask is the whole mask: one that hides blocks which its function shows, as from_kv_blocks can make it, is
    refused. The first call with a block mask compares all its places. Rows that see no key are 0.

    The result has the query's memory order. With return_lse, or return_aux=AuxRequest(lse=True), LSE follows,
    [B, Hq, L] in fp32. AuxRequest(max_scores=True) is refused. kernel_options that choose tiles are ignored, with a
    warning, once for each; others are refused. It is not to be compiled by torch.compile.
    """
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        refuse_types(query=query, key=key, value=value)
    _refuse_sizes(query, key, value, enable_gqa)
    if kernel_options:
        _refuse_kernel_options(kernel_options)
    aux = None if return_aux is None else _requested(return_aux, return_lse)
    options: dict[str, Any] = {}
    if score_mod is not None:
        options["score"] = score_mod
    if block_mask is not None:
        keep = _function_of(block_mask, query, key)
        if keep is not None:
            options["keep"] = keep
    if scale is not None:
        options["scale"] = scale
    if key.shape[0] != query.shape[0]:
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    wants_lse = return_lse or (aux is not None and return_aux.lse)
    result = in_memory_order(query, key, value, lse=wants_lse, **options)
    if aux is None:
        return result
    o, lse = result if wants_lse else (result, None)
    return o, aux(lse=lse)


def _refuse_sizes(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.is_nested:
            raise invalid(f"{name} is nested; pass a padded tensor")
        if tensor.dim() != 4:
            raise invalid(f"{name} has {tensor.dim()} dimensions; it must be [batch, heads, sequence, dimension]")
    heads, heads_k = query.shape[1], key.shape[1]
    if heads != heads_k and not enable_gqa:
        raise invalid(f"query has {heads} heads and key {heads_k}; enable_gqa=True lets heads of key serve several")
    if key.shape[0] not in (1, query.shape[0]):
        raise invalid(f"query has a batch of {query.shape[0]} and key of {key.shape[0]}; it must be the same, or 1")


def _refuse_kernel_options(options: dict[str, Any]) -> None:
    names = {name: name[4:] if name.startswith(("fwd_", "bwd_")) else name for name in options}
    if names.pop("BACKEND", None) and options["BACKEND"] != "AUTO":
        raise RefusedError(f"kernel_options asks for BACKEND={quote(options['BACKEND'])} of PyTorch; leave it out")
    unknown = [name for name, word in names.items() if word not in _OF_KERNELS]
    if unknown:
        raise invalid(f"kernel_options has {', '.join(map(quote, unknown))}, which is not known here; leave it out")
    new = sorted(set(names) - _ignored)
    if new:
        _ignored.update(new)
        warnings.warn(f"kernel_options {', '.join(new)} is of PyTorch's kernels, and ignored here", stacklevel=3)


def _requested(return_aux: Any, return_lse: bool) -> Any:
    """The class of the results of such a request."""
    theirs = _module()
    if not isinstance(return_aux, theirs.AuxRequest):
        raise wrong_type(f"return_aux is of type {type(return_aux).__name__}; it must be an AuxRequest")
    if return_lse:
        raise invalid("return_lse and return_aux are both given; return_aux=AuxRequest(lse=True) says it alone")
    unknown = [name for name, wanted in return_aux._asdict().items() if wanted and name != "lse"]
    if unknown:
        raise RefusedError(f"return_aux asks for {', '.join(unknown)}, which is no result here; ask for lse alone")
    return theirs.AuxOutput


def _module() -> Any:
    """PyTorch's module, which takes seconds to import."""
    import torch.nn.attention.flex_attention as theirs

    return theirs


def _function_of(block_mask: Any, query: Tensor, key: Tensor) -> Any:
    """The function of a block mask that hides and shows what its function does; None if that is everything."""
    theirs = sys.modules.get("torch.nn.attention.flex_attention")
    if theirs is None or not isinstance(block_mask, theirs.BlockMask):
        raise wrong_type(
            f"block_mask is of type {type(block_mask).__name__}; it must be a BlockMask of create_block_mask"
        )
    if block_mask.mask_mod is theirs._sliced_mask_mod_error:
        raise invalid("block_mask is a part of another, which has no function; make one of the function of the part")
    sizes = block_mask.seq_lengths
    is_whole = tuple(block_mask.BLOCK_SIZE) == (_WHOLE, _WHOLE)
    if not is_whole and tuple(sizes) != (query.shape[2], key.shape[2]):
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
    if not is_whole and block_mask not in _checked:
        _refuse_blocks(block_mask)
        _checked.add(block_mask)
    return None if block_mask.mask_mod is theirs.noop_mask else block_mask.mask_mod


def _refuse_blocks(mask: Any) -> None:
    """Compares each block with what the function says of its places."""
    listed, full = _dense(mask.kv_num_blocks, mask.kv_indices), None
    if mask.full_kv_num_blocks is not None:
        full = _dense(mask.full_kv_num_blocks, mask.full_kv_indices)
    (rows, keys), (block_rows, block_keys) = mask.seq_lengths, mask.BLOCK_SIZE
    if listed.shape[2] != -(-rows // block_rows) or listed.shape[3] != -(-keys // block_keys):
        raise invalid("block_mask has other blocks than its seq_lengths; make it with create_block_mask")
    hidden = ~listed if full is None else ~(listed | full)
    device = listed.device
    h, key = (torch.arange(n, dtype=torch.int32, device=device) for n in (listed.shape[1], keys))
    for b in range(listed.shape[0]):  # one row of blocks of a sequence at a time, for little memory
        for block in range(listed.shape[2]):
            first = block * block_rows
            row = torch.arange(first, min(first + block_rows, rows), dtype=torch.int32, device=device)
            batch = torch.tensor([b], dtype=torch.int32, device=device)
            places = torch.meshgrid(batch, h, row, key, indexing="ij")
            with _Indices():
                seen = torch.vmap(mask.mask_mod)(*[place.reshape(-1) for place in places])
            seen = seen.reshape(len(h), len(row), keys).transpose(1, 2)
            wrong = _in_blocks(seen, block_keys, False).any(-1) & hidden[b, :, block]
            if full is not None:
                wrong |= ~_in_blocks(seen, block_keys, True).all(-1) & full[b, :, block]
            if wrong.any():
                raise RefusedError(
                    "block_mask hides or shows other blocks than its mask_mod, as from_kv_blocks can make it; the "
                    "function must say all, such as with blocks[b, h, q_idx // 128, kv_idx // 128] of a tensor that it "
                    "closes over"
                )


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


_lock = threading.Lock()
_blocks: list[Replacement] = []
_theirs: Any = None


@contextmanager
def replace_flex(*, strict: bool = False) -> Iterator[Replacement]:
    """A context in which torch.nn.attention.flex_attention.flex_attention is `flex_attention`, in all threads.

    Calls that it refuses fall back to PyTorch's own; strict: they raise RefusedError with the reason. Names that were
    imported earlier are not replaced, and graphs of torch.compile hold PyTorch's own.

    Yields a `Replacement`, which counts the calls.
    """
    block = Replacement(strict)
    _count(block, 1)
    try:
        yield block
    finally:
        _count(block, -1)


def _count(block: Replacement, more: int) -> None:
    global _theirs
    module = _module()
    with _lock:
        if not _blocks:
            _theirs, module.flex_attention = module.flex_attention, _replaced
        if more > 0:
            _blocks.append(block)
        else:
            _blocks.remove(block)
        if not _blocks and module.flex_attention is _replaced:
            module.flex_attention = _theirs


def _replaced(*arguments: Any, **options: Any) -> Any:
    block = _blocks[-1] if _blocks else None
    if block is None or torch.compiler.is_compiling():
        return _theirs(*arguments, **options)
    try:
        result = flex_attention(*arguments, **options)
    except (InvalidError, RefusedError, TypeError) as error:  # PyTorch may accept the call, or raises its own error
        if block.strict:
            raise not_computed(str(error), "replace_flex") from error
        block.handed_back[str(error)] += 1
        return _theirs(*arguments, **options)
    block.computed += 1
    return result
