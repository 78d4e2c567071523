"""The keyword options of `attention` and `attention_backward`, for type checkers and for `help`.

At run time an option is either the name of a tensor (`_core.roles()`), a word of problem text (`regard.words()`) or
one of the few conveniences below; so a new word of problem text is available here at once. A test compares
this list with the library's own.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, TypeVar

if TYPE_CHECKING:
    Array = Any  # a NumPy array, another DLPack array or one that has __cuda_array_interface__

F = TypeVar("F", bound=Callable[..., Any])


class MaskOptions(TypedDict, total=False):
    """Which keys a query sees"""

    causal: Annotated[
        bool | Literal["top_left"], "True: bottom-right, key j is seen where j <= i + sk - sq; 'top_left': j <= i"
    ]
    window: Annotated[
        tuple[int, int], "keys visible left and right of the diagonal; -1 is unbounded, 0 is a real window"
    ]
    sink_tokens: Annotated[int, "first keys that stay visible left of the window"]
    mask: Annotated[str, "the same as text, instead of the three above: 'causal', 'window:128,0,sink=4'"]
    ranges: Annotated[Array, "int32 [1|b, sq, 2], packed [tq, 2]: a query row sees only keys lo <= j < hi"]
    bits: Annotated[
        Array, "uint32 [1|b, 1|hq, 1|sq, ceil(sk / 32)]: bit j % 32 of word j / 32 says that key j is seen (pack_bits)"
    ]


class ScoreOptions(TypedDict, total=False):
    """Scores and softmax"""

    scale: Annotated[float, "factor of Q K^T; 1 / sqrt(d) if absent"]
    softcap: Annotated[float, "S = softcap * tanh(S / softcap)"]
    bias: Annotated[
        Array,
        "[1|b, 1|hq, 1|sq, sk] in the dtype of q or fp32, added to the scaled scores; leading ones may be left out",
    ]
    alibi: Annotated[Array, "fp32 [hq] or [b, hq]: ALiBi slopes; -slope * |i + sk - sq - j| is added to the score"]
    sink: Annotated[Array, "fp32 [hq]: learned sink, an extra logit in the softmax denominator, in scaled-score space"]
    dropout: Annotated[float, "probability of dropping a weight: 0, or from 1/256 to 255/256"]
    keep_scale: Annotated[
        float, "factor of the weights that dropout keeps; 1 / the true probability of being kept if absent"
    ]
    seed: Annotated[
        int | Array,
        "seed of dropout, 0 if absent; the same seed gives the same mask; a uint64 array [2] holds seed and offset",
    ]
    offset: Annotated[int, "offset of dropout, 0 if absent"]


class LengthOptions(TypedDict, total=False):
    """Packed and padded sequences"""

    offsets_q: Annotated[
        Array, "int32 [b + 1], cumulative, first 0: q is [tokens, heads, dim]; int64 arrays and lists are converted"
    ]
    offsets_k: Annotated[Array, "the same for k and v, [tokens, heads, dim]"]
    sq: Annotated[int, "the longest query sequence, or a bound above it; computed from offsets_q if absent"]
    sk: Annotated[int, "the longest key sequence, likewise"]
    lengths_q: Annotated[Array, "int32 [b]: logical lengths of the query sequences; rows past them are not computed"]
    lengths_k: Annotated[Array, "int32 [b]: logical lengths of the key sequences; keys past them are not seen"]


class MemoryOptions(TypedDict, total=False):
    """Memory"""

    layout: Annotated[Literal["bshd", "bhsd", "sbhd"], "order of the axes of 4-dimensional arrays; 'bshd' if absent"]
    dtype: Annotated[
        Literal["fp32", "bf16", "fp16", "fp8", "fp8_e5m2", "fp8_fnuz", "fp8_e5m2_fnuz"],
        "the dtype whose bits integer arrays hold",
    ]
    out: Annotated[
        Array | str,
        "an array to write o to, shaped and typed as o; or the dtype of o, 'bf16' by default for fp8 inputs",
    ]


class PlanOptions(TypedDict, total=False):
    """Determinism, kernels and devices"""

    deterministic: Annotated[bool, "backward gives the same bits on every run"]
    batch_invariant: Annotated[bool, "a row's bits do not depend on what else is in the batch"]
    splits: Annotated[int, "parts of the key length; 0 lets the plan choose"]
    target: Annotated[str, "a target of this machine, such as 'cpu-avx2'; the best if absent"]
    family: Annotated[str, "only kernels of this family, such as 'generic'"]
    threads: Annotated[int, "on a CPU; REGARD_THREADS or all cores if absent"]
    functions: Annotated[
        Literal["words", "ranges", "bits", "interpreted"],
        "computes score and keep only by words of the problem, with keep as ranges or bits, or interpreted; any if "
        "absent",
    ]
    stream: Annotated[Any, "on a GPU: an address or an object with cuda_stream; PyTorch's current one if absent"]


class FunctionOptions(TypedDict, total=False):
    """Functions of the score and the mask"""

    score: Annotated[
        str | Callable[..., Any],
        "what the scaled score s becomes, such as 's-slope[h]*abs(kv-p)'; in regard.torch and regard.jax also a "
        "function of score, b, h, q_idx, kv_idx, which returns it",
    ]
    keep: Annotated[
        str | Callable[..., Any],
        "a condition: which keys a query sees, in addition to all masks, such as 'doc[b,q]==doc[b,kv]'; in "
        "regard.torch and regard.jax also a function of b, h, q_idx, kv_idx",
    ]
    tensors: Annotated[
        dict[str, Array], "the arrays that score and keep read, by name: fp32, bf16, fp16, int32, int64, uint8 or bool"
    ]
    grads: Annotated[tuple[str, ...], "in attention_backward: the tensors whose gradients are returned"]
    numbers: Annotated[str, "values of n0, f1, ... in score and keep, such as 'n0:64,f1:0.5'"]


class EightBitOptions(TypedDict, total=False):
    """8-bit types"""

    descale_q: Annotated[Array, "fp32 [1] or [b, hk]: factor of fp8 q"]
    descale_k: Annotated[
        Array,
        "the same for 8-bit k; in a cache also one for each head of each token or page; with k_rope, which then has "
        "q's type, also one for each 128 columns of a row of k, [..., hk, dv / 128]",
    ]
    descale_v: Annotated[Array, "the same for v"]


class CacheOptions(TypedDict, total=False):
    """KV caches and latent attention"""

    k_new: Annotated[Array, "[b, snew, hk, d], packed [tokens, hk, d]: new keys, written into k from row lengths_k on"]
    v_new: Annotated[Array, "[b, snew, hk, dv], packed [tokens, hk, dv]: new values, likewise"]
    offsets_new: Annotated[Array, "int32 [b + 1], cumulative, first 0: where packed new tokens begin"]
    snew: Annotated[int, "the most new tokens of a sequence, or a bound; computed from offsets_new if absent"]
    rope: Annotated[Literal["interleaved", "half"], "rotary embedding of the new keys and of the queries"]
    rotary: Annotated[
        int, "how many columns rope rotates: the first or, with v=None, those after v; as rope_cos has them if absent"
    ]
    rope_cos: Annotated[Array, "[rows, rotary / 2] in the dtype of q or fp32: a row for each position"]
    rope_sin: Annotated[Array, "likewise"]
    positions: Annotated[
        Array,
        "int32 [b]: position of each sequence's first new token; lengths_k if absent. In append also [b, snew], that "
        "of each token, and of packed tokens always [tokens]",
    ]
    dv: Annotated[int, "with v=None: v is the first dv columns of k; all of k if k_rope is given"]
    k_rope: Annotated[Array, "with v=None: the last columns of k, where they are an array of their own, shaped like k"]
    cache: Annotated[int, "sequences in k and v; those of k if cache_index is given"]
    cache_index: Annotated[Array, "int32 [b]: which sequence of k and v each sequence reads"]
    left_padding: Annotated[Array, "int32 [b]: the row at which a sequence's keys begin; lengths_k counts the padding"]
    paged: Annotated[int, "page size; that of k if page_table or page_list is given"]
    pages: Annotated[int, "number of pages in k and v, likewise"]
    table: Annotated[Literal["vllm", "sglang"], "kind of page table; 'sglang' if page_list is given"]
    kv_layout: Annotated[
        Literal["linear", "vectorized"],
        "pages [pages, paged, hk, d], or groups of 16 bytes (docs/problem.md); 'linear' if absent",
    ]
    page_table: Annotated[Array, "int32 [b, blocks]: the page of each block of a sequence; k and v are pages"]
    page_list: Annotated[Array, "int32: the pages of sequence after sequence; k and v are pages"]
    page_offsets: Annotated[Array, "int32 [b + 1]: where each sequence begins in page_list"]
    last_page_lengths: Annotated[Array, "int32 [b]: tokens in each sequence's last page"]
    kv: Annotated[
        Literal["fp8", "fp8_e5m2", "int8", "fp8_fnuz", "fp8_e5m2_fnuz"],
        "dtype of k and v, where it is not that of q and integer arrays hold their bits",
    ]
    descale: Annotated[
        Literal["tensor", "head", "token", "page", "columns"],
        "what has a factor of its own, where the shape of descale_k is ambiguous",
    ]


class Options(
    MaskOptions, ScoreOptions, LengthOptions, MemoryOptions, PlanOptions, FunctionOptions, EightBitOptions, CacheOptions
):
    """All of them."""


# In the order in which `help` shows them; the documentation of each is its heading there.
GROUPS: tuple[type, ...] = (
    MaskOptions,
    ScoreOptions,
    LengthOptions,
    MemoryOptions,
    PlanOptions,
    FunctionOptions,
    EightBitOptions,
    CacheOptions,
)


def described(*groups: type, without: Collection[str] = ()) -> str:
    """The options of these groups, by default of all, with their types and meanings."""
    lines = []
    for group in groups or GROUPS:
        options = {name: each for name, each in group.__annotations__.items() if name not in without}
        lines += [f"  {group.__doc__}:", *(_entry(name, each) for name, each in options.items())]
    return "\n".join(lines)


def _entry(name: str, annotation: Any) -> str:
    """Annotations are text here, as Python 3.9 could not evaluate all of them."""
    expression = ast.parse(getattr(annotation, "__forward_arg__", annotation), mode="eval").body
    assert isinstance(expression, ast.Subscript) and isinstance(expression.slice, ast.Tuple)
    type_, meaning = expression.slice.elts
    line = f"{name}: {ast.unparse(type_)}. {ast.literal_eval(meaning)}"
    return textwrap.fill(line, 100, initial_indent="    ", subsequent_indent="        ")


def documents_options(*groups: type) -> Callable[[F], F]:
    """Adds the options of these groups, by default of all, to the documentation of a function that takes them."""

    def decorate(function: F) -> F:
        if function.__doc__:  # python -OO has none
            options = described(*groups, without=inspect.signature(function).parameters)
            function.__doc__ = inspect.cleandoc(function.__doc__) + "\n\nOptions:\n" + options
        return function

    return decorate


if __doc__:
    __doc__ += "\nOptions:\n" + described()
