"""No array is copied on the way in or out, whatever its strides, and results have the type of the inputs."""

import numpy
import pytest

import regard
from regard import _core

PROBLEM = regard.Problem("fwd fp32 b=2 h=3 s=10 d=8 lse")


def array(random, *shape):
    return random.standard_normal(shape).astype("float32")


def test_the_library_sees_the_caller_s_memory(random):
    q = array(random, 2, 10, 3, 8)
    k = array(random, 2, 20, 3, 16)[:, 5:15, :, 8:]
    lse = numpy.empty((2, 3, 10), "float32")
    o = numpy.empty_like(q)
    seen = _core.addresses(PROBLEM, {"q": q, "k": k, "v": k, "o": o, "lse": lse})
    for name, given in (("q", q), ("k", k), ("v", k), ("o", o), ("lse", lse)):
        assert seen[name] == given.ctypes.data, name


def test_the_library_sees_torch_s_memory():
    torch = pytest.importorskip("torch")
    problem = regard.Problem("fwd bf16 b=2 h=3 s=10 d=8")
    q = torch.randn(2, 30, 3, 8).bfloat16()[:, ::3]
    o = torch.empty(2, 10, 3, 8, dtype=torch.bfloat16)
    seen = _core.addresses(problem, {"q": q, "o": o})
    assert seen == {"q": q.data_ptr(), "o": o.data_ptr()}


def test_outputs_are_written_where_the_caller_says(random):
    q = array(random, 2, 10, 3, 8)
    room = numpy.full((2, 20, 3, 8), 7, "float32")
    o, lse = regard.attention(q, q, q, out=room[:, ::2], lse=True)
    assert o.base is room
    assert (room[:, 1::2] == 7).all()
    expected, expected_lse = regard.attention(q, q, q, lse=True)
    assert (room[:, ::2] == expected).all()
    mine = numpy.empty((2, 3, 10), "float32")
    _, again = regard.attention(q, q, q, lse=mine)
    assert again is mine
    assert (mine == expected_lse).all()


@pytest.mark.parametrize("layout", ["bshd", "bhsd", "sbhd"])
def test_every_layout_gives_the_same_bits(random, layout):
    q, k, v = array(random, 2, 33, 4, 16), array(random, 2, 65, 2, 16), array(random, 2, 65, 2, 24)
    grad_o = array(random, 2, 33, 4, 24)
    axes = ["bshd".index(axis) for axis in layout]
    moved = [numpy.ascontiguousarray(x.transpose(axes)) for x in (q, k, v, grad_o)]
    o, lse = regard.attention(q, k, v, causal=True, lse=True)
    grads = regard.attention_backward(grad_o, q, k, v, o, lse, causal=True, deterministic=True)
    moved_o, moved_lse = regard.attention(*moved[:3], causal=True, lse=True, layout=layout)
    moved_grads = regard.attention_backward(
        moved[3], *moved[:3], moved_o, moved_lse, causal=True, deterministic=True, layout=layout
    )
    assert (moved_lse == lse).all()
    for plain, other in zip((o, *grads), (moved_o, *moved_grads)):
        assert other.flags.c_contiguous
        assert (other == plain.transpose(axes)).all()


def test_strided_views_are_taken_as_they_are(random):
    packed = array(random, 2, 10, 3, 3, 8)  # q, k and v interleaved, as a single projection gives them
    q, k, v = packed[:, :, 0], packed[:, :, 1], packed[:, :, 2]
    assert (regard.attention(q, k, v) == regard.attention(q.copy(), k.copy(), v.copy())).all()


def test_read_only_inputs_are_taken(random):
    q = array(random, 1, 10, 3, 8)
    expected = regard.attention(q, q, q)
    q.flags.writeable = False
    assert (regard.attention(q, q, q) == expected).all()


def test_bfloat16_without_a_numpy_type(random):
    values = array(random, 2, 10, 3, 64)
    bits = (values.view("uint32") >> 16).astype("uint16")
    rounded = (bits.astype("uint32") << 16).view("float32")
    o, lse = regard.attention(bits, bits, bits, dtype="bf16", lse=True)
    assert o.dtype == numpy.uint16
    exact, exact_lse = regard.attention(rounded, rounded, rounded, lse=True)
    numpy.testing.assert_allclose((o.astype("uint32") << 16).view("float32"), exact, atol=2e-2, rtol=1e-2)
    numpy.testing.assert_allclose(lse, exact_lse, atol=1e-3)


def test_bfloat16_of_ml_dtypes(random):
    types = pytest.importorskip("ml_dtypes")
    q = array(random, 1, 10, 3, 64).astype(types.bfloat16)
    o = regard.attention(q, q, q)
    assert o.dtype == types.bfloat16
    expected = regard.attention(q.view("uint16"), q.view("uint16"), q.view("uint16"), dtype="bf16")
    assert (o.view("uint16") == expected).all()


def test_eight_bit_floats():
    torch = pytest.importorskip("torch")
    q = torch.randn(1, 40, 2, 64).to(torch.float8_e4m3fn)
    factor = torch.tensor([0.5])
    o = regard.attention(
        *(x.view(torch.uint8) for x in (q, q, q)), dtype="fp8", descale_q=factor, descale_k=factor, descale_v=factor
    )
    exact = 0.5 * q.double()
    expected = torch.nn.functional.scaled_dot_product_attention(*[exact.transpose(1, 2)] * 3).transpose(1, 2)
    torch.testing.assert_close(o.double(), expected, atol=3e-2, rtol=5e-2)
    assert o.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_results_have_the_inputs_type(random, dtype):
    q = array(random, 1, 10, 3, 8).astype(dtype)
    o, lse = regard.attention(q, q, q, lse=True)
    assert type(o) is numpy.ndarray
    assert (o.dtype, lse.dtype) == (q.dtype, numpy.float32)


def test_torch_s_eight_bit_type_is_taken_as_it_is():
    torch = pytest.importorskip("torch")
    q = torch.randn(1, 40, 2, 64).to(torch.float8_e4m3fn)
    as_bytes = q.view(torch.uint8)
    assert torch.equal(regard.attention(q, q, q), regard.attention(as_bytes, as_bytes, as_bytes, dtype="fp8"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_arrays_of_jax(random, dtype):
    jax = pytest.importorskip("jax")
    q = jax.numpy.asarray(array(random, 1, 10, 3, 64)).astype(dtype)
    o, lse = regard.attention(q, q, q, lse=True)
    assert isinstance(o, jax.Array) and o.dtype == q.dtype and lse.shape == (1, 3, 10)
    expected = regard.attention(*[numpy.asarray(q, "float32")] * 3)
    numpy.testing.assert_allclose(numpy.asarray(o, "float32"), expected, atol=2e-2, rtol=2e-2)


def test_broadcast_inputs_are_taken_as_they_are(random):
    q = array(random, 3, 8, 4, 16)
    k = numpy.broadcast_to(array(random, 1, 20, 1, 16), (3, 20, 4, 16))
    bias = numpy.broadcast_to(array(random, 1, 1, 1, 20), (1, 1, 8, 20))
    expected = regard.attention(q, k.copy(), k.copy(), bias=bias.copy())
    assert (regard.attention(q, k, k, bias=bias) == expected).all()
