"""KV caches: append, and attention that first writes new tokens; both also as operators that change the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..call import run_call
from ..errors import RefusedError
from .autograd import refuse_row_max
from .encoding import SCHEMA, decode, encode, without_empty_lists
from .latent import latent_append
from .operators import refuse_devices
from .shapes import Sizes
from .tensors import bare, is_eager, refuse_own_functions, refuse_types, written

APPEND, ATTENTION = "regard::append", "regard::attention_appended"
_FACTORS = "Tensor(c!)? descale_k, Tensor(d!)? descale_v"  # those of each token, which are written
_TAGS = (torch.Tag.pt2_compliant_tag,)
_DEVICES = ("cpu", "cuda")
_OF_CACHES = ("k_new", "page_table", "page_list", "cache_index", "cache", "left_padding")

torch.library.define(
    APPEND, f"(Tensor(a!) k, Tensor(b!) v, Tensor k_new, Tensor v_new, {_FACTORS}, {SCHEMA}) -> ()", tags=_TAGS
)
torch.library.define(
    ATTENTION,
    f"(Tensor q, Tensor(a!) k, Tensor(b!) v, Tensor k_new, Tensor v_new, {_FACTORS}, {SCHEMA}) -> (Tensor, Tensor)",
    tags=_TAGS,
)
_append_op = torch.ops.regard.append.default
_attention_op = torch.ops.regard.attention_appended.default


def append(k: Tensor, v: Tensor | None, k_new: Tensor, v_new: Tensor | None, **options: Any) -> None:
    """`regard.append` for tensors of PyTorch: writes new keys and values into a KV cache. In graphs it is an operator
    that changes k and v. Autograd does not record it.

    Raises RefusedError where tensors require gradients, and the errors of `regard.append`.
    """
    if v is None and v_new is None:
        return latent_append(k, k_new, options)
    refuse_types(k=k, v=v, k_new=k_new, v_new=v_new)
    assert v is not None and v_new is not None
    refuse_recorded(k, v, k_new, v_new)
    factors = written_factors(options)
    if is_eager(k_new):
        tensors = {"k": bare(k), "v": bare(v), "k_new": bare(k_new), "v_new": bare(v_new)}
        run_call("append", tensors, {name: bare(option) for name, option in options.items()}, {})
        return written(k, v, *factors)
    refuse_own_functions({"k": k, "v": v, "k_new": k_new, "v_new": v_new, **options})
    _append_op(k, v, k_new, v_new, *_encoded(options, factors, k))


def has_cache(options: dict[str, Any]) -> bool:
    """Whether k and v are a KV cache."""
    return any(options.get(name) is not None for name in _OF_CACHES)


def refuse_recorded(*tensors: Tensor) -> None:
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise RefusedError(
            "autograd does not record that new tokens are written into a KV cache: call it under torch.no_grad(), or "
            "pass detached tensors"
        )


def attention_appended(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], outputs: dict[str, Any]) -> Any:
    """The results of `attention` with new tokens, computed by the operator."""
    refuse_own_functions({"q": q, "k": k, "v": v, **options})
    refuse_row_max(outputs)
    if outputs["dropout_mask"]:
        raise RefusedError(
            "dropout_mask cannot be returned together with new tokens where PyTorch compiles or traces: leave it "
            "out, or call regard.torch.append first"
        )
    options = {name: option for name, option in options.items() if option is not None}
    options |= {"out": outputs["out"]} if "out" in outputs else {}
    k_new, v_new = options.pop("k_new"), options.pop("v_new")
    o, lse = _attention_op(q, k, v, k_new, v_new, *_encoded(options, written_factors(options), k))
    return (o, lse) if outputs["lse"] else o


def written_factors(options: dict[str, Any]) -> tuple[Tensor | None, Tensor | None]:
    """descale_k and descale_v if these are factors for each token, which the call writes."""
    factors = options.get("descale_k"), options.get("descale_v")
    return factors if options.get("descale") == "token" else (None, None)


def _encoded(options: dict[str, Any], factors: tuple[Tensor | None, Tensor | None], like: Tensor) -> tuple[Any, ...]:
    if factors != (None, None):
        options = {name: option for name, option in options.items() if name not in ("descale_k", "descale_v")}
    encoded = encode(options)
    return (*factors, *(without_empty_lists(encoded, like) if torch.compiler.is_exporting() else encoded))


def _decoded(descale_k: Tensor | None, descale_v: Tensor | None, *encoded: Any) -> dict[str, Any]:
    options = {name: bare(option) for name, option in decode(*encoded).items()}
    factors = {"descale_k": descale_k, "descale_v": descale_v}
    return {**options, **{name: bare(factor) for name, factor in factors.items() if factor is not None}}


def _run_append(
    k: Tensor,
    v: Tensor,
    k_new: Tensor,
    v_new: Tensor,
    descale_k: Tensor | None,
    descale_v: Tensor | None,
    tensors: Sequence[Tensor],
    whole: Sequence[int],
    real: Sequence[float],
    text: str,
) -> None:
    options = _decoded(descale_k, descale_v, tensors, whole, real, text)
    run_call("append", {"k": bare(k), "v": bare(v), "k_new": bare(k_new), "v_new": bare(v_new)}, options, {})
    written(k, v, descale_k, descale_v)


def _run_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    k_new: Tensor,
    v_new: Tensor,
    descale_k: Tensor | None,
    descale_v: Tensor | None,
    tensors: Sequence[Tensor],
    whole: Sequence[int],
    real: Sequence[float],
    text: str,
) -> tuple[Tensor, Tensor]:
    options = _decoded(descale_k, descale_v, tensors, whole, real, text)
    outputs = {"lse": True, **({"out": options.pop("out")} if "out" in options else {})}
    options |= {"k_new": bare(k_new), "v_new": bare(v_new)}
    o, lse = run_call("fwd", {"q": bare(q), "k": bare(k), "v": bare(v)}, options, outputs)
    written(k, v, descale_k, descale_v)
    return o, lse


def _append_without_memory(k: Tensor, v: Tensor, k_new: Tensor, v_new: Tensor, *encoded: Any) -> None:
    refuse_devices({"q": k_new, "k": k, "v": v, "v_new": v_new, **_decoded(*encoded)})


def _attention_without_memory(
    q: Tensor, k: Tensor, v: Tensor, k_new: Tensor, v_new: Tensor, *encoded: Any
) -> tuple[Tensor, Tensor]:
    options = _decoded(*encoded)
    refuse_devices({"q": q, "k": k, "v": v, "k_new": k_new, "v_new": v_new, **options})
    sizes = Sizes(q, k, v, options)
    return sizes.o(), sizes.lse()


torch.library.impl(APPEND, _DEVICES, _run_append)
torch.library.impl(ATTENTION, _DEVICES, _run_attention)
torch.library.register_fake(APPEND, _append_without_memory)
torch.library.register_fake(ATTENTION, _attention_without_memory)
