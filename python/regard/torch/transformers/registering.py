"""The name by which models request Regard."""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface

from .attention import attention_forward
from .making import mask_of


def register(name: str = "regard") -> None:
    """Registers attn_implementation=name with transformers, for every model that uses attention functions."""
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, mask_of)
