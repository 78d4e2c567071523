"""What the backend imports of vLLM 0.32, without vLLM: modules with the same names, and classes without functions."""

from __future__ import annotations

import sys
import types
from enum import Enum
from types import SimpleNamespace


class AttentionType(str, Enum):
    DECODER = "decoder"
    ENCODER = "encoder"
    ENCODER_ONLY = "encoder_only"
    ENCODER_DECODER = "encoder_decoder"


class AttentionBackendEnum(Enum):
    CPU_ATTN = "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend"


class AttentionBackend:
    pass


class AttentionImpl:
    dcp_world_size = pcp_world_size = 1


class AttentionMetadataBuilder:
    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        pass


class Host:
    """The modules, and what a test can change: whether this is a CPU, the configuration, batch invariance."""

    def __init__(self) -> None:
        self.is_cpu, self.config = True, SimpleNamespace(kv_transfer_config=None)
        self.registered: dict[object, str] = {}
        self.envs = SimpleNamespace(VLLM_BATCH_INVARIANT=False)
        self.modules = {
            "vllm": {"__version__": "0.32.0", "envs": self.envs},
            "vllm.config": {"get_current_vllm_config_or_none": lambda: self.config},
            "vllm.platforms": {"current_platform": SimpleNamespace(is_cpu=lambda: self.is_cpu)},
            "vllm.v1": {},
            "vllm.v1.attention": {},
            "vllm.v1.attention.backend": {
                "AttentionBackend": AttentionBackend,
                "AttentionCGSupport": Enum("AttentionCGSupport", ["NEVER", "ALWAYS"]),
                "AttentionImpl": AttentionImpl,
                "AttentionMetadataBuilder": AttentionMetadataBuilder,
                "AttentionType": AttentionType,
            },
            "vllm.v1.attention.backends": {},
            "vllm.v1.attention.backends.registry": {
                "AttentionBackendEnum": AttentionBackendEnum,
                "register_backend": self.registered.__setitem__,
            },
            "vllm.v1.kv_cache_interface": {"KVCacheLayout": Enum("KVCacheLayout", ["LBHNC", "LBNHC"])},
        }

    def install(self) -> None:
        for name, contents in self.modules.items():
            module = types.ModuleType(name)
            module.__path__ = []
            vars(module).update(contents)
            sys.modules[name] = module

    def remove(self) -> None:
        for name in list(sys.modules):
            if name in self.modules or name == "regard.vllm" or name.startswith("regard.vllm."):
                del sys.modules[name]
