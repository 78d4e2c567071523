"""An attention backend of vLLM, which finds it as a plugin: the entry point `regard` of `vllm.general_plugins`.

On a CPU it takes the place of vLLM's own backend; on a GPU it is chosen by --attention-backend REGARD.
"""

from ..hosts import require

require("regard.vllm", "vllm")

from .register import register  # noqa: E402

del require

__all__ = ["register"]
