"""The name by which models request Regard."""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface

from ...errors import wrong_type
from .attention import attention_forward
from .making import mask_of
from .paged import paged_attention_forward


def register(name: str = "regard") -> None:
    """Registers attn_implementation=name with transformers, for every model that uses attention functions.

    name: what `from_pretrained(..., attn_implementation=name)` and `model.set_attn_implementation(name)` then take; a
    function that was registered under it is replaced, even one of transformers' own, such as "sdpa".

    Returns nothing. Raises TypeError if name is not text, and ImportError on import if transformers is missing.
    Later calls of the model raise RefusedError (a NotImplementedError), with the reason, for what Regard does not
    compute.
    """
    if not isinstance(name, str):
        raise wrong_type(f"name is of type {type(name).__name__}; it must be text, such as 'regard'")
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, mask_of)


def register_paged() -> None:
    """Takes the place of "paged|eager", with which transformers' continuous batching (`generate_batch`) runs models
    that are loaded with attn_implementation="eager", as it takes no other name.

    Returns nothing. Raises ImportError on import if transformers is missing; calls raise as those of `register`.
    """
    AttentionInterface.register("paged|eager", paged_attention_forward)
