"""The keyword options of `attention` and `attention_backward`, for type checkers and readers.

At run time an option is either the name of a tensor (`_core.roles()`), a word of problem text (`regard.words()`) or
one of the few conveniences below; so a new word of problem text works here the day it exists. A test compares
this list with the library's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    Array = Any  # a NumPy array, another DLPack array or one that has __cuda_array_interface__


class Options(TypedDict, total=False):
    # ---- which keys a query sees
    causal: bool | Literal["top_left"]  # True: bottom-right, j <= i + sk - sq; "top_left": j <= i
    window: tuple[int, int]  # keys visible left and right of the diagonal; -1 is unbounded, 0 is a real window
    sink_tokens: int  # first keys that stay visible left of the window
    mask: str  # the same as text, instead of the three above: "causal", "window:128,0,sink=4"
    ranges: Array  # int32 [1|b, sq, 2] (varlen [tq, 2]): query row sees only keys [lo, hi)
    bits: Array  # uint32 [1|b, 1|hq, 1|sq, ceil(sk/32)]: bit j%32 of word j/32 set = key j visible (pack_bits)

    # ---- scores and softmax
    scale: float  # of Q K^T; 1/sqrt(d) if absent
    softcap: float  # S = softcap * tanh(S / softcap)
    bias: Array  # [1|b, 1|hq, 1|sq, sk], dtype of q; leading ones may be left out
    alibi: Array  # fp32 [hq] or [b, hq] slopes
    sink: Array  # fp32 [hq] learned sink, in scaled-score space
    dropout: float  # probability of dropping a weight, in [0, 1)
    keep_scale: float  # factor of kept weights; 1 / the true probability of being kept if absent
    seed: int | Array  # of dropout, 0 if absent: the same mask again; a uint64 array [2] holds seed and offset
    offset: int

    # ---- packed and padded sequences
    offsets_q: Array  # int32 [b+1] cumulative, first 0: q is [tokens, heads, dim]; int64 and lists, too, as all int32
    offsets_k: Array
    sq: int  # the longest query sequence; computed from offsets_q if absent
    sk: int
    lengths_q: Array  # int32 [b] logical lengths
    lengths_k: Array

    # ---- KV cache (no kernels yet)
    k_new: Array  # [b, snew, hk, d], written into k behind lengths_k
    v_new: Array
    rope: Literal["interleaved", "half"]
    rotary: int  # leading dimensions that rope rotates
    rope_cos: Array  # [sk, rotary/2], dtype of q
    rope_sin: Array
    cache: int  # sequences in k and v
    cache_index: Array  # int32 [b]: which of them
    paged: int  # page size: k and v are [pages, paged, hk, d]
    pages: int
    table: Literal["vllm", "sglang"]
    kv_layout: Literal["linear", "vectorized"]
    page_table: Array  # int32 [b, ceil(sk/paged)]
    page_list: Array  # int32, pages sequence after sequence
    page_offsets: Array  # int32 [b+1]
    last_page_lengths: Array  # int32 [b]

    # ---- fp8
    descale_q: Array  # fp32 [1] or [b, hk]
    descale_k: Array
    descale_v: Array

    # ---- memory
    layout: Literal["bshd", "bhsd", "sbhd"]  # how the axes of 4-dimensional arrays are ordered; default "bshd"
    dtype: Literal["fp32", "bf16", "fp16", "fp8", "fp8_e5m2"]  # what integer arrays stand for
    out: Array | str  # an array to write O to; or its dtype, "bf16" by default for fp8 inputs

    # ---- promises
    deterministic: bool  # backward gives the same bits on every run
    batch_invariant: bool  # a row's bits do not depend on what else is in the batch

    # ---- how and where
    splits: int  # parts of the key length; 0 lets the plan choose
    target: str
    family: str
    threads: int
    stream: Any  # gpu: an address or an object with cuda_stream; PyTorch's current one if absent
