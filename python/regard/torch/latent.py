"""Latent attention, where v is the first columns of k, and append to its cache: forward only, also as operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..call import run_call
from ..errors import RefusedError
from ..kv_cache import refuse_no_values
from .autograd import refuse_row_max, refuse_tangents, refuse_to_write
from .batching import each_rule
from .encoding import SCHEMA, decode, encode, without_empty_lists
from .operators import nothing, refuse_devices
from .profiling import FORWARD, is_profiled, shown
from .randomness import seed
from .shapes import Sizes
from .tensors import bare, is_eager, refuse_own_functions, refuse_types, written

ATTENTION, APPENDED, APPEND = "regard::latent_attention", "regard::latent_attention_appended", "regard::latent_append"
_CACHE = "Tensor(a!) k, Tensor(b!)? k_rope, Tensor k_new, Tensor(c!)? descale_k"  # factors of columns are written
_TAGS = (torch.Tag.pt2_compliant_tag,)
_DEVICES = ("cpu", "cuda")

torch.library.define(ATTENTION, f"(Tensor q, Tensor k, {SCHEMA}) -> (Tensor, Tensor, Tensor)", tags=_TAGS)
torch.library.define(APPENDED, f"(Tensor q, {_CACHE}, {SCHEMA}) -> (Tensor, Tensor)", tags=_TAGS)
torch.library.define(APPEND, f"({_CACHE}, {SCHEMA}) -> ()", tags=_TAGS)
_attention_op = torch.ops.regard.latent_attention.default
_appended_op = torch.ops.regard.latent_attention_appended.default
_append_op = torch.ops.regard.latent_append.default


def latent_attention(
    q: Tensor,
    k: Tensor,
    outputs: dict[str, Any],
    generator: torch.Generator | None,
    options: dict[str, Any],
) -> Any:
    """`attention` with v=None."""
    refuse_no_values(options)
    appends = options.get("k_new") is not None
    if appends:
        refuse_types(k_new=options["k_new"])
    _refuse_gradients(q, k, *options.values())
    if "dropout" in options or generator is not None:
        seed(options, q, generator)
    if "out" in options:
        out = options.pop("out")
        outputs["out" if isinstance(out, str) else "o"] = out
    if not is_eager(q):
        refuse_to_write(outputs)
        return _appended(q, k, options, outputs) if appends else _operated(q, k, options, outputs)
    options = {name: bare(option) for name, option in options.items()}
    run = shown(run_call, FORWARD, q, k, k) if is_profiled() else run_call
    results = run("fwd", {"q": bare(q), "k": bare(k)}, options, outputs)
    written(*outputs.values())
    if appends:
        written(k, options.get("k_rope"), _written_factors(k, options))
    return results


def latent_append(k: Tensor, k_new: Tensor, options: dict[str, Any]) -> None:
    """`append` with v=None and v_new=None."""
    refuse_types(k=k, k_new=k_new)
    _refuse_gradients(k, k_new, options.get("k_rope"))
    if is_eager(k_new):
        run_call("append", {"k": bare(k), "k_new": bare(k_new)}, {name: bare(x) for name, x in options.items()}, {})
        return written(k, options.get("k_rope"), _written_factors(k, options))
    refuse_own_functions({"k": k, "k_new": k_new, **options})
    _append_op(*_encoded_cache(k, {**options, "k_new": k_new}))


def _refuse_gradients(*given: Any) -> None:
    if forward_ad._current_level >= 0:
        refuse_tangents(*given)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given if isinstance(tensor, Tensor)):
        raise RefusedError(
            "latent attention (v=None) has no gradients: call it under torch.no_grad(), or pass v, k[..., :dv], as a "
            "tensor of its own"
        )


def _operated(q: Tensor, k: Tensor, options: dict[str, Any], outputs: dict[str, Any]) -> Any:
    refuse_own_functions({"q": q, "k": k, **options})
    refuse_row_max(outputs)
    requested = {name: word for name, word in outputs.items() if name != "lse" and word is not False}
    o, lse, mask = _attention_op(q, k, *_encoded(options | requested, q))
    results = (o, *([lse] if outputs["lse"] else []), *([mask] if outputs["dropout_mask"] else []))
    return results if len(results) > 1 else o


def _appended(q: Tensor, k: Tensor, options: dict[str, Any], outputs: dict[str, Any]) -> Any:
    refuse_own_functions({"q": q, "k": k, **options})
    refuse_row_max(outputs)
    if outputs["dropout_mask"]:
        raise RefusedError(
            "dropout_mask cannot be returned together with new tokens where PyTorch compiles or traces: leave it "
            "out, or call regard.torch.append first"
        )
    word = {"out": outputs["out"]} if "out" in outputs else {}
    o, lse = _appended_op(q, *_encoded_cache(k, options | word))
    return (o, lse) if outputs["lse"] else o


def _written_factors(k: Tensor, options: dict[str, Any]) -> Tensor | None:
    """The factors of columns, which have as many dimensions as k."""
    factors = options.get("descale_k")
    return factors if isinstance(factors, Tensor) and factors.dim() == k.dim() else None


def _encoded(options: dict[str, Any], like: Tensor) -> tuple[Any, ...]:
    encoded = encode({name: option for name, option in options.items() if option is not None})
    return without_empty_lists(encoded, like) if torch.compiler.is_exporting() else encoded


def _encoded_cache(k: Tensor, options: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of operators that change the cache."""
    factors = _written_factors(k, options)
    apart = ("k_new", "k_rope", *(["descale_k"] if factors is not None else []))
    others = {name: option for name, option in options.items() if name not in apart}
    return k, options.get("k_rope"), options["k_new"], factors, *_encoded(others, k)


def _decoded_cache(
    k: Tensor, k_rope: Tensor | None, k_new: Tensor, descale_k: Tensor | None, *encoded: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs k and k_new, and the options."""
    options = {**decode(*encoded), "k_rope": k_rope, "descale_k": descale_k}
    options = {name: bare(option) for name, option in options.items() if option is not None}
    return {"k": bare(k), "k_new": bare(k_new)}, options


def _run(
    q: Tensor, k: Tensor, tensors: Sequence[Tensor], whole: Sequence[int], real: Sequence[float], text: str
) -> tuple[Tensor, Tensor, Tensor]:
    options = {name: bare(option) for name, option in decode(tensors, whole, real, text).items()}
    outputs: dict[str, Any] = {"lse": True}
    outputs.update({name: options.pop(name) for name in ("dropout_mask", "out") if name in options})
    o, lse, *mask = run_call("fwd", {"q": bare(q), "k": bare(k)}, options, outputs)
    return o, lse, mask[0] if mask else nothing(q, torch.uint8)


def _run_appended(q: Tensor, k: Tensor, k_rope: Tensor | None, *others: Any) -> tuple[Tensor, Tensor]:
    inputs, options = _decoded_cache(k, k_rope, *others)
    outputs = {"lse": True, **({"out": options.pop("out")} if "out" in options else {})}
    o, lse = run_call("fwd", {"q": bare(q), "k": inputs["k"]}, {**options, "k_new": inputs["k_new"]}, outputs)
    written(k, k_rope, _written_factors(k, options))
    return o, lse


def _run_append(k: Tensor, k_rope: Tensor | None, *others: Any) -> None:
    inputs, options = _decoded_cache(k, k_rope, *others)
    run_call("append", inputs, options, {})
    written(k, k_rope, _written_factors(k, options))


def _without_memory(q: Tensor, k: Tensor, *encoded: Any) -> tuple[Tensor, Tensor, Tensor]:
    options = decode(*encoded)
    refuse_devices({"q": q, "k": k, **options})
    sizes = _sizes(q, k, options)
    mask = sizes.dropout_mask() if options.get("dropout_mask") else nothing(q, torch.uint8)
    return sizes.o(), sizes.lse(), mask


def _appended_without_memory(q: Tensor, k: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    inputs, options = _decoded_cache(k, *others)
    refuse_devices({"q": q, **inputs, **options})
    sizes = _sizes(q, k, options)
    return sizes.o(), sizes.lse()


def _append_without_memory(k: Tensor, *others: Any) -> None:
    inputs, options = _decoded_cache(k, *others)
    refuse_devices({"q": inputs["k_new"], **inputs, **options})


def _sizes(q: Tensor, k: Tensor, options: dict[str, Any]) -> Sizes:
    return Sizes(q, k, k if "k_rope" in options else k[..., : options["dv"]], options)


for _name, _implementation, _fake in (
    (ATTENTION, _run, _without_memory),
    (APPENDED, _run_appended, _appended_without_memory),
    (APPEND, _run_append, _append_without_memory),
):
    torch.library.impl(_name, _DEVICES, _implementation)
    torch.library.register_fake(_name, _fake)
torch.library.register_vmap(ATTENTION, each_rule(_attention_op, _without_memory))
