"""The model classes of the installed transformers, each small and with random weights."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import torch
from transformers import PreTrainedModel

from .special import WEIGHTS
from .tiny import shrunk

LARGEST = 20_000_000  # of a tiny model, at most


def classes(module: str) -> list[type[PreTrainedModel]]:
    """Classes that the module defines, and that define forward themselves."""
    found = vars(importlib.import_module(module)).values()
    return [
        x
        for x in found
        if inspect.isclass(x)
        and issubclass(x, PreTrainedModel)
        and x.__module__ == module
        and x.config_class is not None
        and x.forward is not torch.nn.Module.forward
    ]


def config_of(kind: type[PreTrainedModel], **changes: Any) -> Any:
    config_class = kind.config_class
    values = {**shrunk(config_class().to_dict()), **changes}
    values.pop("model_type", None)
    return config_class(**values)


def model_of(kind: type[PreTrainedModel], **changes: Any) -> PreTrainedModel:
    """Weights that are larger than usual give scores that differ, and gates, sinks and scales that matter."""
    config = config_of(kind, **changes)
    with torch.device("meta"):
        size = sum(x.numel() for x in kind(config).parameters())
    if size > LARGEST:
        raise ValueError(f"it has {size:,} parameters with a tiny configuration")
    torch.manual_seed(0)
    model = kind(config).eval()
    scale = WEIGHTS.get(config.model_type, 1.5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and parameter.numel():
                parameter.normal_(std=scale / parameter[0].numel() ** 0.5)
            else:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model
