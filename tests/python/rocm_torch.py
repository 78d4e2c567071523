"""Makes the PyTorch that is installed one for ROCm, as far as that can be pretended: its tensors of "cuda" are in the
memory of an AMD GPU (rocm_arrays.py), and have the few operators that calls of Regard need. To be imported first."""

import ctypes
from types import SimpleNamespace

import torch

import rocm_arrays

torch.version.hip = "6.4"
torch.Tensor.__dlpack_c_exchange_api__ = None  # it would say that the device is NVIDIA's
torch.cuda._lazy_init = lambda: None
torch.cuda.current_stream = lambda device=None: SimpleNamespace(cuda_stream=0)

CODES = {torch.float32: (2, 32), torch.bfloat16: (4, 16), torch.uint8: (1, 8), torch.int64: (0, 64)}  # of DLPack
CUDA = 2
kept = []
operators = torch.library.Library("aten", "IMPL", "CUDA")


def at(address, sizes, strides, dtype):
    """A tensor of that memory."""
    numbers = ctypes.c_int64 * max(len(sizes), 1)
    sizes_of, strides_of = numbers(*sizes), numbers(*strides)
    code, bits = CODES[dtype]
    places = ctypes.addressof(sizes_of), ctypes.addressof(strides_of)
    tensor = rocm_arrays.Tensor(address, CUDA, 0, len(sizes), code, bits, 1, *places, 0, None, None)
    kept.append((sizes_of, strides_of, tensor))
    return torch._C._from_dlpack(rocm_arrays.new_capsule(ctypes.addressof(tensor), b"dltensor", None))


def span(sizes, strides):
    """How many elements there are from the first to the last."""
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)) if all(sizes) else 0


def empty_strided(sizes, strides, *, dtype=None, **_):
    dtype = dtype or torch.float32
    return at(rocm_arrays.memory_of(b"hip", span(sizes, strides) * dtype.itemsize), sizes, strides, dtype)


def empty(sizes, *, dtype=None, **_):
    return empty_strided(sizes, torch.empty(sizes, device="meta").stride(), dtype=dtype)


def as_strided(tensor, sizes, strides, offset=None):
    offset = tensor.storage_offset() if offset is None else offset
    return at(tensor.untyped_storage().data_ptr() + offset * tensor.element_size(), sizes, strides, tensor.dtype)


for name, operator in {
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "as_strided": as_strided,
    "_reshape_alias": as_strided,
}.items():
    operators.impl(name, operator)


def host(tensor):
    """The same memory as a tensor on the CPU."""
    size = span(tensor.shape, tensor.stride()) * tensor.element_size()
    memory = (ctypes.c_uint8 * size).from_address(tensor.data_ptr())
    return torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())


def random(*sizes):
    """Numbers in bfloat16, on the GPU."""
    tensor = empty(sizes, dtype=torch.bfloat16)
    host(tensor).copy_(torch.randn(sizes))
    return tensor
