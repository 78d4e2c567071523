"""Every argument of flash_attn's functions changes the result, is known to be harmless, or is refused."""

import pytest

torch = pytest.importorskip("torch")
import regard.flash_attn as two  # noqa: E402
from argument_audit import Audit, cases, no_compiler, undecided  # noqa: E402, F401
from regard.flash_attn import flash_attn_interface as raw_two  # noqa: E402
from regard.flash_attn import v3 as three  # noqa: E402
from regard.flash_attn.cute import interface as four  # noqa: E402


def numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


Q, K, V = numbers(1, 2, 9, 4, 16), numbers(2, 2, 12, 2, 16), numbers(3, 2, 12, 2, 16)
SLOPES = numbers(5, 4).abs()
DENSE = {"q": Q, "k": K, "v": V}
ROWS = {"q": Q.flatten(0, 1), "k": K.flatten(0, 1), "v": V.flatten(0, 1)}
LENGTHS = {
    "cu_seqlens_q": torch.tensor([0, 9, 18], dtype=torch.int32),
    "cu_seqlens_k": torch.tensor([0, 12, 24], dtype=torch.int32),
    "max_seqlen_q": 9,
    "max_seqlen_k": 12,
}
SELF = numbers(6, 2, 9, 3, 4, 16)
USED = {"seqused_q": torch.tensor([9, 4], dtype=torch.int32), "seqused_k": torch.tensor([12, 7], dtype=torch.int32)}
TENSOR = torch.zeros(2, 2, dtype=torch.int32)

SCORES = {
    "dropout_p": 0.5,
    "softmax_scale": 0.3,
    "causal": True,
    "window_size": (2, 1),
    "softcap": 0.7,
    "alibi_slopes": SLOPES,
    "return_attn_probs": True,
}
HARMLESS = {"deterministic": True}

DESCALE = {f"{name}_descale": torch.full((2, 2), 0.5) for name in "qkv"}  # for 8-bit inputs, which these are not
SCORES_3 = {
    **{name: SCORES[name] for name in ("softmax_scale", "causal", "window_size", "softcap", "return_attn_probs")},
    "attention_chunk": 3,
}
HARMLESS_3 = {**HARMLESS, "num_splits": 3, "pack_gqa": True, "sm_margin": 4}  # how kernels divide their work

SCORES_4 = {
    **{name: SCORES[name] for name in ("softmax_scale", "causal", "softcap")},
    "window_size": (2, None),
    "learnable_sink": SLOPES.bfloat16(),
    "return_lse": True,
}
HARMLESS_4 = {**HARMLESS, "num_splits": 3, "pack_gqa": True}
REFUSED_4 = {
    "gather_kv_indices": TENSOR,
    "score_mod": max,
    "score_mod_bwd": max,
    "mask_mod": max,
    "aux_tensors": [TENSOR],
    "aux_scalars": (1,),
    "block_sparse_tensors": (TENSOR,),
}

SCORES_RAW = {
    **{name: SCORES[name] for name in ("dropout_p", "softmax_scale", "causal", "softcap", "alibi_slopes")},
    "window_size_left": 2,
    "window_size_right": 1,
}
NEUTRAL_RAW = {
    "dropout_p": 0.0,
    "softmax_scale": 0.25,
    "causal": False,
    "window_size_left": -1,
    "window_size_right": -1,
    "softcap": 0.0,
    "alibi_slopes": None,
}
OF_CACHES = (
    "k_new",
    "v_new",
    "cu_seqlens_k_new",
    "page_table",
    "kv_batch_idx",
    "leftpad_k",
    "rotary_cos",
    "rotary_sin",
    "seqlens_rotary",
    "scheduler_metadata",
)
CACHES = dict.fromkeys(OF_CACHES, TENSOR)

AUDITS = {
    "flash_attn_func": Audit(two.flash_attn_func, DENSE, SCORES, HARMLESS),
    "flash_attn_kvpacked_func": Audit(
        two.flash_attn_kvpacked_func, {"q": Q, "kv": torch.stack((K, V), 2)}, SCORES, HARMLESS
    ),
    "flash_attn_qkvpacked_func": Audit(two.flash_attn_qkvpacked_func, {"qkv": SELF}, SCORES, HARMLESS),
    "flash_attn_varlen_func": Audit(
        two.flash_attn_varlen_func, {**ROWS, **LENGTHS}, SCORES, HARMLESS, {"block_table": TENSOR}
    ),
    "flash_attn_varlen_kvpacked_func": Audit(
        two.flash_attn_varlen_kvpacked_func,
        {"q": ROWS["q"], "kv": torch.stack((ROWS["k"], ROWS["v"]), 1), **LENGTHS},
        SCORES,
        HARMLESS,
    ),
    "flash_attn_varlen_qkvpacked_func": Audit(
        two.flash_attn_varlen_qkvpacked_func,
        {"qkv": SELF.flatten(0, 1), "cu_seqlens": LENGTHS["cu_seqlens_q"], "max_seqlen": 9},
        SCORES,
        HARMLESS,
    ),
    "_flash_attn_forward": Audit(
        raw_two._flash_attn_forward,
        DENSE,
        SCORES_RAW,
        {"return_softmax": True},  # without dropout there is none
        neutral={**NEUTRAL_RAW, "return_softmax": False},
    ),
    "_flash_attn_varlen_forward": Audit(
        raw_two._flash_attn_varlen_forward,
        {**ROWS, **LENGTHS},
        {**SCORES_RAW, "seqused_k": USED["seqused_k"]},
        {"return_softmax": True, "zero_tensors": True},
        {"block_table": TENSOR, "leftpad_k": TENSOR, "num_splits": 2},
        neutral=NEUTRAL_RAW,
    ),
    "3 flash_attn_func": Audit(
        three.flash_attn_func, DENSE, {**SCORES_3, "qv": numbers(7, *Q.shape)}, HARMLESS_3, DESCALE
    ),
    "3 flash_attn_qkvpacked_func": Audit(
        three.flash_attn_qkvpacked_func,
        {"qkv": SELF.flatten(2, 3)},
        {**SCORES_3, "num_heads_q": 8},
        {**HARMLESS, "sm_margin": 4},
        DESCALE,
        neutral={"num_heads_q": 4},
    ),
    "3 flash_attn_varlen_func": Audit(
        three.flash_attn_varlen_func,
        {**ROWS, **LENGTHS},
        {**SCORES_3, **USED, "qv": numbers(7, *ROWS["q"].shape)},
        HARMLESS_3,
        DESCALE,
    ),
    "3 _flash_attn_forward": Audit(
        three._flash_attn_forward,
        DENSE,
        {
            **USED,
            **{name: SCORES[name] for name in ("softmax_scale", "causal", "softcap")},
            "window_size_left": 2,
            "window_size_right": 1,
            "attention_chunk": 3,
            "qv": numbers(7, *Q.shape),
        },
        {
            **{name: HARMLESS_3[name] for name in ("num_splits", "pack_gqa", "sm_margin")},
            "out_": torch.empty_like(Q),
            "max_seqlen_q": 9,
            "max_seqlen_k": 12,
            "rotary_interleaved": False,  # without rotary tables
        },
        {**CACHES, **DESCALE, "cu_seqlens_q": LENGTHS["cu_seqlens_q"], "cu_seqlens_k": LENGTHS["cu_seqlens_k"]},
    ),
    "4 flash_attn_func": Audit(
        four.flash_attn_func,
        DENSE,
        {**SCORES_4, "qv": numbers(7, *Q.shape)},
        HARMLESS_4,
        {**REFUSED_4, "block_sparse_tensors_bwd": (TENSOR,)},
    ),
    "4 flash_attn_varlen_func": Audit(
        four.flash_attn_varlen_func,
        {**ROWS, **LENGTHS},
        {**SCORES_4, **USED, "qv": numbers(7, *ROWS["q"].shape)},
        {**HARMLESS_4, "min_seqlen_k": 12, "disable_scheduler_metadata": True},
        {**REFUSED_4, "page_table": TENSOR, "scheduler_metadata": TENSOR, "seqlen_k_per_split": 4},
    ),
}


@pytest.mark.parametrize(("name", "argument"), cases(AUDITS))
def test_no_argument_is_swallowed(name, argument):
    AUDITS[name].check(argument)


@pytest.mark.parametrize("name", AUDITS)
def test_every_argument_is_decided(name):
    assert not undecided(AUDITS[name])
