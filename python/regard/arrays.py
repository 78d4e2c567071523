"""Arrays of any library: which dtype one has, and new ones of the same kind.

No array library but NumPy is ever imported here: an array that came from one proves that it is loaded.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy

from . import _core
from .errors import InvalidError

# Names of floating-point types in NumPy, ml_dtypes, PyTorch and JAX, and the words of problem text.
_WORDS = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8_e5m2",
}
# What holds each type in NumPy, which has neither bfloat16 nor 8-bit floats of its own.
_STORAGE: dict[str, Any] = {
    "fp32": numpy.float32,
    "fp16": numpy.float16,
    "bf16": numpy.uint16,
    "fp8": numpy.uint8,
    "fp8_e5m2": numpy.uint8,
    "uint8": numpy.uint8,
}
_TORCH = {word: name for name, word in _WORDS.items()} | {"uint8": "uint8"}
_word_of_dtype: dict[Any, str] = {}  # dtype objects seen before


def dtype_word(name: str, array: Any) -> str:
    """The word of an array's dtype; `name` is what messages call the array."""
    try:
        return _word_of_dtype[array.dtype]
    except KeyError:
        pass
    except AttributeError:
        kind = type(array).__name__
        raise TypeError(f"{name} must be a NumPy array or another DLPack array, not {kind}") from None
    text = str(array.dtype).rpartition(".")[2]
    word = _WORDS.get(text)
    if word is None:
        advice = "pass dtype='bf16' or dtype='fp8'" if text.startswith("uint") else "convert it first"
        raise InvalidError(
            f"{name} has dtype {text}; attention takes float32, bfloat16, float16, float8_e4m3fn and float8_e5m2: "
            f"{advice}"
        )
    _word_of_dtype[array.dtype] = word
    return word


def is_numpy(array: Any) -> bool:
    return isinstance(array, numpy.ndarray)


def on_gpu(array: Any) -> bool:
    """Whether an array lies on a GPU."""
    return not is_numpy(array) and _core.on_gpu(array)


def empty_like_kind(like: Any, word: str, spec: _core.TensorSpec, zeros: bool) -> Any:
    """Memory for an output beside inputs such as `like`, whose dtype is `word`. See `as_kind`."""
    if hasattr(like, "new_empty"):  # PyTorch
        dtype = like.dtype if spec.dtype == word else getattr(sys.modules["torch"], _TORCH[spec.dtype])
        return like.new_zeros(spec.shape, dtype=dtype) if zeros else like.new_empty(spec.shape, dtype=dtype)
    if on_gpu(like):
        kind = type(like).__name__
        raise InvalidError(f"outputs for {kind} arrays on a GPU must be given: pass out= and lse= arrays")
    if not is_numpy(like):
        return _core.empty(spec.shape, spec.dtype, zeros)
    dtype = like.dtype if spec.dtype == word else _STORAGE[spec.dtype]
    return numpy.zeros(spec.shape, dtype) if zeros else numpy.empty(spec.shape, dtype)


def as_kind(like: Any, memory: Any) -> Any:
    """The array of `like`'s library over memory of `empty_like_kind`, without a copy."""
    if is_numpy(like) or isinstance(memory, type(like)):
        return memory
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().from_dlpack(memory)
    library = sys.modules[type(like).__module__.partition(".")[0]]
    return library.from_dlpack(memory) if hasattr(library, "from_dlpack") else memory


def longest(name: str, offsets: Any) -> int:
    """The longest sequence of cumulative offsets."""
    if on_gpu(offsets):
        raise InvalidError(f"{name} lies on a GPU, and looking at it would wait: give sq and sk, the longest sequences")
    values = numpy.asarray(offsets)
    if values.ndim != 1 or values.size < 2:
        raise InvalidError(f"{name} has shape {list(values.shape)}; it must be int32 [b+1], cumulative, first 0")
    return int(numpy.diff(values).max())
