"""The name by which models request Regard."""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface

from .attention import attention_forward
from .making import mask_of
from .paged import paged_attention_forward


def register(name: str = "regard") -> None:
    """Registers attn_implementation=name with transformers, for every model that uses attention functions."""
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, mask_of)


def register_paged() -> None:
    """Takes the place of "paged|eager", with which transformers' continuous batching (`generate_batch`) runs models
    that are loaded with attn_implementation="eager": it takes no name of one's own."""
    AttentionInterface.register("paged|eager", paged_attention_forward)
