"""Every feature through JAX, forward and gradients, against the fp64 reference: cross attention, groups, odd sizes."""

import jax
import jax.numpy as jnp
import numpy
import pytest
from beside import arrays, check, close, normal, turned

import reference
import regard
import regard.jax


@pytest.mark.parametrize(
    ("sizes", "dtype", "arguments"),
    [
        ((2, 4, 2, 17, 23, 1), "float32", {}),
        ((1, 3, 1, 1, 9, 7), "float32", {"causal": True}),
        ((2, 2, 2, 23, 11, 40), "float32", {"causal": True}),
        ((1, 2, 1, 19, 19, 59, 111), "float32", {"causal": "top_left"}),
        ((1, 4, 2, 21, 33, 40), "float32", {"window": (5, 3)}),
        ((1, 2, 2, 33, 33, 40), "float32", {"window": (4, 0), "sink_tokens": 2}),
        ((2, 4, 2, 17, 23, 111), "bfloat16", {"causal": True}),
        ((2, 4, 4, 17, 23, 40), "float16", {"scale": 0.3}),
        ((1, 2, 2, 5, 0, 40), "float32", {}),
    ],
    ids=str,
)
def test_sizes_types_and_masks(random, sizes, dtype, arguments):
    q, k, v = arrays(random, *sizes, dtype=dtype)
    seen = {name: arguments[name] for name in ("window", "sink_tokens") if name in arguments}
    seen |= {"causal": "causal" in arguments, "top_left": arguments.get("causal") == "top_left"}
    check(q, k, v, {"scale": arguments.get("scale")}, seen, **arguments)


def test_soft_cap(random):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)
    check(2 * q, k, v, {"softcap": 1.5}, {}, softcap=1.5)


@pytest.mark.parametrize("shape", [(2, 4, 17, 23), (4, 17, 23), (2, 1, 1, 23), (23,)])
def test_bias(random, shape):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)
    bias = normal(random, *shape)
    check(q, k, v, {"bias": numpy.asarray(bias, numpy.float64)}, {}, bias=bias)


@pytest.mark.parametrize("shape", [(4,), (2, 4)])
def test_alibi(random, shape):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)
    slopes = jnp.abs(normal(random, *shape))
    bias = reference.alibi(numpy.asarray(slopes, numpy.float64), 2, 17, 23)
    check(q, k, v, {"bias": bias}, {"causal": True}, alibi=slopes, causal=True)


def test_learned_sink(random):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)
    sink = normal(random, 4)
    check(q, k, v, {"sink": numpy.asarray(sink, numpy.float64)}, {"causal": True}, sink=sink, causal=True)


def test_ranges_and_bits(random):
    q, k, v = arrays(random, 2, 4, 2, 17, 40, 40)
    low = random.integers(0, 20, (2, 17))
    ranges = numpy.stack([low, low + random.integers(0, 20, (2, 17))], axis=-1)
    mask = random.random((1, 4, 17, 40)) < 0.7
    bits = regard.jax.pack_bits(mask)
    numpy.testing.assert_array_equal(bits, regard.pack_bits(mask))
    seen = {"ranges": ranges, "bits": numpy.asarray(bits)}
    check(q, k, v, {}, seen, ranges=jnp.asarray(ranges, jnp.int32), bits=bits)


@pytest.mark.parametrize("layout", ["bhsd", "sbhd"])
def test_other_orders_of_the_axes(random, layout):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)
    places = ["bshd".index(axis) for axis in layout]
    back = [layout.index(axis) for axis in "bshd"]

    def loss(q, k, v, **options):
        return (regard.jax.attention(q, k, v, causal=True, **options) ** 2).sum()

    o = regard.jax.attention(*(x.transpose(places) for x in (q, k, v)), causal=True, layout=layout)
    close(o.transpose(back), regard.jax.attention(q, k, v, causal=True))
    found = jax.grad(loss, (0, 1, 2))(*(x.transpose(places) for x in (q, k, v)), layout=layout)
    for gradient, expected in zip(found, jax.grad(loss, (0, 1, 2))(q, k, v), strict=True):
        close(gradient.transpose(back), expected)


def test_rows_past_a_length_are_zero_and_have_no_gradient(random):
    q, k, v = arrays(random, 3, 4, 2, 17, 23, 40)
    lengths_q, lengths_k = [17, 0, 5], [9, 23, 0]
    back_to_nan = {name: jnp.asarray(lengths, jnp.int32) for name, lengths in (("q", lengths_q), ("k", lengths_k))}
    q = jnp.where(jnp.arange(17)[:, None, None] < back_to_nan["q"][:, None, None, None], q, jnp.nan)
    k, v = (
        jnp.where(jnp.arange(23)[:, None, None] < back_to_nan["k"][:, None, None, None], x, jnp.nan) for x in (k, v)
    )

    @jax.jit
    def program(q, k, v, lengths_q, lengths_k):
        attend = lambda q, k, v: regard.jax.attention(  # noqa: E731
            q, k, v, lse=True, causal=True, lengths_q=lengths_q, lengths_k=lengths_k
        )
        o, lse = attend(q, k, v)
        return o, lse, jax.grad(lambda *of: (attend(*of)[0] ** 2).sum(), (0, 1, 2))(q, k, v)

    o, lse, gradients = program(q, k, v, *back_to_nan.values())
    seen = reference.visible(3, 4, 17, 23, causal=True, lengths=(lengths_q, lengths_k))
    clean = [numpy.nan_to_num(turned(x)) for x in (q, k, v)]
    expected, _ = reference.attention(*clean, reference.Options(visible=seen))
    close(o, turned(expected))
    assert not numpy.asarray(o)[1].any() and numpy.isneginf(numpy.asarray(lse)[2, :, :5]).all()
    correct = reference.gradients(2 * expected, *clean, reference.Options(visible=seen))
    for gradient, of_reference in zip(gradients, correct, strict=False):
        close(gradient, turned(of_reference))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_8_bits_go_forward(random, dtype):
    q, k, v = (x.astype(dtype) for x in arrays(random, 1, 2, 2, 17, 23, 40))
    factors = jnp.full((1, 2), 0.5, jnp.float32)
    o = regard.jax.attention(q, k, v, out="fp32", descale_q=factors, descale_k=factors, descale_v=factors)
    wide = [turned(x.astype(jnp.float32)) / 2 for x in (q, k, v)]
    seen = reference.visible(1, 2, 17, 23)
    assert o.dtype == jnp.float32
    numpy.testing.assert_allclose(
        o, turned(reference.attention(*wide, reference.Options(visible=seen))[0]), atol=0.1, rtol=0.1
    )
    with pytest.raises(ValueError, match="bwd does not take fp8"):
        jax.grad(lambda q: regard.jax.attention(q, k, v).astype(jnp.float32).sum())(q)


def packed(random, lengths_q, lengths_k, hq, hk, d):
    q, k, v = (normal(random, sum(lengths), h, d) for lengths, h in ((lengths_q, hq), (lengths_k, hk), (lengths_k, hk)))
    return q, k, v, *(numpy.cumsum([0, *lengths]) for lengths in (lengths_q, lengths_k))


def test_packed_sequences_one_by_one(random):
    """Some of them empty, with traced offsets, including gradients."""
    q, k, v, offsets_q, offsets_k = packed(random, [5, 0, 17, 1], [9, 4, 0, 23], 4, 2, 40)

    @jax.jit
    def program(q, k, v, offsets_q, offsets_k):
        attend = lambda q, k, v: regard.jax.attention(  # noqa: E731
            q, k, v, lse=True, causal=True, offsets_q=offsets_q, offsets_k=offsets_k, sq=17, sk=23
        )
        return *attend(q, k, v), jax.grad(lambda *of: (attend(*of)[0] ** 2).sum(), (0, 1, 2))(q, k, v)

    o, lse, gradients = program(q, k, v, *(jnp.asarray(x, jnp.int32) for x in (offsets_q, offsets_k)))
    eager = regard.jax.attention(q, k, v, causal=True, offsets_q=offsets_q, offsets_k=list(offsets_k))
    numpy.testing.assert_array_equal(o, eager)
    for i in range(4):
        of_q, of_k = (slice(x[i], x[i + 1]) for x in (offsets_q, offsets_k))
        one = [turned(x[None]) for x in (q[of_q], k[of_k], v[of_k])]
        seen = reference.Options(reference.visible(1, 4, one[0].shape[2], one[1].shape[2], causal=True))
        expected, expected_lse = reference.attention(*one, seen)
        close(o[of_q][None], turned(expected))
        close(lse[:, of_q][None], expected_lse)
        found = (gradients[0][of_q], gradients[1][of_k], gradients[2][of_k])
        for gradient, correct in zip(found, reference.gradients(2 * expected, *one, seen), strict=False):
            close(gradient[None], turned(correct))


def test_no_sequences_at_all():
    q = jnp.zeros((0, 5, 2, 40))
    o, lse = regard.jax.attention(q, q, q, lse=True)
    assert o.shape == (0, 5, 2, 40) and lse.shape == (0, 2, 5)


def test_lse_has_a_gradient(random):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)

    def of_scores(q, k, v):
        k, v = jnp.repeat(k, 2, 2), jnp.repeat(v, 2, 2)
        scores = jnp.einsum("bihd,bjhd->bhij", q, k) / 40**0.5
        return jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(scores), v), jax.nn.logsumexp(scores, -1)

    def attend(q, k, v):
        return regard.jax.attention(q, k, v, lse=True)

    for depends in (lambda o, lse: (o**2).sum() + (lse**2).sum(), lambda o, lse: jnp.sin(lse).sum()):
        found, expected = (
            jax.jit(jax.grad(lambda *of: depends(*results(*of)), (0, 1, 2)))(q, k, v)  # noqa: B023
            for results in (attend, of_scores)
        )
        for gradient, correct in zip(found, expected, strict=True):
            numpy.testing.assert_allclose(gradient, correct, rtol=1e-4, atol=1e-4)
    mapped = jax.vmap(jax.grad(lambda q: attend(q[None], k[:1], v[:1])[1].sum()))(q)
    close(mapped[1], jax.grad(lambda q: attend(q, k[:1], v[:1])[1].sum())(q[1:])[0])


def test_row_max(random):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)

    def call(q):
        return regard.jax.attention(q, k, v, causal=True, lse=True, row_max=True)

    o, lse, row_max = jax.jit(call)(q)
    expected = regard.attention(*(numpy.asarray(x) for x in (q, k, v)), causal=True, row_max=True)[1]
    numpy.testing.assert_array_equal(row_max, expected)
    assert (row_max <= lse).all()
    several = jax.vmap(call)(jnp.stack([q, 2 * q]))[2]
    numpy.testing.assert_allclose(several, jnp.stack([row_max, 2 * row_max]), rtol=1e-6)
    without = jax.grad(lambda q: regard.jax.attention(q, k, v, causal=True).sum())(q)
    numpy.testing.assert_array_equal(jax.grad(lambda q: call(q)[0].sum())(q), without)
    with pytest.raises(NotImplementedError, match="row_max has no gradient: use jax.lax.stop_gradient"):
        jax.grad(lambda q: call(q)[2].sum())(q)
