"""Calls the handler of CUDA or ROCM with a driver that records, whose GPU has the host's memory
(tests/gpu/fake_driver)."""

import ctypes
import sys
from pathlib import Path

from foreign import EXHAUSTED, INVALID, STREAM, UNIMPLEMENTED, answer

import regard

PLATFORM = sys.argv[1]
GPU = {"CUDA": "cuda", "ROCM": "hip"}[PLATFORM]
REFUSAL = {"cuda": "it does not take fp32", "hip": "only 'sm90_forward' was asked for"}[GPU]
BF16, F32 = 16, 11
library = ctypes.CDLL(str(Path(regard.__file__).parent / "libregard.so.0"))
kept, streams = [], []


class Launch(ctypes.Structure):
    _fields_ = [("sizes", ctypes.c_uint * 3), ("stream", ctypes.c_void_p)]


LAUNCHED = ctypes.CFUNCTYPE(None, ctypes.POINTER(Launch), ctypes.c_void_p)


class FakeDriver(ctypes.Structure):
    _fields_ = [("devices", ctypes.c_int * 4), ("error_text", ctypes.c_char_p), ("counts", ctypes.c_int * 13)]
    _fields_ += [("most_bytes", ctypes.c_longlong), ("on_launch", LAUNCHED)]


@LAUNCHED
def launched(launch, _):
    streams.append(launch.contents.stream)


fake = ctypes.CDLL("libcuda.so.1").fake_driver
fake.restype = ctypes.POINTER(FakeDriver)
fake().contents.on_launch = launched


def memory(size):
    address = ctypes.c_void_p()
    assert library.regard_memory_allocate(GPU.encode(), ctypes.c_int64(size), ctypes.byref(address)) == 0
    kept.append(address)
    return address.value


def call(problem, inputs, outputs, target="", family="", scratch=1 << 20, **more):
    text = {"problem": problem, "inputs": " ".join(inputs), "outputs": " ".join(outputs), "target": target}
    text |= {"family": family, "functions": "", "threads": 0}
    of = regard.Problem(problem).tensors
    arrays = [
        [(F32 if of[name].dtype == "fp32" else BF16, of[name].shape, memory(1 << 20)) for name in names]
        for names in (inputs, outputs)
    ]
    workspace = [(6, (scratch,), memory(scratch))] if scratch else []
    return answer(PLATFORM, arrays[0], [*arrays[1], *workspace], text, **more)


forward = "fwd fp32 b=1 h=2 s=128 d=64 lse"
assert call(forward, ["q", "k", "v"], ["o", "lse"]) == []
assert streams and set(streams) == {STREAM}
backward = ["q", "k", "v", "o", "lse", "grad_o"], ["grad_q", "grad_k", "grad_v"]
streams.clear()
assert call("bwd fp32 b=1 h=2 s=128 d=64", *backward) == []
assert streams == [STREAM] * 3

# A program from another machine, whose workspace is too small or missing.
taken, freed = [], []


def take(size):
    taken.append((memory(size), size))
    return taken[-1][0]


needed = regard.plan("bwd fp32 b=1 h=2 s=128 d=64", target=GPU).workspace_bytes
for scratch in (0, 64, needed - 1):
    assert call("bwd fp32 b=1 h=2 s=128 d=64", *backward, scratch=scratch, allocate=take, freed=freed) == []
assert [size for _, size in taken] == [needed + 64] * 3 and freed == taken, (taken, freed)
((code, sentence),) = call("bwd fp32 b=1 h=2 s=128 d=64", *backward, scratch=0, allocate=lambda _: 0)
assert code == EXHAUSTED and "no memory on the GPU for a workspace of" in sentence, sentence
((code, sentence),) = call(forward, ["q", "k", "v"], ["o", "lse"], family="sm90_forward")
assert code == UNIMPLEMENTED and REFUSAL in sentence, sentence
((code, sentence),) = call(forward, ["q", "k", "v"], ["o", "lse"], target="cpu-generic")
assert code == INVALID and "target cpu-generic is not where the arrays are" in sentence, sentence
print("as it should be")
