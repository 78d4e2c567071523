"""Records what vLLM's builders of metadata for GPUs make, on CPU tensors, for tests of this backend without vLLM.

    record.py FILE

It needs the environment of whole.py beside it, whose model and prompts it serves, in chunks of 64 tokens with prefix
caching. The runner of batches for CPUs is that for GPUs with other buffers: each batch is made as it is, and padded as
for a full graph. The metadata of FlashAttention's builder and of Triton's are compared, and written as one JSON object
a line: what both hold.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import whole

STEPS, GRAPH_TOKENS, GRAPH_REQUESTS = 6, 64, 8
FIELDS = (
    "num_actual_tokens",
    "max_query_len",
    "max_seq_len",
    "query_start_loc",
    "seq_lens",
    "block_table",
    "slot_mapping",
    "causal",
)


def fields_of(metadata: Any) -> dict[str, Any]:
    values = {name: getattr(metadata, name) for name in FIELDS}
    return {name: x.tolist() if hasattr(x, "tolist") else x for name, x in values.items()}


def built(own: Any, common: Any) -> dict[str, Any]:
    """The fields of a batch by the builders for GPUs; `own` is the builder for CPUs in its place."""
    import torch
    from vllm.v1.attention.backends.flash_attn import FlashAttentionMetadataBuilder
    from vllm.v1.attention.backends.triton_attn import TritonAttentionMetadataBuilder

    described = (own.kv_cache_spec, own.layer_names, own.vllm_config, torch.device("cpu"))
    made = [
        fields_of(builder(*described).build(0, common))
        for builder in (FlashAttentionMetadataBuilder, TritonAttentionMetadataBuilder)
    ]
    if made[0] != made[1]:
        sys.exit(f"the two builders differ:\n{made[0]}\n{made[1]}")
    return {"num_reqs": common.num_reqs, **made[0]}


def record(found: list[dict[str, Any]]) -> None:
    """From now on each batch is recorded, up to STEPS."""
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionMetadataBuilder
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    of_runner, of_builder = GPUModelRunner._build_attention_metadata, CPUAttentionMetadataBuilder.build
    padded = False

    def build(self: Any, common_prefix_len: int, common: Any, fast_build: bool = False) -> Any:
        if len(found) < 2 * STEPS:
            found.append({"padded": padded, **built(self, common)})
        return None if padded else of_builder(self, common_prefix_len, common, fast_build)

    def build_both(self: Any, num_tokens: int, num_reqs: int, max_query_len: int, **named: Any) -> Any:
        nonlocal padded
        made = of_runner(self, num_tokens, num_reqs, max_query_len, **named)
        if len(found) < 2 * STEPS:
            slots, _ = self._get_slot_mappings(GRAPH_TOKENS, GRAPH_REQUESTS, num_tokens)
            sizes = {"num_tokens_padded": GRAPH_TOKENS, "num_reqs_padded": GRAPH_REQUESTS, "slot_mappings": slots}
            padded = True
            of_runner(self, num_tokens, num_reqs, max_query_len, **{**named, **sizes})
            padded = False
        return made

    GPUModelRunner._build_attention_metadata = build_both
    CPUAttentionMetadataBuilder.build = build


def main() -> None:
    os.environ |= {**whole.SERVER, "VLLM_PLUGINS": "", "VLLM_USE_V2_MODEL_RUNNER": "0"}
    from vllm import LLM, SamplingParams

    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        whole.write_model(Path(folder))
        server = LLM(folder, **whole.MODEL, **{**whole.SETTINGS["both"], "max_num_batched_tokens": GRAPH_TOKENS})
    record(found)
    sampling = SamplingParams(temperature=0, max_tokens=STEPS, ignore_eos=True, detokenize=False)
    server.generate([{"prompt_token_ids": prompt} for prompt in whole.prompts()], sampling)
    Path(sys.argv[1]).write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")


if __name__ == "__main__":
    main()
