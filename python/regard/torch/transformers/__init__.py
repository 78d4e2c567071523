"""Attention for the models of Hugging Face's transformers, through its registry of attention functions.

import regard.torch.transformers
regard.torch.transformers.register()
model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="regard")
"""

from .version import refuse_old_transformers

refuse_old_transformers()

from .registering import register  # noqa: E402

__all__ = ["register"]
