"""The conditions under which a model is called; each returns the tensors to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import StaticCache

from .inputs import BATCH, DECODED, LENGTH, parameters

PADDED = {"left": slice(0, 3), "right": slice(-3, None), "gaps": [2, 6]}  # of the first sequence


class NotApplicable(Exception):
    """The condition does not apply to the model."""


def attention_mask(kind: str) -> torch.Tensor:
    mask = torch.ones(BATCH, LENGTH, dtype=torch.int64)
    mask[0, PADDED[kind]] = 0
    return mask


def output(result: Any) -> torch.Tensor:
    """The first floating-point tensor, which is the model's main output."""
    for value in result.to_tuple() if hasattr(result, "to_tuple") else result:
        if isinstance(value, torch.Tensor):
            if value.is_floating_point():
                return value
        elif isinstance(value, (list, tuple)):
            return output(value)
    raise LookupError("its output has no tensor of numbers")


def seen(result: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Without rows of padding, whose contents are unspecified."""
    if result.shape[:2] == mask.shape:
        return result[mask.bool()]
    # Decoders' outputs have no padding; a pooled output may be taken from a padding row.
    return result if result.ndim > 2 and result.shape[1] == DECODED else result[1:]


def need(model: torch.nn.Module, *names: str) -> None:
    missing = [name for name in names if name not in parameters(model)]
    if missing:
        raise NotApplicable(f"its forward has no {missing[0]}")


def plain(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    return output(model(**inputs))


def padded(kind: str) -> Callable[..., torch.Tensor]:
    def call(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        need(model, "input_ids", "attention_mask")
        mask = attention_mask(kind)
        tokens = inputs["input_ids"].masked_fill(mask == 0, 0) if inputs["input_ids"].ndim == 2 else inputs["input_ids"]
        return seen(output(model(**{**inputs, "input_ids": tokens, "attention_mask": mask})), mask)

    return call


def packed(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    need(model, "input_ids", "position_ids")
    if inputs["input_ids"].ndim != 2:
        raise NotApplicable("it takes several texts of each example")
    positions = torch.tensor([[*range(4), *range(5), *range(2)]]).expand(BATCH, -1)
    extra = {"use_cache": False} if "use_cache" in parameters(model) else {}
    return output(model(**inputs, position_ids=positions, **extra))


def decoder(model: torch.nn.Module) -> None:
    need(model, "input_ids", "cache")
    if "decoder_input_ids" in parameters(model):
        raise NotApplicable("its cache is of another sequence than input_ids")


def chunks(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    """A prompt in two parts, then a token."""
    decoder(model)
    cache, found, mask = None, [], attention_mask("left")
    for begin, end in ((0, 6), (6, 10), (10, 11)):
        result = model(
            input_ids=inputs["input_ids"][:, begin:end], attention_mask=mask[:, :end], cache=cache, use_cache=True
        )
        cache = result.cache
        found.append(seen(output(result), mask[:, begin:end]))
    return torch.cat([x.flatten() for x in found])


def static(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    """A cache of fixed size, filled by a prompt, a part of one, and a token."""
    decoder(model)
    cache, found = StaticCache(model.config, max_cache_len=16), []
    with torch.no_grad():  # its memory is written to in place
        for begin, end in ((0, 6), (6, 10), (10, 11)):
            found.append(output(model(input_ids=inputs["input_ids"][:, begin:end], cache=cache, use_cache=True)))
    return torch.cat([x.flatten() for x in found])


def kept(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    need(model, "input_ids", "logits_to_keep")
    return output(model(**inputs, logits_to_keep=3))


def both_sides(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    need(model, "input_ids")
    with setting(model, "is_causal", False):
        return output(model(**inputs))


@contextmanager
def setting(model: torch.nn.Module, name: str, value: Any) -> Iterator[None]:
    """In the configuration of each module."""
    configs = {id(x.config): x.config for x in model.modules() if hasattr(x, "config")}.values()
    before = [(config, config.__dict__.get(name)) for config in configs]
    for config in configs:
        setattr(config, name, value)
    try:
        yield
    finally:
        for config, old in before:
            if old is None:
                delattr(config, name)
            else:
                setattr(config, name, old)


CONDITIONS: dict[str, Callable[..., torch.Tensor]] = {
    "plain": plain,
    **{kind: padded(kind) for kind in PADDED},
    "packed": packed,
    "chunks": chunks,
    "static": static,
    "kept": kept,
    "both sides": both_sides,
}
