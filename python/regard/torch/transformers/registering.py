"""The name by which models ask for Regard."""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface

from .attention import attention_forward
from .making import mask_of


def register(name: str = "regard") -> None:
    """Makes attn_implementation=name known to transformers, for every model that takes attention functions."""
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, mask_of)
