"""Inputs of models, by the names of the parameters of their forward."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

BATCH, LENGTH, DECODED = 2, 11, 7


def parameters(model: torch.nn.Module) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(model.forward).parameters)


def field(config: Any, *names: str, default: Any = None) -> Any:
    """A field of the configuration, or of one inside it."""
    inside = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    for name in names:
        for place in (config, *inside):
            if getattr(place, name, None) is not None:
                return getattr(place, name)
    return default


def ids(model: torch.nn.Module, length: int) -> torch.Tensor:
    found = torch.randint(3, 60, (BATCH, length))
    end = field(model.config, "eos_token_id")
    if isinstance(end, int):
        found[:, 5] = end  # which some models look for; no condition turns it into padding
    return found[:, None].repeat(1, 3, 1) if type(model).__name__.endswith("ForMultipleChoice") else found


def vectors(model: torch.nn.Module, length: int = LENGTH) -> torch.Tensor:
    return torch.randn(BATCH, length, field(model.config, "hidden_size", "d_model", "n_embd", default=32))


def pictures(model: torch.nn.Module) -> torch.Tensor:
    config = model.config
    size = field(config, "image_size", "img_size", "input_size", default=32)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return torch.randn(BATCH, field(config, "num_channels", "in_channels", "in_chans", default=3), height, width)


def film(model: torch.nn.Module) -> torch.Tensor:
    frames = field(model.config, "num_frames", "frames_per_clip", default=4)
    return pictures(model).unsqueeze(1).repeat(1, frames, 1, 1, 1)


def spectrum(model: torch.nn.Module) -> torch.Tensor:
    bins = field(model.config, "num_mel_bins", "feature_size", "input_feat_per_channel", default=80)
    return torch.randn(BATCH, bins, 2 * field(model.config, "max_source_positions", default=64))


def sound(model: torch.nn.Module) -> torch.Tensor:
    if field(model.config, "max_length") and field(model.config, "num_mel_bins"):  # a spectrogram
        return torch.randn(BATCH, field(model.config, "max_length"), field(model.config, "num_mel_bins"))
    return torch.randn(BATCH, 2048)


def patches(model: torch.nn.Module) -> torch.Tensor:
    """In the form of models that take the grids of their images as an input."""
    config = model.config
    patch, channels = field(config, "patch_size", default=8), field(config, "in_channels", "num_channels", default=3)
    return torch.randn(BATCH * 16, channels * field(config, "temporal_patch_size", default=1) * patch * patch)


KNOWN: dict[str, Callable[[torch.nn.Module], torch.Tensor]] = {
    "input_ids": lambda model: ids(model, LENGTH),
    "decoder_input_ids": lambda model: ids(model, DECODED),
    "pixel_values": pictures,
    "pixel_values_videos": film,
    "input_features": spectrum,
    "input_values": sound,
    "inputs_embeds": vectors,
    "hidden_states": vectors,
    "encoder_hidden_states": vectors,
    "query_embeds": lambda model: vectors(model, 4),
    "bbox": lambda model: torch.tensor([10, 20, 30, 40]).expand(BATCH, LENGTH, -1),
    "attention_mask": lambda model: torch.ones(BATCH, LENGTH, dtype=torch.int64),
    "position_ids": lambda model: torch.arange(LENGTH)[None],
    "grid_thw": lambda model: torch.tensor([[1, 4, 4]] * BATCH),
}
MAIN = (
    "input_ids",
    "pixel_values",
    "pixel_values_videos",
    "input_features",
    "input_values",
    "inputs_embeds",
    "hidden_states",
)
BESIDE = (
    "pixel_values",
    "input_features",
    "input_values",
    "bbox",
    "attention_mask",
    "encoder_hidden_states",
    "decoder_input_ids",
)
# Inputs that some models take in another shape.
OTHERWISE: dict[str, Callable[[torch.nn.Module], torch.Tensor]] = {
    "input_features": lambda model: spectrum(model).mT,
    "input_values": lambda model: sound(model).unsqueeze(1),
    "pixel_values": film,
}


def candidates(model: torch.nn.Module) -> Iterator[dict[str, Callable[..., torch.Tensor]]]:
    """Candidate inputs: first the required ones, then with one more, then with two more."""
    names = parameters(model)
    kinds = {name for name, x in names.items() if x.kind is x.POSITIONAL_OR_KEYWORD}
    needed = [name for name, x in names.items() if name in kinds and x.default is inspect.Parameter.empty]
    unknown = [name for name in needed if name not in KNOWN]
    if unknown:
        raise LookupError(f"no input {unknown[0]} is known here")
    first = [model.main_input_name, *MAIN] if model.main_input_name in KNOWN else MAIN
    main = next((name for name in first if name in kinds), None)
    if main is None:
        raise LookupError(f"no input {model.main_input_name} is known here")
    chosen = {*needed, main} | ({"decoder_input_ids"} & kinds if main == "input_ids" else set())
    made = {name: KNOWN[name] for name in chosen}
    if "grid_thw" in made:
        made = {name: patches if name in ("hidden_states", "pixel_values") else make for name, make in made.items()}
    beside = [name for name in BESIDE if name in kinds and name not in made]
    yield made
    if "decoder_input_ids" in made:
        yield {name: make for name, make in made.items() if name != "decoder_input_ids"}
    for name, other in OTHERWISE.items():
        if name in made:
            yield {**made, name: other}
    for one in beside:
        yield {**made, one: KNOWN[one]}
    for at, one in enumerate(beside):
        for other in beside[at + 1 :]:
            yield {**made, one: KNOWN[one], other: KNOWN[other]}


def made(model: torch.nn.Module, makers: dict[str, Callable[..., torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: make(model) for name, make in sorted(makers.items())}
