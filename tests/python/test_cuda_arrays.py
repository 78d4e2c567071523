"""Arrays that only have __cuda_array_interface__, on the GPU that tests/emulator emulates on the host."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import regard

EMULATOR = Path(regard.__file__).absolute().parents[2] / "tests" / "emulator"
here = pytest.mark.skipif(not (EMULATOR / "libcuda.so.1").exists(), reason="tests/emulator is not built here")

# The emulated driver's memory is the host's, so that NumPy can read and write it.
ARRAYS = """
import ctypes, numpy, pytest, regard

core = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "libregard.so" in line))
driver = ctypes.CDLL("libcuda.so.1")
driver.fake_waits.restype = ctypes.c_char_p

def on_device(values):
    memory = ctypes.c_void_p()
    assert core.regard_memory_allocate(b"cuda", ctypes.c_int64(max(values.nbytes, 1)), ctypes.byref(memory)) == 0
    bytes_ = (ctypes.c_uint8 * values.nbytes).from_address(memory.value)
    array = numpy.frombuffer(bytes_, values.dtype).reshape(values.shape)
    array[...] = values
    return array

class Cuda:
    def __init__(self, array, **more):
        self.host = array
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False),
            "strides": array.strides, "version": 3, **more,
        }

class Typed(Cuda):
    "Such as Numba's, which has shape and dtype, too."
    shape = property(lambda self: self.host.shape)
    dtype = property(lambda self: self.host.dtype)

random = numpy.random.default_rng(0)
def draw(*shape, dtype="float32"):
    return on_device(random.standard_normal(shape).astype(dtype))

q, k, v = draw(1, 5, 2, 8), draw(1, 7, 2, 8), draw(1, 7, 2, 8)
o, lse = on_device(numpy.zeros((1, 5, 2, 8), "float32")), on_device(numpy.zeros((1, 2, 5), "float32"))
expected, expected_lse = regard.attention(q, k, v, lse=True)

def attend(q=Cuda(q), k=Cuda(k), v=Cuda(v), out=Cuda(o), lse=Cuda(lse), **options):
    o[...] = 0
    driver.fake_waits()
    results = regard.attention(q, k, v, out=out, lse=lse, **options)
    assert results[0] is out and results[1] is lse
    assert abs(o - expected).max() < 1e-5
    return driver.fake_waits().decode()
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


def run(cache, code):
    settings = {
        "LD_LIBRARY_PATH": str(EMULATOR),
        "REGARD_NVRTC": str(EMULATOR / "libnvrtc.so.13"),
        "REGARD_CACHE_DIR": str(cache),
    }
    done = subprocess.run(
        [sys.executable, "-c", ARRAYS + code], env={**os.environ, **settings}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


@here
def test_inputs_and_outputs(cache):
    run(
        cache,
        """
attend()
assert abs(lse - expected_lse).max() < 1e-5
attend(*(Typed(x) for x in (q, k, v)))
attend(*(Cuda(x, strides=None, version=2) for x in (q, k, v)))
wide = on_device(numpy.zeros((1, 5, 2, 24), "float32"))
wide[..., 8:16] = q
attend(Cuda(wide[..., 8:16]))
attend(Cuda(q, data=(q.ctypes.data, True)))
regard.check("fwd fp32 b=1 h=2 sq=5 sk=7 d=8", q=Cuda(q), k=Cuda(k), v=Cuda(v), o=Cuda(o))["ok"]
plan = regard.plan("fwd fp32 b=1 h=2 sq=5 sk=7 d=8", target="cuda")
room = on_device(numpy.zeros(plan.workspace_bytes + 64, "uint8"))
plan.run(q=Cuda(q), k=Cuda(k), v=Cuda(v), o=Cuda(o), workspace=Cuda(room))
""",
    )


@here
def test_empty_arrays_lie_nowhere(cache):
    run(
        cache,
        """
empty = Cuda(numpy.zeros((1, 0, 2, 8), "float32"), data=(0, False))
o[...] = lse[...] = 7
regard.attention(Cuda(q), empty, empty, out=Cuda(o), lse=Cuda(lse))
assert (o == 0).all() and (lse == -numpy.inf).all()
report = regard.check("fwd fp32 b=1 h=2 sq=5 sk=0 d=8", q=Cuda(q), k=empty, v=empty, o=Cuda(o))
assert report["ok"] and "skipped" not in report or not report["skipped"], report
regard.attention(empty, Cuda(k), Cuda(v), out=empty)
regard.attention(empty, empty, empty, out=empty)
""",
    )


@here
def test_a_bias_of_keys_alone_and_a_batch_of_nothing(cache):
    run(
        cache,
        """
bias = draw(1, 1, 1, 7)
whole = on_device(numpy.broadcast_to(bias, (1, 1, 5, 7)).copy())
wanted = regard.attention(q, k, v, bias=whole)
for given in (bias, whole):
    o[...] = 0
    regard.attention(Cuda(q), Cuda(k), Cuda(v), bias=Cuda(given), out=Cuda(o))
    assert abs(o - wanted).max() < 1e-5
bits = on_device(regard.pack_bits(numpy.array([1, 0, 1, 1, 0, 1, 1], bool)[None, None, None]))
wanted = regard.attention(q, k, v, bits=bits)
regard.attention(Cuda(q), Cuda(k), Cuda(v), bits=Cuda(bits), out=Cuda(o))
assert abs(o - wanted).max() < 1e-5 and abs(wanted - expected).max() > 1e-3
none = Cuda(numpy.zeros((0, 5, 2, 8), "float32"), data=(0, False))
assert regard.attention(none, none, none, out=none) is none
offsets = Cuda(on_device(numpy.zeros(1, "int32")))
rows = [Cuda(x.reshape(-1, 2, 8)) for x in (q, k, v, o)]
regard.attention(*rows[:3], out=rows[3], offsets_q=offsets, offsets_k=offsets, sq=5, sk=7)
""",
    )


@here
def test_bits_stand_for_bfloat16(cache):
    run(
        cache,
        """
bits = [on_device((x.view("uint32") >> 16).astype("uint16")) for x in (q, k, v)]
half = on_device(numpy.zeros(o.shape, "uint16"))
regard.attention(*map(Cuda, bits), out=Cuda(half), dtype="bf16")
assert abs((half.astype("uint32") << 16).view("float32") - expected).max() < 0.05
""",
    )


@here
def test_streams_of_the_arrays(cache):
    run(
        cache,
        """
def streams(*numbers):
    return [Cuda(x, stream=s) for x, s in zip((q, k, v), numbers)]

assert attend(*streams(None, None, None)) == ""
assert attend(*streams(None, None, None), stream=9) == ""
assert attend(*streams(7, 7, None)) == ""              # runs in their stream
assert attend(*streams(7, 7, 7), stream=7) == ""
assert attend(*streams(1, 1, 1), stream=0) == ""       # both numbers are the default stream
assert attend(*streams(1, None, None)) == ""

def order(waits):
    return [(int(stream), int(launches)) for stream, launches in (wait.split("@") for wait in waits.split())]

(before, first), (after, second) = order(attend(*streams(7, 9, 9), stream=9))
assert (before, after) == (7, 9) and second > first
(before, first), (other, _), (after, second) = order(attend(*streams(7, 9, 1)))
assert (before, other, after) == (9, 1, 7) and second > first
(before, first), (after, second) = order(attend(out=Cuda(o, stream=2), stream=7))   # outputs as well
assert (before, after) == (2, 7) and second > first
assert attend(*[Cuda(x, stream=7, version=2) for x in (q, k, v)], stream=9) == ""   # version 2 has none
driver.fake_waits()
regard.check("fwd fp32 b=1 h=2 sq=5 sk=7 d=8", q=Cuda(q, stream=5), k=Cuda(k), v=Cuda(v), o=Cuda(o))
assert driver.fake_waits().startswith(b"5@")
""",
    )


@here
def test_what_is_wrong_is_one_sentence(cache):
    run(
        cache,
        """
def refused(words, kind=ValueError, **arguments):
    with pytest.raises(kind) as caught:
        attend(**arguments)
    sentence = str(caught.value)
    assert "\\n" not in sentence
    for word in words:
        assert word in sentence, sentence

refused(["o is written to", "read-only"], out=Cuda(o, data=(o.ctypes.data, True)))
refused(["k's __cuda_array_interface__", "mask"], k=Cuda(k, mask=Cuda(k)))
refused(["version 4"], k=Cuda(k, version=4))
refused(["'<V2'", "bfloat16", "dtype='bf16'"], k=Cuda(k, typestr="<V2"))
refused(["bfloat16", "dtype='bf16'"], q=Cuda(q, typestr="<V2"))
refused(["'>f4'", "native byte order"], k=Cuda(k, typestr=">f4"))
refused(["float64", "fp32"], k=Cuda(k, typestr="<f8", strides=None))
refused(["'<M8'"], k=Cuda(k, typestr="<M8"))
refused(["typestr"], k=Cuda(k, typestr="<f4\\0"))
refused(["stream 0"], k=Cuda(k, stream=0))
refused(["'stream'", "whole number"], k=Cuda(k, stream="s"))
refused(["6 bytes"], k=Cuda(k, strides=(1, 6, 32, 4)))
refused(["strides"], k=Cuda(k, strides=(4,)))
refused(["'data'"], k=Cuda(k, data=5))
refused(["'k'", "shape"], k=Cuda(k, shape=(1, 6, 2, 9)))
refused(["k has shape [1, 7, 2, 8]", "does not cover"], k=Cuda(k, data=(0, False)))
refused(["o has shape [1, 5, 2, 8]", "does not cover"], out=Cuda(o, data=(0, False)))
refused(["lse has shape", "does not cover"], lse=Cuda(lse, data=(0, False)))
refused(["lengths_k has shape [1]", "does not cover"], lengths_k=Cuda(numpy.zeros(1, "int32"), data=(0, False)))
refused(["lengths_k has dtype int64", "convert it first"], lengths_k=Cuda(on_device(numpy.full(1, 7))))
with pytest.raises(ValueError, match="k has shape .* does not cover"):
    regard.check("fwd fp32 b=1 h=2 sq=5 sk=7 d=8", q=Cuda(q), k=Cuda(k, data=(0, False)), v=Cuda(v), o=Cuda(o))
plan = regard.plan("fwd fp32 b=1 h=2 sq=5 sk=7 d=8", target="cuda")
with pytest.raises(ValueError, match="workspace has no memory"):
    plan.run(q=Cuda(q), k=Cuda(k), v=Cuda(v), o=Cuda(o), workspace=Cuda(numpy.zeros(64, "uint8"), data=(0, False)))
refused(["k is in host memory", "GPU"], k=numpy.zeros((1, 7, 2, 8), "float32"))
class Nothing: __cuda_array_interface__ = None
refused(["k must be a NumPy array", "of type Nothing"], TypeError, k=Nothing())
with pytest.raises(ValueError, match="outputs for Cuda arrays on a GPU must be given"):
    regard.attention(Cuda(q), Cuda(k), Cuda(v))
with pytest.raises(ValueError, match="q is not in host memory"):
    regard.attention(Cuda(q), Cuda(k), Cuda(v), out=Cuda(o), target="cpu-generic")
""",
    )


@here
def test_gradients(cache):
    run(
        cache,
        """
bias, sink = draw(1, 2, 5, 7), draw(2)
grad_o = draw(1, 5, 2, 8)
zeros = lambda x: on_device(numpy.zeros(x.shape, "float32"))

def expect_gradients(inputs, o, lse, learned):
    names = [f"grad_{name}" for name in ("q", "k", "v", *learned)]
    wanted = regard.attention_backward(
        grad_o, *inputs, o, lse, **learned, **{name: True for name in names if name == "grad_bias"}
    )
    given = [Cuda(x) for x in (grad_o, *inputs, o, lse)]
    of_gpu = {name: Cuda(x) for name, x in learned.items()}
    for more in ({}, {"deterministic": True}):
        outputs = [on_device(numpy.full(x.shape, numpy.nan, "float32")) for x in wanted]
        out = {name: Cuda(x) for name, x in zip(names, outputs)}
        regard.attention_backward(*given, **of_gpu, **more, **out)
        for got, right in zip(outputs, wanted):
            assert abs(got - right).max() < 1e-4

o, lse = regard.attention(q, k, v, lse=True, bias=bias, sink=sink)
expect_gradients((q, k, v), on_device(o), on_device(lse), {"bias": bias, "sink": sink})

# Every other head of a larger tensor, and gradients in the same layout.
wide = draw(1, 5, 4, 8)
o, lse = regard.attention(wide[:, :, ::2], k, v, lse=True)
expect_gradients((wide[:, :, ::2], k, v), on_device(o), on_device(lse), {})

# Without rows, dK and dV are zeros.
grad_o = none = on_device(numpy.zeros((1, 0, 2, 8), "float32"))
o, lse = on_device(numpy.zeros((1, 0, 2, 8), "float32")), on_device(numpy.zeros((1, 2, 0), "float32"))
grads = [on_device(numpy.full(x.shape, numpy.nan, "float32")) for x in (none, k, v)]
names = ("grad_q", "grad_k", "grad_v")
regard.attention_backward(
    *map(Cuda, (grad_o, none, k, v, o, lse)), target="cuda", **{name: Cuda(x) for name, x in zip(names, grads)}
)
assert not any(x.any() for x in grads)

# Without sequences, sums over them are zeros as well.
empty, lse = on_device(numpy.zeros((0, 5, 2, 8), "float32")), on_device(numpy.zeros((0, 2, 5), "float32"))
grad_bias, grad_sink = (on_device(numpy.full(x.shape, numpy.nan, "float32")) for x in (draw(1, 2, 5, 5), sink))
arguments = map(Cuda, (empty, empty, empty, empty, empty, lse))
regard.attention_backward(
    *arguments, target="cuda", bias=Cuda(draw(1, 2, 5, 5)), sink=Cuda(sink), **dict.fromkeys(names, Cuda(empty)),
    grad_bias=Cuda(grad_bias), grad_sink=Cuda(grad_sink),
)
assert not grad_bias.any() and not grad_sink.any()
""",
    )
