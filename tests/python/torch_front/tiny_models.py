"""Models of transformers, small and with random weights, and batches for them."""

from __future__ import annotations

import torch
import transformers

SIZES = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
WINDOW = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
FAMILIES = {
    "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig(**SIZES, **HEADS)),
    "gemma 2": (
        transformers.Gemma2ForCausalLM,
        transformers.Gemma2Config(**SIZES, **HEADS, **WINDOW, attn_logit_softcapping=0.5, query_pre_attn_scalar=16),
    ),
    "gpt-oss": (transformers.GptOssForCausalLM, transformers.GptOssConfig(**SIZES, **HEADS, **WINDOW, **EXPERTS)),
    "bert": (
        transformers.BertForMaskedLM,
        transformers.BertConfig(**{**SIZES, "hidden_size": 64}, num_attention_heads=4),
    ),
}
DECODERS = [name for name in FAMILIES if name != "bert"]


def model_of(name, **changes):
    """Weights that are larger than usual give scores that differ, and soft caps and sinks that matter."""
    kind, config = FAMILIES[name]
    torch.manual_seed(0)
    model = kind(type(config)(**{**config.to_dict(), "initializer_range": 0.3, **changes}))
    for name, parameter in model.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(parameter)
    return model.eval()


def ids(batch=2, length=11):
    return torch.randint(3, 50, (batch, length), generator=torch.Generator().manual_seed(1))


def padding(kind, length=11):
    """attention_mask: 1 for tokens that are not padding."""
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[0, {"none": [], "left": [0, 1, 2], "right": [-1, -2, -3], "gaps": [2, 5], "one whole": slice(None)}[kind]] = 0
    return mask
