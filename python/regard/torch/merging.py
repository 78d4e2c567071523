"""merge for PyTorch: with gradients, and as operators in graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import merging
from ..arrays import NAMES
from ..errors import RefusedError, invalid
from ..words import whole
from .autograd import refuse_to_write
from .batching import each_rule
from .operators import refuse_devices
from .tensors import bare, is_eager, refuse_own_functions, refuse_types, written

MERGE, INTO = "regard::merge", "regard::merge_into"
_DEVICES = ("cpu", "cuda")
_TAGS = (torch.Tag.pt2_compliant_tag,)

torch.library.define(
    MERGE, "(Tensor partial_o, Tensor partial_lse, str? out, str? target, int threads) -> (Tensor, Tensor)", tags=_TAGS
)
torch.library.define(
    INTO,
    "(Tensor(a!) o, Tensor(b!) lse, Tensor partial_o, Tensor partial_lse, str? target, int threads) -> ()",
    tags=_TAGS,
)
_merge_op = torch.ops.regard.merge.default
_into_op = torch.ops.regard.merge_into.default


def merge(
    partial_o: Tensor,
    partial_lse: Tensor,
    *,
    out: Any = None,
    lse: Tensor | None = None,
    accumulate: bool = False,
    target: str | None = None,
    threads: int = 0,
) -> tuple[Tensor, Tensor]:
    """`regard.merge` for tensors of PyTorch: merges results of the same queries over different keys into the result
    over all of these keys. Autograd records it, and graphs hold it as an operator.

    partial_o: [parts, b, s, h, dv] or packed [parts, tokens, h, dv]; partial_lse: float32 [parts, b, h, s] or packed
    [parts, h, tokens]. Returns (o, lse) of one part's shapes; out="fp32" or another dtype as text sets the dtype of o.

    Both have gradients. With w = exp(partial_lse - lse), the weight of a part in a row, that of partial_o is w grad_o,
    and that of partial_lse is w (d - sum over parts of w d + grad_lse), where d is the sum of grad_o partial_o over the
    columns. A part whose LSE is -inf is empty: its gradients are 0.

    out and lse may also be tensors to write to. With accumulate=True both must be given: they are one more part, and
    are changed in place, which autograd does not record.

    Raises InvalidError (a ValueError) and RefusedError (a NotImplementedError).
    """
    refuse_types(partial_o=partial_o, partial_lse=partial_lse)
    given: dict[str, Any] = {"out": None if isinstance(out, str) else out, "lse": lse}
    given = {name: tensor for name, tensor in given.items() if tensor is not None}
    refuse_types(**given)
    eager = is_eager(partial_o)
    is_recorded = torch.is_grad_enabled() and any(x.requires_grad for x in (partial_o, partial_lse, *given.values()))
    if accumulate and is_recorded:
        raise RefusedError(
            "accumulate changes o and lse in place, which autograd does not record: stack the parts and merge them "
            "without it, or call it under torch.no_grad()"
        )
    if eager and not is_recorded:
        options = {name: bare(tensor) for name, tensor in given.items()}
        results = merging.merge(
            bare(partial_o),
            bare(partial_lse),
            accumulate=accumulate,
            target=target,
            threads=threads,
            **{"out": out, **options},
        )
        written(*given.values())
        return given.get("out", results[0]), given.get("lse", results[1])
    refuse_own_functions({"partial_o": partial_o, "partial_lse": partial_lse, **given})
    run_options = target, whole("threads", threads)
    if not accumulate:
        refuse_to_write(given)
        o, merged_lse = _merge_op(partial_o, partial_lse, out, *run_options)
        return o, merged_lse
    if given.keys() != {"out", "lse"}:
        raise invalid("accumulate changes o and lse in place: give both, as out= and lse=")
    _into_op(out, lse, partial_o, partial_lse, *run_options)
    assert lse is not None
    return out, lse


def _run(
    partial_o: Tensor, partial_lse: Tensor, out: str | None, target: str | None, threads: int
) -> tuple[Tensor, Tensor]:
    return merging.merge(bare(partial_o), bare(partial_lse), out=out, target=target, threads=threads)


def _run_into(o: Tensor, lse: Tensor, partial_o: Tensor, partial_lse: Tensor, target: str | None, threads: int) -> None:
    parts = bare(partial_o), bare(partial_lse)
    merging.merge(*parts, out=bare(o), lse=bare(lse), accumulate=True, target=target, threads=threads)
    written(o, lse)


def _without_memory(
    partial_o: Tensor, partial_lse: Tensor, out: str | None, target: str | None, threads: int
) -> tuple[Tensor, Tensor]:
    refuse_devices({"q": partial_o, "partial_lse": partial_lse})
    dtype = partial_o.dtype if out is None else getattr(torch, NAMES[out])
    return partial_o.new_empty(partial_o.shape[1:], dtype=dtype), partial_lse.new_empty(partial_lse.shape[1:])


def _into_without_memory(o: Tensor, lse: Tensor, partial_o: Tensor, partial_lse: Tensor, *_: Any) -> None:
    refuse_devices({"q": o, "lse": lse, "partial_o": partial_o, "partial_lse": partial_lse})


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:2], output[1])


def _backward(ctx: Any, grad_o: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    return *gradients(grad_o, grad_lse, *ctx.saved_tensors), None, None, None


def gradients(
    grad_o: Tensor | None, grad_lse: Tensor | None, partial_o: Tensor, partial_lse: Tensor, lse: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of partial_o and partial_lse. What an empty part holds does not matter: it may be NaN."""
    is_empty = partial_lse == -torch.inf
    weights = torch.where(is_empty, 0.0, torch.exp(partial_lse - lse))
    total, grad_partial_o = grad_lse, None
    if grad_o is not None:
        rows = weights.transpose(-1, -2).unsqueeze(-1)  # to be broadcast over the columns of O
        empty_rows = is_empty.transpose(-1, -2).unsqueeze(-1)
        wide = grad_o.float()
        grad_partial_o = torch.where(empty_rows, 0.0, rows * wide).to(partial_o.dtype)
        products = torch.where(empty_rows, 0.0, wide * partial_o).sum(-1).transpose(-1, -2)
        # The weights of a row add up to 1, so its gradients of partial_lse add up to that of lse.
        total = products - (weights * products).sum(0) + (0.0 if grad_lse is None else grad_lse)
    return grad_partial_o, None if total is None else torch.where(is_empty, 0.0, weights * total)


torch.library.impl(MERGE, _DEVICES, _run)
torch.library.impl(INTO, _DEVICES, _run_into)
torch.library.register_fake(MERGE, _without_memory)
torch.library.register_fake(INTO, _into_without_memory)
torch.library.register_autograd(MERGE, _backward, setup_context=_setup)
torch.library.register_vmap(MERGE, each_rule(_merge_op, _without_memory))
