"""`flex_attention` with the arguments of torch.nn.attention.flex_attention, and in its place."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidError, RefusedError, invalid, wrong_type
from ..words import quote
from .block_masks import function_of
from .replacing import Replacement
from .sdpa import in_memory_order
from .strictness import not_computed
from .tensors import refuse_other_switches, refuse_types

# The options that choose among PyTorch's own kernels and their tiles. They change no result.
_OF_KERNELS = frozenset(
    (
        *("num_warps", "num_stages", "kpack", "matrix_instr_nonkdim", "waves_per_eu", "USE_TMA", "WRITE_DQ"),
        *("BLOCK_M", "BLOCK_N", "BLOCK_M1", "BLOCK_N1", "BLOCK_M2", "BLOCK_N2", "PRESCALE_QK"),
        *("ROWS_GUARANTEED_SAFE", "BLOCKS_ARE_CONTIGUOUS", "FORCE_USE_FLEX_ATTENTION"),
    )
)
_ignored: set[str] = set()  # what was warned of


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

    The result has the query's order of heads and rows in memory. With return_lse, or return_aux=AuxRequest(lse=True),
    LSE follows, [B, Hq, L] in fp32; with AuxRequest(max_scores=True), each row's largest score, which has no gradient,
    and is -inf for rows that see no key. kernel_options that choose tiles are ignored, with a warning, once for each;
    others are refused. Within torch.compile functions and block masks are what `function` makes of them. scale is by
    default 1 / sqrt(E); with enable_gqa Hq is a multiple of Hkv. key and value may have a batch of 1, which all queries
    share.

    Returns o, [B, Hq, L, Ev]; (o, lse) with return_lse; (o, AuxOutput) with return_aux.

    Raises InvalidError (a ValueError) for other shapes and types, nested tensors, and a function that cannot be traced;
    RefusedError (a NotImplementedError) for what `attention` does not compute, a BACKEND of PyTorch, and a block mask
    whose blocks contradict its function; TypeError for arguments of other classes. What a function itself raises is
    passed on.
    """
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        refuse_types(query=query, key=key, value=value)
    refuse_other_switches(enable_gqa=enable_gqa, return_lse=return_lse)
    _refuse_sizes(query, key, value, enable_gqa)
    if kernel_options:
        _refuse_kernel_options(kernel_options)
    aux = None if return_aux is None else _requested(return_aux, return_lse)
    options: dict[str, Any] = {}
    if score_mod is not None:
        options["score"] = score_mod
    if block_mask is not None:
        keep = function_of(block_mask, query, key)
        if keep is not None:
            options["keep"] = keep
    if scale is not None:
        options["scale"] = scale
    if key.shape[0] != query.shape[0]:
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    wants_lse = return_lse or (aux is not None and return_aux.lse)
    wants_max = aux is not None and return_aux.max_scores
    if wants_max:
        options["row_max"] = True
    result = in_memory_order(query, key, value, lse=wants_lse, **options)
    if aux is None:
        return result
    o, *others = result if wants_lse or wants_max else (result,)
    asked = [name for name, wanted in (("lse", wants_lse), ("max_scores", wants_max)) if wanted]
    return o, aux(**dict(zip(asked, others)))


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
    unknown = [name for name, wanted in return_aux._asdict().items() if wanted and name not in ("lse", "max_scores")]
    if unknown:
        raise RefusedError(f"return_aux asks for {', '.join(unknown)}; only lse and max_scores are results here")
    return theirs.AuxOutput


def _module() -> Any:
    """PyTorch's module, which takes seconds to import."""
    import torch.nn.attention.flex_attention as theirs

    return theirs


_lock = threading.Lock()
_blocks: list[Replacement] = []
_theirs: Any = None


@contextmanager
def replace_flex(*, strict: bool = False) -> Iterator[Replacement]:
    """A context in which torch.nn.attention.flex_attention.flex_attention is `flex_attention`, in all threads.

    Calls that it refuses fall back to PyTorch's own; strict: they raise RefusedError with the reason. Names that were
    imported earlier are not replaced, and graphs of torch.compile hold PyTorch's own.

    Yields a `Replacement`, which counts the calls: how many Regard computed, and why others were handed back.

    Raises nothing itself.
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
