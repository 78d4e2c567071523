"""What vLLM calls in each of its processes."""

from __future__ import annotations

from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

NAME = "REGARD"  # for --attention-backend
_BACKEND = "regard.vllm.backend.RegardBackend"


def register() -> None:
    """From now on vLLM knows the backend REGARD, and chooses it on CPUs. It can be called again."""
    if NAME not in AttentionBackendEnum.__members__:
        register_backend(NAME, _BACKEND)
    register_backend(AttentionBackendEnum.CPU_ATTN, _BACKEND)  # on a CPU vLLM ignores other names
