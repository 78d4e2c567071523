"""Arrays of any library: the dtype of one, and new ones of the same kind.

Of all array libraries only NumPy is imported here: if an array came from another one, that is already loaded.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, NoReturn

import numpy

from . import _core
from .errors import invalid, wrong_type

# Names of floating-point types in NumPy, ml_dtypes, PyTorch and JAX, and their words in problem text.
_WORDS = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8_e5m2",
    "float8_e4m3fnuz": "fp8_fnuz",
    "float8_e5m2fnuz": "fp8_e5m2_fnuz",
}
_INTEGERS = ("int8", "int32", "int64")  # which stand for no other type
# The type that holds each one in NumPy, which has neither bfloat16 nor 8-bit floats itself.
_STORAGE: dict[str, Any] = {
    "fp32": numpy.float32,
    "fp16": numpy.float16,
    "bf16": numpy.uint16,
    "fp8": numpy.uint8,
    "fp8_e5m2": numpy.uint8,
    "fp8_fnuz": numpy.uint8,
    "fp8_e5m2_fnuz": numpy.uint8,
    "uint8": numpy.uint8,
}
# The reverse, as PyTorch and JAX have names for all of them.
NAMES = {word: name for name, word in _WORDS.items()} | {"uint8": "uint8"}
_word_of_dtype: dict[Any, str] = {}  # dtype objects seen before


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _no_array(name: str, array: Any) -> NoReturn:
    raise wrong_type(
        f"{name} must be a NumPy array, another DLPack array or one that has __cuda_array_interface__, but is of type "
        f"{type(array).__name__}"
    ) from None


def _interface(name: str, array: Any) -> dict[str, Any]:
    """The array interface of an object that has neither shape nor dtype; `name` is how messages refer to it."""
    interface = getattr(array, "__cuda_array_interface__", None)
    if not isinstance(interface, dict) or not {"shape", "typestr"} <= interface.keys():
        _no_array(name, array)
    return interface


def shape_of(name: str, array: Any, rank: int = 0, meaning: str = "") -> tuple[int, ...]:
    """The shape of an argument that has to be an array, of `rank` dimensions if that is given."""
    try:
        shape = array.shape
    except AttributeError:
        shape = numpy.shape(array) if isinstance(array, (list, tuple)) else _interface(name, array)["shape"]
    except MemoryError:
        raise
    except Exception as error:  # such as a nested PyTorch tensor, or a parameter that is not initialised yet
        raise invalid(f"{name} is an array without a shape: {first_line(error)}") from error
    for size in shape:
        if not isinstance(size, (int, numpy.integer)):
            raise invalid(
                f"{name} has shape {list(shape)}; sizes must be whole numbers, which nested tensors do not have"
            )
    if rank and len(shape) != rank:
        raise invalid(f"{name} has shape {list(shape)}; it must be {meaning}")
    return shape  # type: ignore[no-any-return]


def _dtype_of(name: str, array: Any) -> Any:
    try:
        return array.dtype
    except AttributeError:
        typestr = _interface(name, array)["typestr"]
        try:
            return numpy.dtype(typestr)
        except TypeError as error:
            raise invalid(
                f"{name} has the typestr {typestr!r}, which NumPy does not know; give one such as '<f4'"
            ) from error
    except MemoryError:
        raise
    except Exception as error:
        raise invalid(f"{name} is an array without a dtype: {first_line(error)}") from error


def _name_of(dtype: Any) -> str:
    if isinstance(dtype, numpy.dtype):
        return _name_of_numpy(dtype)
    return str(dtype).rpartition(".")[2]


_name_of_numpy = lru_cache(maxsize=256)(str)  # which takes microseconds


def dtype_name(name: str, array: Any) -> str:
    """The name of an array's dtype, whatever it is: "float32", "bool"."""
    return _name_of(_dtype_of(name, array))


def known_word(name: str, array: Any) -> str | None:
    """The word of an array's dtype; None if it has none, as with integers that stand for another type."""
    dtype = _dtype_of(name, array)
    word = _word_of_dtype.get(dtype)
    if word is None:
        word = _WORDS.get(_name_of(dtype))
        if word is not None:
            _word_of_dtype[dtype] = word
    return word


def integer_word(name: str, array: Any) -> str | None:
    """int8, int32 or int64; None for an array of another type. Lists become int32 arrays."""
    if isinstance(array, (list, tuple)):
        return "int32"
    word = _name_of(_dtype_of(name, array))
    return word if word in _INTEGERS else None


def bytes_of(name: str, array: Any) -> int:
    """The bytes of an element of an array of one of attention's types, or of an integer type that holds it."""
    text = _name_of(_dtype_of(name, array))
    return 4 if text.endswith("32") else 2 if text.endswith("16") else 1


def dtype_word(name: str, array: Any) -> str:
    """The word of an array's dtype."""
    word = known_word(name, array)
    if word is not None:
        return word
    text = _name_of(_dtype_of(name, array))
    advice = "convert it first"
    if text.startswith("uint"):
        advice = "pass dtype='bf16' or dtype='fp8'"
    elif text.startswith("|V"):
        advice = "raw types do not say which it is: pass bfloat16 as uint16 with dtype='bf16'"
    *others, last = _WORDS
    raise invalid(f"{name} has dtype {text}; attention takes {', '.join(others)} and {last}: {advice}")


def is_numpy(array: Any) -> bool:
    return isinstance(array, numpy.ndarray)


def gpu_of(name: str, array: Any) -> str | None:
    """The target of the GPU that an array is on, "cuda" or "hip"; None if it is on none."""
    return None if is_numpy(array) else _core.gpu_of(name, array)


def empty_like_kind(like: Any, word: str, spec: _core.TensorSpec, zeros: bool) -> Any:
    """Memory for an output, for inputs such as `like`; `word` is its dtype. See `as_kind`."""
    if hasattr(like, "new_empty"):  # PyTorch
        dtype = like.dtype if spec.dtype == word else getattr(sys.modules["torch"], NAMES[spec.dtype])
        return like.new_zeros(spec.shape, dtype=dtype) if zeros else like.new_empty(spec.shape, dtype=dtype)
    if gpu_of("q", like):
        kind = type(like).__name__
        raise invalid(f"outputs for {kind} arrays on a GPU must be given: pass out= and lse= arrays")
    if not is_numpy(like):
        return _core.empty(spec.shape, spec.dtype, zeros)
    dtype = like.dtype if spec.dtype == word else _STORAGE[spec.dtype]
    return numpy.zeros(spec.shape, dtype) if zeros else numpy.empty(spec.shape, dtype)


def as_kind(like: Any, memory: Any) -> Any:
    """An array of `like`'s library over memory from `empty_like_kind`, without a copy."""
    if is_numpy(like) or isinstance(memory, type(like)):
        return memory
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().from_dlpack(memory)
    library = sys.modules[type(like).__module__.partition(".")[0]]
    return library.from_dlpack(memory) if hasattr(library, "from_dlpack") else memory


_OFFSETS = "an array or a list of whole numbers, int32 [b+1], cumulative, first 0"


def longest(name: str, offsets: Any) -> int:
    """The length of the longest sequence, from cumulative offsets."""
    if gpu_of(name, offsets):
        raise invalid(f"{name} is on a GPU, and reading it would wait: give sq and sk, the longest sequences")
    _core.check_readable(name, offsets)
    try:
        values = numpy.asarray(offsets.resolve_neg() if hasattr(offsets, "resolve_neg") else offsets)
    except MemoryError:
        raise
    except Exception as error:  # raised by the array's own library
        raise invalid(f"{name} cannot be read ({first_line(error)}); it must be {_OFFSETS}") from error
    if values.ndim == 0 and not hasattr(offsets, "shape"):
        raise wrong_type(f"{name} is of type {type(offsets).__name__}; it must be {_OFFSETS}")
    if values.ndim != 1 or values.size < 1:
        raise invalid(f"{name} has shape {list(values.shape)}; it must be {_OFFSETS}")
    if values.dtype.kind not in "iu":
        raise invalid(f"{name} has dtype {values.dtype}; it must be {_OFFSETS}")
    return int(numpy.diff(values).max(initial=0))


def bits_by_torch(mask: Any) -> Any:
    """`pack_bits` for a boolean tensor, using operators only."""
    torch: Any = sys.modules["torch"]
    if not torch.compiler.is_compiling():
        _core.check_readable("mask", mask)
    *leading, keys = mask.shape
    words = -(-keys // 32)
    if keys == 0:
        return mask.new_empty((*leading, 0), dtype=torch.uint32)
    bits = torch.nn.functional.pad(mask.to(torch.uint8), (0, 32 * words - keys)).reshape(*leading, 4 * words, 8)
    places = torch.arange(8, dtype=torch.uint8, device=mask.device)
    return (bits << places).sum(-1, dtype=torch.uint8).view(torch.uint32)


def pack_bits(mask: Any) -> Any:
    """The visibility bits (`bits=`) of a boolean mask: True where a query sees a key.

    mask: bool [..., sq, sk], of NumPy, PyTorch (on any device) or any library that NumPy can read. A leading dimension,
    or sq, that is 1 is shared by all, and missing dimensions are 1: [sk] is a mask of keys alone, [b, 1, 1, sk] one
    for each sequence.

    Returns uint32 [..., sq, ceil(sk/32)]: bit j%32 of word j/32 is the key j. For a PyTorch tensor, returns a tensor.

    Raises InvalidError for another dtype: pass scores to be added as `bias`.
    """
    _core.check_readable("mask", mask)
    torch: Any = sys.modules.get("torch")
    of_torch = torch is not None and isinstance(mask, torch.Tensor)
    if not of_torch:
        try:
            mask = numpy.asarray(mask)
        except MemoryError:
            raise
        except Exception as error:  # raised by the array's own library
            raise invalid(f"mask is not an array of booleans ({first_line(error)})") from error
    if str(mask.dtype).rpartition(".")[2] != "bool":
        raise invalid(f"mask has dtype {mask.dtype}; pack_bits takes booleans, and scores to be added are a bias")
    if mask.ndim < 1:
        raise invalid("mask is a single boolean; pack_bits takes bool [..., sq, sk]")
    if of_torch:
        try:
            return bits_by_torch(mask)
        except (MemoryError, torch.cuda.OutOfMemoryError):
            raise
        except Exception as error:  # such as a subclass that does not support all of it
            raise invalid(f"mask cannot be packed by PyTorch: {first_line(error)}") from error
    *leading, keys = mask.shape
    words = -(-keys // 32)
    packed = numpy.zeros((*leading, 4 * words), numpy.uint8)
    packed[..., : -(-keys // 8)] = numpy.packbits(mask, axis=-1, bitorder="little")
    return packed.view(numpy.uint32)
