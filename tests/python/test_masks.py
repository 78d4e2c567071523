"""Masks, biases and lengths in the shapes and types that users have; empty batches."""

import json

import numpy
import pytest

import regard
from reference import Options
from reference import attention as reference

B, H, SQ, SK, D = 2, 4, 9, 70, 16
FAMILIES = (None, "generic")


def draw(random, *shape):
    return random.standard_normal(shape).astype("float32")


@pytest.fixture
def tensors(random):
    return draw(random, B, SQ, H, D), draw(random, B, SK, 2, D), draw(random, B, SK, 2, D)


def torch_too(array):
    """The array, and a PyTorch tensor over its memory if PyTorch is installed."""
    yield array
    try:
        import torch
    except ImportError:
        return
    yield torch.from_numpy(array)


BIASES = [
    (B, 1, 1, SK),
    (1, 1, 1, SK),
    (1, H, 1, SK),
    (B, H, 1, SK),
    (H, SQ, SK),
    (1, SQ, SK),
    (SQ, SK),
    (1, SK),
    (SK,),
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", BIASES)
def test_a_bias_is_broadcast(random, tensors, shape, family):
    bias = draw(random, *shape)
    whole = numpy.broadcast_to(bias, (B, H, SQ, SK)).copy()
    o, lse = regard.attention(*tensors, bias=whole, lse=True, family=family)
    for _ in range(2):  # PyTorch's second call takes another path
        for given, mine in zip(zip(*map(torch_too, tensors)), torch_too(bias)):
            got, got_lse = regard.attention(*given, bias=mine, lse=True, family=family)
            assert (numpy.asarray(got) == o).all() and (numpy.asarray(got_lse) == lse).all()
    for mine, theirs in zip(
        regard.attention_backward(o, *tensors, o, lse, bias=bias, family=family, deterministic=True),
        regard.attention_backward(o, *tensors, o, lse, bias=whole, family=family, deterministic=True),
    ):
        assert (mine == theirs).all()


def test_the_oracle_broadcasts_as_the_kernels_do(random, tensors):
    bias, mask = draw(random, B, 1, 1, SK), random.random((B, 1, 1, SK)) < 0.7
    bits = regard.pack_bits(mask)
    o, lse = regard.attention(*tensors, bias=bias, bits=bits, lse=True)
    q, k, v = tensors
    sizes = f"fp32 b={B} hq={H} hk=2 sq={SQ} sk={SK} d={D} bias=b1 bits"
    assert regard.check(f"fwd {sizes} lse", q=q, k=k, v=v, bias=bias, bits=bits, o=o, lse=lse)["ok"]
    grads = dict(
        zip(("grad_q", "grad_k", "grad_v"), regard.attention_backward(o, q, k, v, o, lse, bias=bias, bits=bits))
    )
    report = regard.check(f"bwd {sizes}", q=q, k=k, v=v, bias=bias, bits=bits, o=o, lse=lse, grad_o=o, **grads)
    assert report["ok"], json.dumps(report)


def test_a_bias_of_fp32_beside_16_bits_is_added_as_it_is(random):
    """[-1e5, -1e5 + 1] and [7e4, 7e4] are -inf and inf in half precision; so is every number of the third bias."""
    q, k = numpy.zeros((1, 1, 1, 8), "float16"), numpy.zeros((1, 2, 1, 8), "float16")
    v = numpy.broadcast_to(numpy.array([0, 1], "float16")[None, :, None, None], k.shape).copy()
    for family in FAMILIES:
        for bias, second in (([-1e5, -1e5 + 1], 0.7310586), ([7e4, 7e4], 0.5)):
            o = regard.attention(q, k, v, bias=numpy.array([[bias]], "float32"), family=family)
            assert o.dtype == "float16" and abs(float(o[0, 0, 0, 0]) - second) < 2**-10

        tensors = [x.astype("float16") for x in (draw(random, B, SQ, H, D), *(draw(random, B, SK, H, D),) * 2)]
        bias = 1e5 + draw(random, 1, H, SQ, SK)
        o, lse = regard.attention(*tensors, bias=bias, lse=True, family=family)
        gradients = regard.attention_backward(o, *tensors, o, lse, bias=bias, grad_bias=True, family=family)
        sizes = f"fp16 b={B} h={H} sq={SQ} sk={SK} d={D} bias=1h bias_type=fp32"
        given = dict(zip(("q", "k", "v", "grad_q", "grad_k", "grad_v", "grad_bias"), (*tensors, *gradients)))
        assert gradients[3].dtype == "float32"
        assert regard.check(f"bwd {sizes} dbias", **given, bias=bias, o=o, lse=lse, grad_o=o)["ok"]


@pytest.mark.parametrize(("of_q", "of_bias"), [("float16", "float64"), ("float32", "float16"), ("float16", "int16")])
def test_a_bias_of_another_type_is_refused(of_q, of_bias):
    q = numpy.zeros((1, 9, 2, 8), of_q)
    with pytest.raises(ValueError, match="bias"):
        regard.attention(q, q, q, bias=numpy.zeros((9, 9), of_bias))


def test_one_query_s_bias_has_its_gradient(random):
    q, k = draw(random, B, 1, H, D), draw(random, B, SK, H, D)
    bias = draw(random, B, 1, 1, SK)
    o, lse = regard.attention(q, k, k, bias=bias, lse=True)
    assert regard.attention_backward(o, q, k, k, o, lse, bias=bias, grad_bias=True)[3].shape == bias.shape


MASKS = [(B, H, SQ, SK), (1, 1, SQ, SK), (B, 1, 1, SK), (1, H, 1, SK), (H, SQ, SK), (SQ, SK), (SK,)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", MASKS)
def test_bits_of_a_boolean_mask(random, tensors, shape, family):
    mask = random.random(shape) < 0.6
    mask[..., 3] = True  # no row without keys
    q, k, v = (x.swapaxes(1, 2) for x in tensors)
    expected, _ = reference(q, k, v, Options(visible=numpy.broadcast_to(mask, (B, H, SQ, SK))))
    for _ in range(2):
        for given, mine in zip(zip(*map(torch_too, tensors)), torch_too(mask)):
            bits = regard.pack_bits(mine)
            assert type(bits) is type(mine) and tuple(bits.shape) == (*shape[:-1], 3)
            got = numpy.asarray(regard.attention(*given, bits=bits, family=family))
            numpy.testing.assert_allclose(got.swapaxes(1, 2), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("keys", [0, 1, 7, 8, 31, 32, 33, 64, 100])
def test_words_of_bits(random, keys):
    mask = random.random((3, 2, keys)) < 0.5
    words = numpy.zeros((3, 2, -(-keys // 32)), "uint32")
    for i, j, key in numpy.argwhere(mask):
        words[i, j, key // 32] |= numpy.uint32(1) << numpy.uint32(key % 32)
    for given in (*torch_too(mask), numpy.asfortranarray(mask), mask[::-1][::-1], mask.tolist() if keys else mask):
        bits = regard.pack_bits(given)
        assert str(bits.dtype).endswith("uint32")
        assert numpy.array_equal(numpy.asarray(bits), words)


def test_lengths_and_offsets_of_other_types(random, tensors):
    lengths = numpy.array([3, SK], "int32")
    expected = regard.attention(*tensors, lengths_k=lengths)
    wide = numpy.repeat(lengths.astype("int64"), 3)[::3]  # with gaps
    for _ in range(2):
        for given in ([3, SK], (3, SK), lengths.astype("int64"), wide, *torch_too(lengths.astype("int64"))):
            assert (regard.attention(*tensors, lengths_k=given) == expected).all()
        for given, mine in zip(zip(*map(torch_too, tensors)), torch_too(lengths.astype("int64"))):
            assert (numpy.asarray(regard.attention(*given, lengths_k=mine)) == expected).all()
            assert (numpy.asarray(regard.attention(*given, lengths_k=[3, SK])) == expected).all()
            assert (numpy.asarray(regard.attention(*given, lengths_k=(3, SK))) == expected).all()
    q, k, v = (x.reshape(-1, *x.shape[2:]) for x in tensors)
    bounds_q, bounds_k = numpy.array([0, 4, 18], "int32"), numpy.array([0, 60, 140], "int32")
    expected = regard.attention(q, k, v, offsets_q=bounds_q, offsets_k=bounds_k)
    for make in (list, tuple, lambda x: x.astype("int64")):
        assert (regard.attention(q, k, v, offsets_q=make(bounds_q), offsets_k=make(bounds_k)) == expected).all()
    ranges = numpy.stack([numpy.zeros(SQ), numpy.arange(1, SQ + 1)], axis=-1)[None].astype("int64")
    expected = regard.attention(*tensors, ranges=ranges.astype("int32"))
    assert (regard.attention(*tensors, ranges=ranges) == expected).all()
    assert (regard.attention(*tensors, ranges=ranges.tolist()) == expected).all()
    plan = regard.plan(f"fwd fp32 b={B} hq={H} hk=2 sq={SQ} sk={SK} d={D} lengths")
    q, k, v = tensors
    o = numpy.zeros_like(q)
    plan.run(q=q, k=k, v=v, o=o, lengths_k=[3, SK])
    assert (o == regard.attention(*tensors, lengths_k=lengths)).all()


@pytest.mark.parametrize("layout", ["bshd", "bhsd", "sbhd"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_of_nothing(layout, family):
    shape = [{"b": 0, "s": 5, "h": 2, "d": 8}[axis] for axis in layout]
    sink = numpy.ones(2, "float32")
    for q in torch_too(numpy.zeros(shape, "float32")):
        for options in ({}, {"causal": True}, {"sink": sink, "bias": numpy.zeros((1, 2, 5, 5), "float32")}):
            o, lse = regard.attention(q, q, q, lse=True, layout=layout, family=family, **options)
            assert tuple(o.shape) == tuple(shape) and tuple(lse.shape) == (0, 2, 5)
            requested = {"grad_bias": True} if "bias" in options else {}
            grads = regard.attention_backward(o, q, q, q, o, lse, layout=layout, family=family, **options, **requested)
            assert all(tuple(grad.shape) == tuple(shape) for grad in grads[:3])
            assert [tuple(grad.shape) for grad in grads[3:]] == ([(1, 2, 5, 5), (2,)] if requested else [])
            assert all((numpy.asarray(grad) == 0).all() for grad in grads[3:])


def test_packed_sequences_of_nothing():
    q, none = numpy.zeros((0, 2, 8), "float32"), numpy.zeros(1, "int32")
    assert regard.attention(q, q, q, offsets_q=none, offsets_k=none).shape == (0, 2, 8)
    assert regard.attention(q, q, q, offsets_q=[0], offsets_k=[0], lse=True)[1].shape == (2, 0)


def test_gradients_without_a_batch_are_written():
    room = numpy.full((1, 2, 5, 12), 7, "float32")
    q, lse, sink = numpy.zeros((0, 5, 2, 8), "float32"), numpy.zeros((0, 2, 5), "float32"), numpy.full(2, 7, "float32")
    bias = numpy.zeros((1, 2, 5, 5), "float32")
    regard.attention_backward(q, q, q, q, q, lse, bias=bias, grad_bias=room[..., :5], sink=sink.copy(), grad_sink=sink)
    assert (room[..., :5] == 0).all() and (room[..., 5:] == 7).all() and (sink == 0).all()
    inputs = {"q": q, "k": q, "v": q, "o": q, "lse": lse, "grad_o": q, "bias": bias, "sink": sink}
    outputs = {"grad_q": q, "grad_k": q, "grad_v": q, "grad_bias": numpy.zeros_like(bias), "grad_sink": sink.copy()}
    assert regard.check("bwd fp32 b=0 h=2 s=5 d=8 bias=1h dbias sink", **inputs, **outputs)["ok"]
    assert not regard.check(
        "bwd fp32 b=0 h=2 s=5 d=8 bias=1h dbias sink", **inputs, **outputs | {"grad_sink": sink + 1}
    )["ok"]
