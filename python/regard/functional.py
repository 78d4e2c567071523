"""attention, attention_backward and append: arrays in, arrays out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from . import _core
from .call import run_call
from .functions import with_functions
from .options import GROUPS, CacheOptions, Options, documents_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

A = TypeVar("A")


@overload
def attention(
    q: A,
    k: A,
    v: A | None,
    *,
    lse: Literal[False] = ...,
    dropout_mask: Literal[False] = ...,
    row_max: Literal[False] = ...,
    **options: Unpack[Options],
) -> A: ...
@overload
def attention(
    q: A,
    k: A,
    v: A | None,
    *,
    lse: A | bool = ...,
    dropout_mask: A | bool = ...,
    row_max: A | bool = ...,
    **options: Unpack[Options],
) -> tuple[A, ...]: ...
@documents_options()
def attention(
    q: Any, k: Any, v: Any, *, lse: Any = False, dropout_mask: Any = False, row_max: Any = False, **options: Any
) -> Any:
    """Fused attention: softmax(scale Q K^T + ...) V.

        o = regard.attention(q, k, v, causal=True)                                # q, k, v, o: [b, s, h, d]
        o, lse = regard.attention(q, k, v, window=(128, 0), softcap=30.0, lse=True)

    q: [b, sq, hq, d]; k: [b, sk, hk, d]; v: [b, sk, hk, dv]: fp32, bf16, fp16 or fp8 arrays of NumPy or of any
    library that supports DLPack or __cuda_array_interface__, in host memory or on a GPU. hq is a multiple
    of hk. Any strides but negative ones work without a copy, as long as the last dimension is contiguous;
    layout="bhsd" or "sbhd" selects another order of the axes; without it, [b, h, s, d] would run as [b, s, h, d], with
    a wrong result. With offsets_q and offsets_k (int32 [b+1]) the arrays are packed sequences [tokens, heads, dim].

    Returns o, [b, sq, hq, dv] in the same layout, an array of the same library; (o, lse) with lse=True, where lse
    is fp32 [b, hq, sq] (packed: [hq, tokens]) in natural logarithm; dropout_mask=True adds the uint8 mask, for
    tests; row_max=True adds each row's largest score, shaped like lse. `out` and these may be arrays to write
    to, which must not share memory with any other array of the call; for GPU arrays that are not PyTorch's, all results
    must be given this way.

    A row that sees no key gives O = 0, and LSE and row_max = -inf. In arrays allocated here, rows past a logical length
    are 0.

    Raises InvalidError (a ValueError) for invalid input, RefusedError (a NotImplementedError) for problems that nothing
    here solves, NoKernelError (a RuntimeError), NoMemoryError (a MemoryError). See regard.errors.

    Arrays on a GPU are computed there, in `stream`: an address, an object that has cuda_stream or, by default,
    PyTorch's current stream for its tensors, the one that __cuda_array_interface__ names, or else CUDA's default
    stream. The call waits only for arrays whose interface names another stream.

    Dropout draws the same mask in every call with the same seed and offset, and both default to 0: give each call its
    own.

    score= and keep= are functions of the score and the mask (docs/functions.md): score="s-slope[h]*abs(kv-p)" with
    tensors={"slope": slope}, keep="doc[b,q]==doc[b,kv]" with tensors={"doc": doc}. Those that words express run on
    every target, others on a CPU.

    Latent attention (MLA): v=None says that v is the first dv columns of k, which is read once: give dv=, or the
    columns of k after them as an array of its own, k_rope=.

    NumPy has no bfloat16: use arrays of ml_dtypes, or uint16 arrays with dtype="bf16".
    """
    out = options.pop("out", None)
    outputs = {"lse": lse, "dropout_mask": dropout_mask, "row_max": row_max}
    if isinstance(out, str):
        outputs["out"] = out
    elif out is not None:
        options.pop("o", None)
        outputs["o"] = out
    inputs = {"q": q, "k": k} if v is None else {"q": q, "k": k, "v": v}
    return _core.eagerly(run_call, "fwd", inputs, with_functions(options), outputs)


@documents_options(CacheOptions)
def append(k: Any, v: Any, k_new: Any, v_new: Any, **options: Any) -> None:
    """Writes new keys and values into a KV cache, which is changed in place.

    k: [sequences, s, hk, d], v: [sequences, s, hk, dv], or with page_table (or page_list) [pages, page, hk, d] and
    [pages, page, hk, dv]. k_new: [b, s_new, hk, d], v_new: [b, s_new, hk, dv], packed with offsets_new (int32 [b+1]) or
    slots. They follow the keys that their sequence already has, lengths_k (int32 [b]); a sequence of a negative length
    takes none. slots, int32 or int64 [tokens], are instead the rows of the cache that they go to, counted over all
    pages; a token with a negative slot is not written.

    v=None and v_new=None, with dv= or k_rope=: v is the first columns of k. k_new has all columns of k.

    rope="interleaved" or "half" with rope_cos and rope_sin, [rows, rotary / 2], rotates the new keys. For an 8-bit
    cache, new tokens are divided by descale_k and descale_v. Factors for each token, in arrays like k and v without
    their last dimension, are computed and written as well, and so are those for each 128 columns of a latent k,
    [..., hk, dv / 128], whose k_rope has k_new's type.

    Other options are those of `attention`: layout, dtype, target, family, threads, stream.

    Raises the same errors as `attention`.
    """
    values = {} if v is None else {"v": v}
    new = {"k_new": k_new} if v_new is None else {"k_new": k_new, "v_new": v_new}
    _core.eagerly(run_call, "append", {"k": k, **values, **new}, options, {})


@documents_options(*(group for group in GROUPS if group is not CacheOptions))
def attention_backward(
    grad_o: A,
    q: A,
    k: A,
    v: A,
    o: A,
    lse: A,
    *,
    grad_lse: A | None = None,
    grad_q: A | None = None,
    grad_k: A | None = None,
    grad_v: A | None = None,
    grad_bias: A | bool = False,
    grad_sink: A | None = None,
    **options: Unpack[Options],
) -> tuple[A, ...]:
    """Gradients of `attention`, from its inputs, its results o and lse, and the gradient of o; grad_lse, like lse, is
    that of lse, if what is differentiated depends on it.

    grad_o, o: [b, sq, hq, dv]; q: [b, sq, hq, d]; k: [b, sk, hk, d]; v: [b, sk, hk, dv]; lse: fp32 [b, hq, sq],
    packed [hq, tokens]. All but lse are fp32, bf16 or fp16, of the same type, in the layout of the forward call. The
    options are those of the forward call, and must be the same: dropout needs the same seed and offset.

    Returns (grad_q, grad_k, grad_v), shaped as q, k and v, then grad_bias [1|b, 1|hq, sq, sk] if it is requested (True,
    or an array to write to), then grad_sink, fp32 [hq], if there is a sink. grad_k and grad_v are summed over the query
    heads of a group, grad_bias over the dimensions along which bias is broadcast. The other gradients may also be
    arrays to write to. Last come the gradients of the tensors that grads= names, fp32 and shaped as they are ([1] for
    one number), in the order of tensors=.

    deterministic=True gives the same bits on every run.

    Raises the same errors as `attention`.
    """
    gradients = {"grad_q": grad_q, "grad_k": grad_k, "grad_v": grad_v, "grad_bias": grad_bias, "grad_sink": grad_sink}
    inputs = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "grad_o": grad_o}
    given: dict[str, Any] = {**options} if grad_lse is None else {**options, "grad_lse": grad_lse}
    results: tuple[A, ...] = _core.eagerly(run_call, "bwd", inputs, with_functions(given), gradients)
    return results
