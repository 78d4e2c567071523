"""Results of regard.jax next to the fp64 reference, whose arrays are [b, h, s, d]."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy

import reference
import regard.jax

TOLERANCE = {"float32": 2e-5, "bfloat16": 2e-2, "float16": 2e-3}


def arrays(random, b, hq, hk, sq, sk, d, dv=None, dtype="float32"):
    """q, k, v as [b, s, h, d], in numbers that the dtype can represent."""
    shapes = (b, sq, hq, d), (b, sk, hk, d), (b, sk, hk, dv or d)
    return [jnp.asarray(random.standard_normal(shape), dtype) for shape in shapes]


def normal(random, *shape):
    return jnp.asarray(random.standard_normal(shape), jnp.float32)


def turned(x):
    """[b, s, h, d] and [b, h, s, d], one from the other, in fp64."""
    return numpy.swapaxes(numpy.asarray(x, numpy.float64), 1, 2)


def close(found, expected, dtype="float32"):
    tolerance = TOLERANCE[str(jnp.dtype(dtype))]
    found, expected = numpy.asarray(found, numpy.float64), numpy.asarray(expected, numpy.float64)
    assert found.shape == expected.shape
    finite = numpy.abs(expected[numpy.isfinite(expected)])
    scale = max(1.0, finite.max(initial=0.0))
    numpy.testing.assert_allclose(found, expected, atol=tolerance * scale, rtol=tolerance)


def check(q, k, v, options, seen, differentiable=("bias", "sink"), **arguments):
    """O, LSE and every gradient, in a compiled program. `options` are the reference's except for visibility."""
    visible = reference.visible(q.shape[0], q.shape[2], q.shape[1], k.shape[1], **seen)
    expected = reference.Options(visible=visible, **options)
    names = [name for name in differentiable if name in arguments]
    of = dict(zip(("q", "k", "v"), (q, k, v), strict=True)) | {name: arguments.pop(name) for name in names}

    @jax.jit
    def program(of, grad_o):
        o, back, lse = jax.vjp(lambda of: regard.jax.attention(**of, lse=True, **arguments), of, has_aux=True)
        return o, lse, *back(grad_o)

    grad_o = jax.random.normal(jax.random.key(5), (*q.shape[:3], v.shape[3])).astype(q.dtype)
    o, lse, gradients = program(of, grad_o)
    turned_o, turned_lse = reference.attention(turned(q), turned(k), turned(v), expected)
    close(o, turned(turned_o), q.dtype)
    close(lse, turned_lse, q.dtype)
    grad_q, grad_k, grad_v, grad_scores, grad_sink = reference.gradients(
        turned(grad_o), turned(q), turned(k), turned(v), expected
    )
    for name, gradient in (("q", grad_q), ("k", grad_k), ("v", grad_v)):
        close(gradients[name], turned(gradient), q.dtype)
    if "bias" in of:
        shape = of["bias"].shape
        full = (1,) * (4 - len(shape)) + shape
        shared = tuple(axis for axis in range(4) if full[axis] == 1 != grad_scores.shape[axis])
        close(gradients["bias"], grad_scores.sum(axis=shared, keepdims=True).reshape(shape), q.dtype)
    if "sink" in of:
        close(gradients["sink"], grad_sink, q.dtype)
