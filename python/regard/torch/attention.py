"""attention and attention_varlen: what a call of PyTorch's adds to the options before it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..call import run_call
from ..errors import invalid, wrong_type
from .autocast import cast
from .autograd import is_recorded, recorded, refuse_tangents, refuse_to_write, with_all_rows
from .randomness import draw
from .tensors import INPUTS, bare, is_eager
from .transforms import operated

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import Options


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    lse: Any = False,
    dropout_mask: Any = False,
    generator: torch.Generator | None = None,
    **options: Unpack[Options],
) -> Any:
    """Fused attention, softmax(scale Q K^T + ...) V, of PyTorch's tensors, with gradients.

    q: [b, sq, hq, d]; k: [b, sk, hk, d]; v: [b, sk, hk, dv]; layout="bhsd" or "sbhd" names another order of the axes.
    Arrays, results and options are those of `regard.attention`, whose documentation says more; none is copied.

    Gradients reach q, k, v, bias and sink; lse has none. What is recorded has no out=, and no arrays to write lse and
    dropout_mask to. There are no second derivatives.

    Dropout draws a new mask for each call, from `generator` or from PyTorch's own, which torch.manual_seed seeds; with
    seed= (and offset=) it is the mask of those. Under autocast q, k, v and bias are cast as PyTorch's attention casts
    them. torch.use_deterministic_algorithms(True) implies deterministic=True.

    Raises InvalidError (a ValueError), RefusedError (a NotImplementedError) and others, as `regard.attention` does.
    """
    for name, tensor in zip(INPUTS, (q, k, v)):
        if not isinstance(tensor, Tensor):
            raise wrong_type(
                f"{name} is of type {type(tensor).__name__}; regard.torch takes tensors of PyTorch, and "
                "regard.attention arrays of any library"
            )
    given: dict[str, Any] = dict(options)
    out = given.pop("out", None)
    outputs = {"lse": lse, "dropout_mask": dropout_mask}
    if out is not None:
        outputs["out" if isinstance(out, str) else "o"] = out
    refuse_tangents((q, k, v, *given.values()))
    if not q.is_meta and torch.is_autocast_enabled(q.device.type):
        q, k, v = (cast(tensor) for tensor in (q, k, v))
        if isinstance(given.get("bias"), Tensor):
            given["bias"] = cast(given["bias"])
    if given.get("dropout") and "seed" not in given:
        given["seed"] = draw(q, generator)
    elif generator is not None and "seed" in given:
        raise invalid("seed and generator both say which mask dropout draws: give one of the two")
    with_gradients = is_recorded(q, k, v, given)
    if with_gradients:
        refuse_to_write(outputs)
        if isinstance(given.get("bias"), Tensor):
            given["bias"] = with_all_rows(given["bias"], q, given)
    if not is_eager(q):
        refuse_to_write(outputs)
        return operated(q, k, v, given, outputs)
    if with_gradients:
        return recorded(q, k, v, given, outputs)
    tensors = {name: bare(tensor) for name, tensor in zip(INPUTS, (q, k, v))}
    return run_call("fwd", tensors, {name: bare(option) for name, option in given.items()}, outputs)


def attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    offsets_q: Tensor,
    offsets_k: Tensor,
    sq: int,
    sk: int,
    **options: Any,
) -> Any:
    """`attention` of packed sequences, [tokens, heads, dim].

    offsets_q, offsets_k: int32 [b+1], cumulative, first 0. sq and sk: the longest sequences, or any bound above them;
    offsets are not looked at to find them, which would wait for a GPU.
    """
    return attention(q, k, v, offsets_q=offsets_q, offsets_k=offsets_k, sq=sq, sk=sk, **options)
