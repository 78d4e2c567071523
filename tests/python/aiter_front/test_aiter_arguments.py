"""Every argument of AITER's functions changes the result, is known to be harmless, or is refused."""

import pytest

torch = pytest.importorskip("torch")
from argument_audit import Audit, cases, undecided  # noqa: E402
from regard.aiter.ops import mha  # noqa: E402

pytestmark = pytest.mark.no_compiler


def numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


Q, K, V = numbers(1, 2, 9, 4, 16), numbers(2, 2, 12, 2, 16), numbers(3, 2, 12, 2, 16)
DENSE = {"q": Q, "k": K, "v": V}
ROWS = {"q": Q.flatten(0, 1), "k": K.flatten(0, 1), "v": V.flatten(0, 1)}
EIGHT_BITS = {name: tensor.to(torch.float8_e4m3fn) for name, tensor in DENSE.items()}
EIGHT_BIT_ROWS = {name: tensor.flatten(0, 1) for name, tensor in EIGHT_BITS.items()}
TENSOR = torch.zeros(2, 2, dtype=torch.int32)


def cumulative(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


STARTS = {"cu_seqlens_q": cumulative(0, 9, 18), "cu_seqlens_k": cumulative(0, 12, 24)}
LENGTHS = {**STARTS, "max_seqlen_q": 9, "max_seqlen_k": 12}
OTHER_STARTS = {"cu_seqlens_q_padded": cumulative(0, 9, 18), "cu_seqlens_k_padded": cumulative(0, 12, 24)}
PADDED = {**STARTS, "cu_seqlens_q": cumulative(0, 8, 16), "cu_seqlens_k": cumulative(0, 11, 22)}
OF_PADDED = {**PADDED, "max_seqlen_q": 9, "max_seqlen_k": 12}
ONE_NUMBER = torch.tensor([0.5])
DESCALE = {"q_descale": ONE_NUMBER, "k_descale": ONE_NUMBER, "v_descale": ONE_NUMBER}

SCORES = {
    "softmax_scale": 0.3,
    "causal": True,
    "window_size": (2, 1, 1),
    "sink_ptr": numbers(4, 4),
}
MORE_SCORES = {**SCORES, "dropout_p": 0.5, "alibi_slopes": numbers(5, 4).abs(), "return_lse": True}
HARMLESS = {"deterministic": False, "how_v3_bf16_cvt": 0}  # rounding is to nearest even

SCORES_RAW = {
    "dropout_p": 0.5,
    "softmax_scale": 0.3,
    "is_causal": True,
    "window_size_left": 2,
    "window_size_right": 1,
    "return_softmax_lse": True,
    "alibi_slopes": numbers(5, 4).abs(),
}
NEUTRAL_RAW = {
    "dropout_p": 0.0,
    "softmax_scale": 0.25,
    "is_causal": False,
    "window_size_left": -1,
    "window_size_right": -1,
    "return_softmax_lse": False,
    "return_dropout_randval": False,
}
SINKS = {"sink_size": 1, "sink_ptr": numbers(4, 4)}
NEUTRAL_VARLEN = {**NEUTRAL_RAW, "min_seqlen_q": 0, "logits_soft_cap": 0.0, "zero_tensors": False}
REFUSED_RAW = {"return_dropout_randval": True, **DESCALE}  # without dropout, and for 8-bit inputs
HARMLESS_RAW = {"gen": torch.Generator()}  # without dropout

DOUT, LSE = numbers(6, *Q.shape), numbers(7, 2, 4, 9)
BACKWARD = {"dout": DOUT, **DENSE, "out": numbers(8, *Q.shape), "softmax_lse": LSE + 5}
BACKWARD_ROWS = {"dout": DOUT.flatten(0, 1), **ROWS, "out": numbers(8, 18, 4, 16), "softmax_lse": numbers(9, 4, 18) + 5}
GRADIENTS = {"dq": torch.zeros_like(Q), "dk": torch.zeros_like(K), "dv": torch.zeros_like(V)}
GRADIENTS_OF_ROWS = {name: torch.zeros_like(gradient).flatten(0, 1) for name, gradient in GRADIENTS.items()}
SCORES_BACK = {name: value for name, value in SCORES_RAW.items() if name not in ("dropout_p", "return_softmax_lse")}
NEUTRAL_BACK = {
    **{name: value for name, value in NEUTRAL_RAW.items() if not name.startswith("return")},
    "deterministic": True,
}
HARMLESS_BACK = {"deterministic": False, "rng_state": TENSOR, "gen": torch.Generator()}  # without dropout
V3_BACK = {"is_v3_atomic_fp32": False, "how_v3_bf16_cvt": 0}
NEUTRAL_V3_BACK = {"is_v3_atomic_fp32": True, "how_v3_bf16_cvt": 1}

AUDITS = {
    "flash_attn_func": Audit(
        mha.flash_attn_func,
        DENSE,
        {
            **MORE_SCORES,
            "bias": numbers(7, 9, 12),
            "return_attn_probs": True,
            "cu_seqlens_q": cumulative(0, 9, 13),
            "cu_seqlens_kv": cumulative(0, 12, 19),
        },
        {**HARMLESS, "num_splits": 1},
    ),
    "flash_attn_varlen_func": Audit(
        mha.flash_attn_varlen_func,
        {**ROWS, **OF_PADDED},
        {**MORE_SCORES, **OTHER_STARTS, "bias": numbers(7, 18, 12), "return_attn_probs": True, "logits_soft_cap": 0.7},
        {**HARMLESS, "deterministic": True, "out": torch.zeros_like(ROWS["q"])},
        {"block_table": TENSOR, "min_seqlen_q": 1},
    ),
    "flash_attn_fp8_pertensor_func": Audit(
        mha.flash_attn_fp8_pertensor_func, EIGHT_BITS, {**SCORES, **DESCALE}, neutral=dict.fromkeys(DESCALE)
    ),
    "flash_attn_varlen_fp8_pertensor_func": Audit(
        mha.flash_attn_varlen_fp8_pertensor_func,
        {**EIGHT_BIT_ROWS, **LENGTHS},
        {**SCORES, **DESCALE, "logits_soft_cap": 0.7},
        {},
        {"min_seqlen_q": 1},
        neutral=dict.fromkeys(DESCALE),
    ),
    "mha_fwd": Audit(
        mha.mha_fwd,
        DENSE,
        {
            **SCORES_RAW,
            "sink_ptr": SINKS["sink_ptr"],
            "bias": numbers(7, 9, 12),
            "cu_seqlens_q": cumulative(0, 9, 13),
            "cu_seqlens_kv": cumulative(0, 12, 19),
        },
        {**HARMLESS_RAW, "out": torch.empty_like(Q), "sink_size": 1},  # without a window
        REFUSED_RAW,
        neutral={**NEUTRAL_RAW, "sink_size": 0},
    ),
    "mha_varlen_fwd": Audit(
        mha.mha_varlen_fwd,
        {**ROWS, **OF_PADDED},
        {
            **SCORES_RAW,
            **OTHER_STARTS,
            "sink_ptr": SINKS["sink_ptr"],
            "bias": numbers(7, 18, 12),
            "logits_soft_cap": 0.7,
        },
        {**HARMLESS_RAW, "out": torch.zeros_like(ROWS["q"]), "sink_size": 1, "zero_tensors": True},
        {**REFUSED_RAW, "block_table": TENSOR, "min_seqlen_q": 1},
        neutral={**NEUTRAL_VARLEN, "sink_size": 0},
    ),
    "fmha_v3_fwd": Audit(
        mha.fmha_v3_fwd,
        DENSE,
        {**SCORES_RAW, "bias": numbers(7, 9, 12)},
        {**HARMLESS_RAW, "out": torch.empty_like(Q), "how_v3_bf16_cvt": 0},
        REFUSED_RAW,
        neutral={**NEUTRAL_RAW, "how_v3_bf16_cvt": 1},
    ),
    "fmha_v3_varlen_fwd": Audit(
        mha.fmha_v3_varlen_fwd,
        {**ROWS, **OF_PADDED},
        {**SCORES_RAW, **OTHER_STARTS, "bias": numbers(7, 18, 12), "logits_soft_cap": 0.7},
        {**HARMLESS_RAW, "out": torch.zeros_like(ROWS["q"]), "how_v3_bf16_cvt": 0, "zero_tensors": True},
        {**REFUSED_RAW, "block_table": TENSOR, "min_seqlen_q": 1},
        neutral={**NEUTRAL_VARLEN, "how_v3_bf16_cvt": 1},
    ),
    "mha_bwd": Audit(
        mha.mha_bwd,
        BACKWARD,
        {**SCORES_BACK, "bias": numbers(7, 9, 12)},
        {**HARMLESS_BACK, **GRADIENTS, "sink": SINKS["sink_ptr"]},  # the log-sum-exp includes it
        {"dropout_p": 0.5, "dbias": numbers(7, 9, 12), "d_sink": SINKS["sink_ptr"]},
        neutral=NEUTRAL_BACK,
    ),
    "mha_varlen_bwd": Audit(
        mha.mha_varlen_bwd,
        {**BACKWARD_ROWS, **OF_PADDED},
        {**SCORES_BACK, **OTHER_STARTS},
        {**HARMLESS_BACK, **GRADIENTS_OF_ROWS, "sink": SINKS["sink_ptr"], "zero_tensors": True},
        {"dropout_p": 0.5, "d_sink": SINKS["sink_ptr"]},
        neutral={**NEUTRAL_BACK, "zero_tensors": False},
    ),
    "fmha_v3_bwd": Audit(
        mha.fmha_v3_bwd,
        BACKWARD,
        SCORES_BACK,
        {**HARMLESS_BACK, **GRADIENTS, **V3_BACK},
        {"dropout_p": 0.5},
        neutral={**NEUTRAL_BACK, **NEUTRAL_V3_BACK},
    ),
    "fmha_v3_varlen_bwd": Audit(
        mha.fmha_v3_varlen_bwd,
        {**BACKWARD_ROWS, **OF_PADDED},
        {**SCORES_BACK, **OTHER_STARTS},
        {**HARMLESS_BACK, **GRADIENTS_OF_ROWS, **V3_BACK, "zero_tensors": True},
        {"dropout_p": 0.5},
        neutral={**NEUTRAL_BACK, **NEUTRAL_V3_BACK, "zero_tensors": False},
    ),
}


@pytest.mark.parametrize(("name", "argument"), cases(AUDITS))
def test_no_argument_is_swallowed(name, argument):
    AUDITS[name].check(argument)


@pytest.mark.parametrize("name", AUDITS)
def test_every_argument_is_decided(name):
    assert not undecided(AUDITS[name])
