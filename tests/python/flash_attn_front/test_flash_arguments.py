"""Every argument of flash_attn's functions changes the result, is known to be harmless, or is refused."""

import functools

import pytest

torch = pytest.importorskip("torch")
import regard.flash_attn as two  # noqa: E402
from argument_audit import Audit, cases, undecided  # noqa: E402
from regard.flash_attn import flash_attn_interface as raw_two  # noqa: E402
from regard.flash_attn import v3 as three  # noqa: E402
from regard.flash_attn.cute import interface as four  # noqa: E402

pytestmark = pytest.mark.no_compiler


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

COUNTS = torch.tensor([5, 0], dtype=torch.int32)
PICKED = torch.tensor([1, 0], dtype=torch.int32)
TABLE = torch.tensor([[1, 0], [0, 1]], dtype=torch.int32)
CACHE = {"k_cache": K, "v_cache": V}
NEW = {"k": numbers(8, 2, 2, 2, 16), "v": numbers(9, 2, 2, 2, 16)}
ROTARY = {"rotary_cos": numbers(10, 24, 4), "rotary_sin": numbers(11, 24, 4)}
OF_CACHES = {"cache_batch_idx": PICKED, "cache_leftpad": COUNTS}
OF_NEW_ALONE = dict.fromkeys((*NEW, *ROTARY), TENSOR)
CACHE_3 = {"cu_seqlens_q": LENGTHS["cu_seqlens_q"], "cu_seqlens_k_new": TENSOR, **DESCALE}


def with_cache(function):
    """The function with new tokens, and the caches as more results."""

    @functools.wraps(function)
    def on_copies(k_cache, v_cache, **arguments):
        k_cache, v_cache = k_cache.clone(), v_cache.clone()
        found = function(k_cache=k_cache, v_cache=v_cache, **arguments)
        return (*found, k_cache, v_cache) if isinstance(found, tuple) else (found, k_cache, v_cache)

    return on_copies


AUDITS = {
    "flash_attn_func": Audit(two.flash_attn_func, DENSE, SCORES, HARMLESS),
    "flash_attn_kvpacked_func": Audit(
        two.flash_attn_kvpacked_func, {"q": Q, "kv": torch.stack((K, V), 2)}, SCORES, HARMLESS
    ),
    "flash_attn_qkvpacked_func": Audit(two.flash_attn_qkvpacked_func, {"qkv": SELF}, SCORES, HARMLESS),
    "flash_attn_varlen_func": Audit(
        two.flash_attn_varlen_func,
        {**ROWS, **LENGTHS},
        SCORES,
        HARMLESS,
        {"block_table": TENSOR},  # of packed keys
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
            "page_table": TABLE,
            "kv_batch_idx": PICKED,
            "leftpad_k": COUNTS,
        },
        {
            **{name: HARMLESS_3[name] for name in ("num_splits", "pack_gqa", "sm_margin")},
            "out_": torch.empty_like(Q),
            "max_seqlen_q": 9,
            "max_seqlen_k": 12,
            "rotary_interleaved": False,  # without rotary tables
            "seqlens_rotary": COUNTS,
            "scheduler_metadata": TENSOR,
        },
        {
            **dict.fromkeys(("k_new", "v_new", "cu_seqlens_k_new", *ROTARY), TENSOR),
            **DESCALE,
            "cu_seqlens_q": LENGTHS["cu_seqlens_q"],
            "cu_seqlens_k": LENGTHS["cu_seqlens_k"],
        },
    ),
    "flash_attn_with_kvcache": Audit(
        two.flash_attn_with_kvcache,
        {"q": Q, **CACHE},
        {
            **{name: SCORES[name] for name in SCORES if name not in ("dropout_p", "return_attn_probs")},
            **OF_CACHES,
            "cache_seqlens": 7,
            "block_table": TABLE,
            "return_softmax_lse": True,
        },
        {"num_splits": 3, "rotary_interleaved": False},
        OF_NEW_ALONE,
    ),
    "flash_attn_with_kvcache, new tokens": Audit(
        with_cache(two.flash_attn_with_kvcache),
        {"q": Q, **CACHE, **NEW, **ROTARY, "cache_seqlens": COUNTS},
        {**OF_CACHES, "causal": True, "rotary_interleaved": False},
    ),
    "3 flash_attn_with_kvcache": Audit(
        three.flash_attn_with_kvcache,
        {"q": Q, **CACHE},
        {
            **{name: SCORES_3[name] for name in ("softmax_scale", "causal", "window_size", "softcap")},
            **OF_CACHES,
            "cache_seqlens": 7,
            "page_table": TABLE,
            "attention_chunk": 3,
            "qv": numbers(7, *Q.shape),
            "return_softmax_lse": True,
        },
        {
            **{name: HARMLESS_3[name] for name in ("num_splits", "pack_gqa", "sm_margin")},
            "rotary_interleaved": False,
            "rotary_seqlens": COUNTS,
            "scheduler_metadata": TENSOR,
            "max_seqlen_q": 9,
        },
        {**OF_NEW_ALONE, **CACHE_3},
    ),
    "3 flash_attn_with_kvcache, new tokens": Audit(
        with_cache(three.flash_attn_with_kvcache),
        {"q": Q, **CACHE, **NEW, **ROTARY, "cache_seqlens": COUNTS},
        {**OF_CACHES, "causal": True, "rotary_interleaved": False, "rotary_seqlens": PICKED},
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


WITH_NEW_TOKENS = {name: audit for name, audit in AUDITS.items() if "new tokens" in name}  # test_flash_kvcache
AUDITS = {name: audit for name, audit in AUDITS.items() if name not in WITH_NEW_TOKENS}


@pytest.mark.parametrize(("name", "argument"), cases(AUDITS))
def test_no_argument_is_swallowed(name, argument):
    AUDITS[name].check(argument)


@pytest.mark.parametrize("name", AUDITS)
def test_every_argument_is_decided(name):
    assert not undecided(AUDITS[name])
