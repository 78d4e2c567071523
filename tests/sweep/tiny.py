"""Makes transformers configurations small, by the names of their numbers, for any model."""

from __future__ import annotations

import re
from typing import Any

from .special import SPECIAL

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 32, 4, 2, 8, 99
LARGE = 1000  # not made smaller

# The first pattern that matches a name gives its number. Names without a match keep theirs.
NUMBERS: list[tuple[str, int]] = [
    (r".*vocab(ulary)?_size|.*_vocab|num_embeddings|vocab_size_per_layer_input|n_tokens", VOCABULARY),
    (
        r".*(num|n)_(key_value|kv|global_key_value)_heads|num_key_value_heads|attention_kv_heads|n_head_kv|num_kv_heads",
        KV_HEADS,
    ),
    (r"(num|n)_key_value_groups", HEADS // KV_HEADS),
    (r".*codebook_size", 64),
    (r"mamba_(n|num)_heads", 2 * HEADS),
    (r"num_feat_extract_layers|num_conv.*layers|num_adapter_layers", LARGE),
    (r"(num|n)_.*heads?$|(num|n)_heads?$|.*attention_heads|^heads$|.*_n_heads|.*num_heads", HEADS),
    (r".*(first_k_dense|decoder_sparse_step|interval|_period|_stride_layers|_every_n.*)", 2),
    (r".*expand$", 2),
    (r"n_group|num_expert_groups?|topk_group|.*offset", 1),
    (
        r"(num|n)_(experts_per_tok|.*topk|activated_experts)|moe_topk|moe_k|top_?k(_experts)?|num_experts_per_.*|experts_top_k",
        2,
    ),
    (r".*(n|num)_.*experts?|moe_num_experts|num_shared.*|zero_expert_num", 4),
    (r"num_kv_shared_layers", 1),
    (r".*num_.*layers|.*n_layers?|.*_layers|num_.*blocks|.*_depth|^depth$|num_stages", 2),
    (r".*index_topk.*|sparse_topk.*", 4),
    (r".*head_dim.*|d_kv|.*d_head|kv_channels|attention_key_dim|rope_dim|rotary_dim|.*head_size|.*qkv_dim", HEAD_DIM),
    (r".*lora_rank|.*low_rank.*|.*_rank", 16),
    (
        r"(.*_)?(hidden_size|d_model|n_embd|dim|embed_dim|hidden_dim|embedding_size|emb_dim|width|out_hidden_size|hidden_size_.*)",
        HIDDEN,
    ),
    (
        r"(.*_)?(intermediate_size|ffn_dim|d_ff|n_inner|ff_dim|ffn_hidden_size|mlp_dim|feed_forward.*|ffn_.*size|.*mlp_hidden.*|mlp_.*size)",
        HIDDEN,
    ),
    (
        r".*projection_(dim|size)|.*output_(dim|size)|.*proj_(dim|size)|out_channels|decoder_hidden_.*|conv_dim|.*_embed_dim|.*embed_size",
        HIDDEN,
    ),
    (r"(.*_)?image_size|img_size|input_size", 32),
    (r"(.*_)?patch_size", 8),
    (
        r"max_.*position.*|n_positions|n_ctx|max_sequence_length|.*max_(text_)?len(gth)?|max_seq.*|.*max_target.*|.*max_source.*",
        128,
    ),
    (r".*(sliding_window|local_attention|window_size_left|attention_window)(_size)?", 4),
    (r".*attention_chunk_size", 4),
    (r".*(num_.*quer(y|ies)|num_latents|query_length|num_query.*)", 4),
    (r"mamba_n_groups|n_groups|num_.*groups|.*_groups", 2),
    (r".*state_size|.*d_state|ssm_state.*", 8),
    (r".*chunk_size", 8),
]
NOT_SIZES = {  # independent, or derived from the others
    *("id2label", "label2id", "num_labels", "transformers_version", "dtype", "architectures", "_name_or_path"),
    *("out_features", "out_indices", "stage_names"),
}


def number(name: str, value: int) -> int:
    for pattern, small in NUMBERS:
        if re.fullmatch(pattern, name):
            return min(value, small) if value > 0 else value
    return value


def shrunk(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a configuration and of those inside it."""
    values = {name: value for name, value in values.items() if name not in NOT_SIZES}
    kept = keep_layers(values)
    equal_heads = values.get("num_key_value_heads") == values.get("num_attention_heads")
    for name, value in values.items():
        if name == kept:
            continue
        if isinstance(value, dict):
            if "rope" in name:
                values[name] = rotation(value)
            elif name.endswith("_config") and name != "per_layer_config":
                values[name] = shrunk(value)
        elif isinstance(value, bool) or name.endswith("_token_id") or "token_index" in name:
            continue
        elif isinstance(value, int):
            values[name] = number(name, value)
        elif isinstance(value, (list, tuple)) and value and all(type(x) is int for x in value):
            values[name] = [number(name.removesuffix("s"), x) if len(value) <= 4 else x for x in value]
    if "head_dim" in values and values["head_dim"] is None:
        values["head_dim"] = HEAD_DIM
    if "qk_head_dim" in values and "qk_rope_head_dim" in values:
        values["qk_head_dim"] = values["qk_nope_head_dim"] + values["qk_rope_head_dim"]
    if "num_key_value_heads" in values and values["num_key_value_heads"] is None:
        values["num_key_value_heads"] = HEADS
    if equal_heads and "num_attention_heads" in values:
        values["num_key_value_heads"] = values["num_attention_heads"]
    tokens(values)
    return {**values, **SPECIAL.get(values.get("model_type", ""), {})}


def keep_layers(values: dict[str, Any]) -> str | None:
    """One layer of each kind, two at least and four at most; with the name of their number."""
    for counter in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
        count = values.get(counter)
        if isinstance(count, int) and count > 0:
            break
    else:
        return None
    lists = {name: x for name, x in values.items() if isinstance(x, (list, tuple)) and len(x) == count and count > 4}
    kinds = {name: x for name, x in lists.items() if "type" in name or "pattern" in name or "layer" in name}
    found: dict[Any, int] = {}
    for layer in range(count):
        found.setdefault(tuple(str(x[layer]) for x in kinds.values()), layer)
    kept = sorted([*found.values()][:4])
    kept += [layer for layer in range(min(count, 2)) if layer not in kept][: max(0, 2 - len(kept))]
    kept.sort()
    for name, x in lists.items():
        values[name] = [x[layer] for layer in kept]
    if isinstance(values.get("per_layer_config"), dict):
        different = {int(layer): x for layer, x in values["per_layer_config"].items()}
        values["per_layer_config"] = {
            at: shrunk(different[layer]) for at, layer in enumerate(kept) if layer in different
        }
    values[counter] = len(kept)
    return counter


def rotation(values: dict[str, Any]) -> dict[str, Any]:
    """For positions with several axes, sections are parts of half a head."""
    values = {name: rotation(x) if isinstance(x, dict) else x for name, x in values.items()}
    sections = values.get("mrope_section")
    if sections:
        half = HEAD_DIM // 2
        values["mrope_section"] = (
            [half - 2 * (half // 3), half // 3, half // 3] if len(sections) == 3 else [half // 2] * 2
        )
    return values


def tokens(values: dict[str, Any]) -> None:
    """Puts special tokens at the end of the vocabulary, each with its own number."""
    at = VOCABULARY - 1
    for name, value in values.items():
        if (name.endswith("_token_id") or name.endswith("token_index")) and value is not None:
            values[name] = [at] if isinstance(value, (list, tuple)) else at
            at -= 1
    if "pad_token_id" in values:
        values["pad_token_id"] = 0
