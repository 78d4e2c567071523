"""Arrays on AMD's GPUs: DLPack's kDLROCM, and a PyTorch built for ROCm as far as it can be pretended. The driver that
records (tests/gpu/fake_driver) stands in for ROCm's runtime."""

import os
import subprocess
import sys

import pytest
from places import BUILD

DRIVER = BUILD / "tests" / "fake_driver"
here = pytest.mark.skipif(not (DRIVER / "libamdhip64.so.6").exists(), reason="the driver that records is not built")

ARRAYS = """
import ctypes, numpy, regard
from regard.arrays import gpu_of

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]
    _fields_ += [("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8)]
    _fields_ += [("lanes", ctypes.c_uint16), ("sizes", ctypes.c_void_p), ("strides", ctypes.c_void_p)]
    _fields_ += [("byte_offset", ctypes.c_uint64), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

class Rocm:
    "fp32 on the device of that type."
    def __init__(self, memory, shape, type_=10):
        self.shape, self.dtype = shape, numpy.dtype("float32")
        sizes = self.sizes = (ctypes.c_int64 * len(shape))(*shape)
        self.kept = Tensor(memory, type_, 0, len(shape), 2, 32, 1, ctypes.addressof(sizes), None, 0, None, None)
    def __dlpack_device__(self):
        return (self.kept.device_type, 0)
    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.kept), b"dltensor", None)

core = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "libregard.so" in line))
memory = ctypes.c_void_p()
assert core.regard_memory_allocate(b"hip", ctypes.c_int64(1 << 20), ctypes.byref(memory)) == 0
q = Rocm(memory.value, (1, 5, 2, 64))
"""


def run(code):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(DRIVER)}
    done = subprocess.run([sys.executable, "-c", ARRAYS + code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@here
def test_arrays_of_rocm_are_computed_by_hip():
    run("""
assert gpu_of("q", q) == "hip" and gpu_of("q", Rocm(1, (1,), 2)) == "cuda" and gpu_of("q", Rocm(1, (1,), 1)) is None
try:
    regard.attention(q, q, q, out=q, family="sm90_forward")
except regard.RefusedError as refused:
    assert "on gfx942: only 'sm90_forward' was asked for" in str(refused), refused
else:
    raise AssertionError
try:
    regard.attention(q, q, q, out=q, target="cpu-generic")
except ValueError as refused:
    assert "q is not in host memory" in str(refused) and "target='hip'" in str(refused)
else:
    raise AssertionError
""")


@here
def test_pytorch_for_rocm():
    """Its GPUs' device is "cuda", and the type is ROCm's."""
    pytest.importorskip("torch")
    run("""
import torch
torch.version.hip = "6.4"
from regard.torch import taking
assert taking._GPU == "hip"
query = torch.zeros(1, 2, 5, 64)
assert gpu_of("q", query) is None
o = regard.attention(*[query.transpose(1, 2)] * 3)  # tensors on the CPU are taken as before
assert o.shape == (1, 5, 2, 64)
""")


@here
def test_jax_on_rocm():
    pytest.importorskip("jax")
    run("""
import jax
from regard.jax import targets
assert set(targets.platforms()) == {"cpu"}  # this JAX has no such platform
jax.devices = lambda name: [name] if name == "rocm" else []
targets.platforms.cache_clear()
assert targets.platforms() == {"cpu": None, "rocm": "hip"}
""")
