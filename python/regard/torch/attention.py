"""attention and attention_varlen: prepare the options of a PyTorch call before it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..call import run_call
from ..functions import with_functions
from ..options import Options, documents_options
from .autocast import cast, is_autocast
from .autograd import is_recorded, recorded, refuse_tangents, refuse_to_write
from .caching import attention_appended, has_cache, refuse_recorded, written_factors
from .latent import latent_attention
from .profiling import FORWARD, is_profiled, shown
from .randomness import seed
from .tensors import are_bare, bare, is_eager, refuse_types, written
from .tracing import has_python, with_text
from .transforms import operated

if TYPE_CHECKING:
    from typing_extensions import Unpack


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    *,
    lse: Literal[False] = ...,
    dropout_mask: Literal[False] = ...,
    row_max: Literal[False] = ...,
    generator: torch.Generator | None = ...,
    **options: Unpack[Options],
) -> Tensor: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    *,
    lse: Tensor | bool = ...,
    dropout_mask: Tensor | bool = ...,
    row_max: Tensor | bool = ...,
    generator: torch.Generator | None = ...,
    **options: Unpack[Options],
) -> tuple[Tensor, ...]: ...
@documents_options()
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    *,
    lse: Any = False,
    dropout_mask: Any = False,
    row_max: Any = False,
    generator: torch.Generator | None = None,
    **options: Any,
) -> Any:
    """Fused attention, softmax(scale Q K^T + ...) V, of PyTorch tensors, with gradients.

    q: [b, sq, hq, d]; k: [b, sk, hk, d]; v: [b, sk, hk, dv]; layout="bhsd" or "sbhd" selects another order of the axes;
    without it, [b, h, s, d], as PyTorch's own attention takes it, would run as [b, s, h, d], with a wrong result.
    Arrays and results are those of `regard.attention`, whose documentation has the details; none is copied. Latent
    attention (v=None) has no gradients.

    q, k, v, bias, sink and floating-point tensors= of score= have gradients, through o and lse. Recorded calls take no
    out= and no arrays for other results to be written to. There are no second derivatives, and no gradients through a
    KV cache.

    score and keep may be functions as FlexAttention takes them, score_mod(score, b, h, q_idx, kv_idx) and
    mask_mod(b, h, q_idx, kv_idx), whose closed-over tensors take the place of tensors=. They are traced once for the
    same code, constants and kinds of tensors, and not within torch.compile, which takes what `function` makes of them.
    What the language cannot say is refused with a sentence that names the line.

    Dropout draws a new mask for each call, from `generator` or from PyTorch's own, which torch.manual_seed seeds; seed=
    (and offset=) select a mask instead. Under autocast q, k, v and bias are cast as PyTorch's attention casts
    them, but not where k and v are a KV cache, which has a type of its own. torch.use_deterministic_algorithms(True)
    implies deterministic=True.

    Raises InvalidError (a ValueError), RefusedError (a NotImplementedError) and others, like `regard.attention`.
    """
    options = with_functions(with_text(options, q) if has_python(options) else options)
    outputs = {"lse": lse, "dropout_mask": dropout_mask, "row_max": row_max}
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        if v is not None:
            refuse_types(q=q, k=k, v=v)
        refuse_types(q=q, k=k)
        return latent_attention(q, k, outputs, generator, options)
    if "out" in options:
        out = options.pop("out")
        outputs["out" if isinstance(out, str) else "o"] = out
    if forward_ad._current_level >= 0:
        refuse_tangents(q, k, v, *options.values())
    if is_autocast(q) and not has_cache(options):
        q, k, v = cast(q), cast(k), cast(v)
        if isinstance(options.get("bias"), Tensor):
            options["bias"] = cast(options["bias"])
    if "dropout" in options or generator is not None:
        seed(options, q, generator)
    appends = options.get("k_new") is not None
    if appends:
        refuse_types(k_new=options["k_new"], v_new=options.get("v_new"))
        refuse_recorded(q, k, v, options["k_new"], options["v_new"])
    ordinary = are_bare(options)
    eager, with_gradients = is_eager(q), is_recorded(q, k, v, {} if ordinary else options)
    if with_gradients or not eager:
        refuse_to_write(outputs)
        if with_gradients and torch.are_deterministic_algorithms_enabled():
            options.setdefault("deterministic", True)
        if eager:
            return recorded(q, k, v, options, outputs)
        if appends:
            return attention_appended(q, k, v, options, outputs)
        return operated(q, k, v, options, outputs)
    if not ordinary:
        options = {name: bare(option) for name, option in options.items()}
    run = shown(run_call, FORWARD, q, k, v) if is_profiled() else run_call
    results = run("fwd", {"q": bare(q), "k": bare(k), "v": bare(v)}, options, outputs)
    written(*outputs.values())
    if appends:
        written(k, v, *written_factors(options))
    return results


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
    """`attention` for packed sequences, [tokens, heads, dim].

    q: [tokens, hq, d]; k: [tokens, hk, d]; v: [tokens, hk, dv]. offsets_q, offsets_k: int32 [b+1], cumulative, first 0.
    sq and sk: the longest sequences, or any bound above them; they are not computed from the offsets, which would wait
    for a GPU. options are those of `attention`.

    Returns o, [tokens, hq, dv], in q's type; (o, lse) with lse=True, lse float32 [hq, tokens].

    Raises the errors of `attention`: InvalidError (a ValueError) also for sequences longer than sq or sk, which on a
    GPU is not noticed.
    """
    return attention(q, k, v, offsets_q=offsets_q, offsets_k=offsets_k, sq=sq, sk=sk, **options)
