"""Arrays in the memory of the AMD GPUs of the tests' drivers, which is the host's memory, so that NumPy sees it."""

import ctypes
from pathlib import Path

import numpy

import regard  # noqa: F401, loads the library


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]
    _fields_ += [("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8)]
    _fields_ += [("lanes", ctypes.c_uint16), ("sizes", ctypes.c_void_p), ("strides", ctypes.c_void_p)]
    _fields_ += [("byte_offset", ctypes.c_uint64), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
core = ctypes.CDLL(next(x.split()[-1] for x in Path("/proc/self/maps").read_text().splitlines() if "libregard.so" in x))
FLOAT, BFLOAT = 2, 4  # DLPack's codes


def memory_of(gpu, size):
    """The address of so many bytes."""
    memory = ctypes.c_void_p()
    assert core.regard_memory_allocate(gpu, ctypes.c_int64(max(size, 1)), ctypes.byref(memory)) == 0
    return memory.value


def on_device(values, gpu=b"hip"):
    """A copy in the memory of the GPU, which NumPy sees."""
    bytes_ = (ctypes.c_uint8 * values.nbytes).from_address(memory_of(gpu, values.nbytes))
    array = numpy.frombuffer(bytes_, values.dtype).reshape(values.shape)
    array[...] = values
    return array


class Rocm:
    """The elements of a NumPy array of floats, or of uint16 that stand for bfloat16, on the device of that type."""

    def __init__(self, array, type_=10):
        self.host, self.shape = array, array.shape
        self.dtype = "bfloat16" if array.dtype == "uint16" else array.dtype
        self.sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = (ctypes.c_int64 * array.ndim)(*(bytes_ // array.itemsize for bytes_ in array.strides))
        code = BFLOAT if array.dtype == "uint16" else FLOAT
        self.kept = Tensor(
            array.ctypes.data,
            type_,
            0,
            array.ndim,
            code,
            8 * array.itemsize,
            1,
            ctypes.addressof(self.sizes),
            ctypes.addressof(self.strides),
            0,
            None,
            None,
        )

    def __dlpack_device__(self):
        return (self.kept.device_type, 0)

    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.kept), b"dltensor", None)
