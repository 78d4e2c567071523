"""Exceptions to the rules for small configurations: sizes that match each other, by model type."""

from __future__ import annotations

from typing import Any

TIME_SERIES: dict[str, Any] = {"prediction_length": 4, "context_length": 8}
ROTATION: dict[str, Any] = {"rope_type": "default", "rope_theta": 10000.0}
AXES = {"rope_parameters": {**ROTATION, "partial_rotary_factor": 1.0, "mrope_section": [2, 1, 1]}}
SPECIAL: dict[str, dict[str, Any]] = {
    "autoformer": TIME_SERIES,
    "bamba": {"attn_layer_indices": [1]},
    "bridgetower_vision_model": {"hidden_size": 64},
    "chameleon": {"vocabulary_map": {"<image>": 90, "IMGIMGA": 91}},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROTATION, "sliding_attention": ROTATION}},
    "deepseek_ocr2_text": {"num_experts_per_tok": 2, "mlp_layer_types": ["dense", "sparse"]},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "ernie4_5_vl_moe_text": {"rope_parameters": {**ROTATION, "mrope_section": [1, 1, 2]}},
    "esm": {"vocab_size": 99, "pad_token_id": 0, "mask_token_id": 98},
    "falcon_h1": {"mamba_d_ssm": 64},
    "gemma4_text": {
        **{"num_hidden_layers": 4, "num_kv_shared_layers": 2, "per_layer_config": {}},
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "glm4v_text": AXES,
    "glm4v_moe_text": AXES,
    "glm_image_text": AXES,
    "glm_ocr_text": AXES,
    "glm5_next": {"index_topk": 16},
    "glm5_next_text": {"index_topk": 16},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "hunyuan_vl_text": AXES,
    "informer": TIME_SERIES,
    "layoutlmv3": {"coordinate_size": 4, "shape_size": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lilt": {"hidden_size": 48},
    "mamba2": {"num_heads": 8},
    "mistral4": {"qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "qk_head_dim": 8},
    "mobilebert": {"intra_bottleneck_size": 32, "embedding_size": 32},
    "moonshine": {"encoder_num_key_value_heads": 4, "decoder_num_key_value_heads": 4},
    "neomme": {"head_dim": 16},
    "paddleocr_vl_text": AXES,
    "qwen2_vl_text": AXES,
    "qwen2_5_vl_text": AXES,
    "step3p7_text": {"sliding_window": 4},
    "time_series_transformer": TIME_SERIES,
    "xmod": {"default_language": "en_XX"},
    "zamba2": {"attention_hidden_size": 64, "attention_head_dim": 16, "mamba_headdim": 16},
}
# Scale of random weights, as a multiple of 1 / sqrt(inputs). Large ones amplify rounding in layers without norms.
WEIGHTS = {"mobilebert": 0.5}

OCR = "eager attention and sdpa differ too, as tokens see the left padding of an earlier part"
PROMPT = (
    "without decoder_attention_mask its decoder sees the rows of padding of the prompt, of which nothing is promised"
)
POOLED = "texts are pooled from their first token, which is padding, and every output depends on every text"
# By class and condition: where Regard's result differs from eager attention's, and why it stays so.
DIFFERENT: dict[str, dict[str, str]] = {
    "DiffusionGemmaForBlockDiffusion": {"left": PROMPT, "right": PROMPT},
    "DiffusionGemmaModel": {"left": PROMPT, "right": PROMPT},
    "PeAudioFrameLevelModel": {"left": POOLED},
    "PeAudioModel": {"left": POOLED},
    "UnlimitedOcrTextModel": {"chunks": OCR},
    "UnlimitedOcrModel": {"chunks": OCR},
    "UnlimitedOcrForConditionalGeneration": {"chunks": OCR},
}
