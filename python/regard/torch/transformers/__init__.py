"""Attention for the models of Hugging Face's transformers, through its registry of attention functions.

import regard.torch.transformers
regard.torch.transformers.register()
model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="regard")
"""

from ...hosts import require

require("regard.torch.transformers", "transformers")

from .registering import register, register_paged  # noqa: E402

del require

__all__ = ["register", "register_paged"]
