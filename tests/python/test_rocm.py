"""Arrays on AMD's GPUs: DLPack's kDLROCM, and a PyTorch built for ROCm as far as it can be pretended. The driver that
records (tests/gpu/fake_driver) stands in for ROCm's runtime, or, where kernels compute, tests/emulator/hip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import BUILD

DRIVER, EMULATOR = BUILD / "tests" / "fake_driver", BUILD / "tests" / "emulator"
here = pytest.mark.skipif(not (DRIVER / "libamdhip64.so.6").exists(), reason="the driver that records is not built")
emulated = pytest.mark.skipif(not (EMULATOR / "libhiprtc.so.6").exists(), reason="tests/emulator is not built here")

BEGIN = """
import numpy, regard
from regard.arrays import gpu_of
from rocm_arrays import Rocm, on_device

q = Rocm(on_device(numpy.zeros((1, 5, 2, 64), "float32")))
"""


def run(code, folder=DRIVER, **settings):
    path = f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": path, "LD_LIBRARY_PATH": str(folder), **settings}
    done = subprocess.run([sys.executable, "-c", BEGIN + code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@here
def test_arrays_of_rocm_are_computed_by_hip():
    run("""
assert gpu_of("q", q) == "hip" and gpu_of("q", Rocm(q.host, 2)) == "cuda" and gpu_of("q", Rocm(q.host, 1)) is None
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


NUMBERS = """
import os

random = numpy.random.default_rng(0)
def draw(*shape):
    return random.standard_normal(shape).astype("float32")

def compare(got, expected, tolerance):
    assert numpy.isfinite(got).all() and abs(got - expected).max() < tolerance, abs(got - expected).max()
"""


def computed(code, chip):
    run(NUMBERS + code, EMULATOR, REGARD_HIPRTC=str(EMULATOR), EMULATED_CHIP=chip)


@emulated
def test_arrays_of_rocm_are_computed_right():
    """Forward and backward, by the same calls as on the CPU, whose results are the expected ones."""
    computed(
        """
# Every other head of a larger tensor in fp32.
wide, k, v, grad_o = (
    draw(1, s, heads, 64) for s, heads in ((40, 4), (70, 1), (70, 1), (40, 2))
)
expected, expected_lse = regard.attention(wide[:, :, ::2], k, v, lse=True, causal=True)
of_gpu = [Rocm(on_device(x)) for x in (wide, k, v)]
of_gpu[0] = Rocm(of_gpu[0].host[:, :, ::2])
o, lse = (Rocm(on_device(numpy.full(x.shape, numpy.nan, "float32"))) for x in (expected, expected_lse))
results = regard.attention(*of_gpu, lse=lse, causal=True, out=o)
assert results[0] is o and results[1] is lse
compare(o.host, expected, 1e-5)
compare(lse.host, expected_lse, 1e-5)

names = ("grad_q", "grad_k", "grad_v")
right = regard.attention_backward(grad_o, wide[:, :, ::2], k, v, expected, expected_lse, causal=True)
grads = {name: Rocm(on_device(numpy.full(x.shape, numpy.nan, "float32"))) for name, x in zip(names, right)}
regard.attention_backward(Rocm(on_device(grad_o)), *of_gpu, o, lse, causal=True, **grads)
for name, x in zip(names, right):
    compare(grads[name].host, x, 1e-4)
""",
        "gfx942",
    )


@emulated
@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_a_plan_is_made_for_the_chip_that_is_there(chip):
    computed(
        """
def bits(x):  # bfloat16, which NumPy does not have
    return (x.view("uint32") >> 16).astype("uint16")

def floats(x):
    return (x.astype("uint32") << 16).view("float32")

# bfloat16, and a plan that runs twice in a workspace of the caller.
given = [bits(draw(2, s, 2, 64)) for s in (50, 150, 150)]
expected = regard.attention(*map(floats, given))
o = Rocm(on_device(numpy.zeros((2, 50, 2, 64), "uint16")))
regard.attention(*(Rocm(on_device(x)) for x in given), out=o)
compare(floats(o.host), expected, 0.03)
plan = regard.plan("fwd bf16 b=2 h=2 sq=50 sk=150 d=64 splits=2", target="hip")
assert plan.target == os.environ["EMULATED_CHIP"] and plan.workspace_bytes > 0
room = Rocm(on_device(numpy.zeros(plan.workspace_bytes // 4 + 16, "float32")))
for _ in range(2):
    o.host[...] = 0
    plan.run(**dict(zip("qkv", (Rocm(on_device(x)) for x in given))), o=o, workspace=room)
    compare(floats(o.host), expected, 0.03)
report = regard.check("fwd bf16 b=2 h=2 sq=50 sk=150 d=64", **dict(zip("qkv", map(Rocm, map(on_device, given)))), o=o)
assert report["ok"], report
""",
        chip,
    )


@emulated
def test_what_the_gpu_cannot_is_said():
    run(
        """
import pytest
k = v = q
out = {"out": Rocm(on_device(q.host)), "causal": True}
with pytest.raises(regard.NoKernelError, match="target gfx1100 does not run on Fake Instinct, which is gfx942"):
    regard.attention(q, k, v, **out, target="gfx1100")
with pytest.raises(regard.InvalidError, match="k is in host memory"):
    regard.attention(q, numpy.zeros((1, 5, 2, 64), "float32"), v, **out)
nvidias = Rocm(on_device(q.host, b"cuda"), 2)
with pytest.raises(regard.InvalidError, match="k"):
    regard.attention(q, nvidias, v, **out)
regard.attention(q, k, v, **out, target="gfx9-4-generic")  # its family's code

plan = regard.plan("fwd fp32 h=2 sq=5 sk=5 d=64 splits=2", target="hip")
room = Rocm(on_device(numpy.zeros(plan.workspace_bytes // 4 + 16, "float32")))
room.kept.byte_offset = 4
with pytest.raises(regard.InvalidError, match="not aligned to 64 bytes; pass memory as the GPU's allocator gives it"):
    plan.run(q=q, k=k, v=v, o=out["out"], workspace=room)
""",
        EMULATOR,
        REGARD_HIPRTC=str(EMULATOR),
        EMULATED_CHIP="gfx942",
    )


@emulated
def test_pytorch_for_rocm_on_its_gpu():
    """What the fronts compute of its tensors; gradients by autograd need a PyTorch that has the device."""
    pytest.importorskip("torch")
    run(
        """
from rocm_torch import host, random  # before regard, which then finds a PyTorch for ROCm
import torch
import regard.flash_attn, regard.torch

query, key, value, grad_o = (random(1, s, heads, 64) for s, heads in ((40, 2), (70, 1), (70, 1), (40, 2)))
given = query, key, value
assert query.is_cuda and gpu_of("query", query) == "hip"

def compare(results, expected, tolerance=0.02):
    for got, right in zip(results, expected):
        assert got.is_cuda and not right.is_cuda
        assert (host(got).float() - right.float()).abs().max() < tolerance

def sdpa(*tensors):
    return [regard.torch.sdpa(*(x.transpose(1, 2) for x in tensors), is_causal=True, enable_gqa=True)]

def flash(*tensors):
    return [regard.flash_attn.flash_attn_func(*tensors, causal=True)]

def both_passes(grad_o, *tensors):
    o, lse = regard.attention(*tensors, lse=True, causal=True)
    return [o, lse, *regard.attention_backward(grad_o, *tensors, o, lse, causal=True)]

for call in (sdpa, flash):
    compare(call(*given), call(*map(host, given)))
given = grad_o, *given
compare(both_passes(*given), both_passes(*map(host, given)), 0.1)
""",
        EMULATOR,
        REGARD_HIPRTC=str(EMULATOR),
        EMULATED_CHIP="gfx942",
    )
