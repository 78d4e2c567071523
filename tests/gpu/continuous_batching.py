"""Tokens of a small model by transformers' continuous batching, with regard.flash_attn in place of flash_attn, and of
one request after the other with "eager". Prints both as JSON, and how often each function of flash_attn was called.

    python tests/gpu/continuous_batching.py FAMILY DEVICE

A process of its own, since transformers looks for flash_attn once.
"""

from __future__ import annotations

import collections
import functools
import json
import sys
from inspect import signature
from pathlib import Path

import torch

import regard.flash_attn

regard.flash_attn.register()
import flash_attn  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

PROMPTS = [[5, 6, 7, 9, 4, 4, 8], [8], [13, 4, 21], list(range(3, 29))]
FUNCTIONS = ("flash_attn_varlen_func", "flash_attn_with_kvcache")


def count(calls: collections.Counter[str], name: str) -> None:
    function = getattr(flash_attn, name)

    @functools.wraps(function)  # transformers reads the names of the arguments
    def counted(*arguments, **options):
        calls[name] += 1
        return function(*arguments, **options)

    setattr(flash_attn, name, counted)


def main(family: str, device: str) -> None:
    calls: collections.Counter[str] = collections.Counter()
    for name in FUNCTIONS:
        count(calls, name)
    from transformers import ContinuousBatchingConfig, GenerationConfig

    from tests.python.torch_front.tiny_models import model_of

    model = model_of(family, attn_implementation="eager").to(device)
    words = GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=-1, pad_token_id=0)
    expected = [
        model.generate(torch.tensor([prompt], device=device), generation_config=words)[0, len(prompt) :].tolist()
        for prompt in PROMPTS
    ]
    model.set_attn_implementation("flash_attention_2")
    # Earlier releases say block_size.
    page = next(name for name in ("page_size", "block_size") if name in signature(ContinuousBatchingConfig).parameters)
    small = ContinuousBatchingConfig(**{page: 16}, num_blocks=32, max_batch_tokens=16, max_blocks_per_request=4)
    found = model.generate_batch(
        inputs=PROMPTS, generation_config=words, continuous_batching_config=small, progress_bar=False
    )
    tokens = [request.generated_tokens for request in found.values()]
    print(json.dumps({"expected": sorted(expected), "found": sorted(tokens), "calls": calls}))


if __name__ == "__main__":
    main(*sys.argv[1:])
