"""regard.jax.merge and its gradients."""

import jax
import jax.numpy as jnp
import numpy
import pytest
from beside import arrays, close

import regard
import regard.jax

merge = regard.jax.merge


def parts(random, *rows):
    o = random.standard_normal((3, *rows, 2, 8), numpy.float32)
    lse = random.standard_normal((3, *rows[:-1], 2, rows[-1]), numpy.float32)
    o[1, ..., 2, 0, :], lse[1, ..., 0, 2] = numpy.nan, -numpy.inf
    o[:, ..., 3, 1, :], lse[:, ..., 1, 3] = numpy.nan, -numpy.inf
    return o, lse


@pytest.mark.parametrize("rows", [(2, 4), (4,)])
def test_it_is_that_of_the_library(random, rows):
    for found, expected in zip(jax.jit(merge)(*parts(random, *rows)), regard.merge(*parts(random, *rows)), strict=True):
        assert found.shape == expected.shape
    given = parts(random, *rows)
    for found, expected in zip(merge(*given), regard.merge(*given), strict=True):
        close(found, expected)
    half = given[0].astype(jnp.bfloat16), given[1]
    assert merge(*half)[0].dtype == jnp.bfloat16 and merge(*half, out="fp32")[0].dtype == jnp.float32


def test_empty_parts_have_no_gradients(random):
    o, lse = parts(random, 4)
    grad_o, grad_lse = jax.vjp(merge, o, lse)[1]((jnp.ones((4, 2, 8)), jnp.ones((2, 4))))
    assert jnp.isfinite(grad_o).all() and jnp.isfinite(grad_lse).all()
    assert not grad_o[:, 3, 1].any() and not grad_lse[:, 1, 3].any()
    assert not grad_o[1, 2, 0].any() and not grad_lse[1, 0, 2].any()
    close(grad_lse.sum(0), jnp.where((lse == -jnp.inf).all(0), 0.0, 1.0))


def test_gradients_of_attention_over_halves_are_those_of_one_call(random):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)

    def halves(q, k, v):
        some = slice(0, 9), slice(9, 23)
        found = [regard.jax.attention(q, k[:, i], v[:, i], lse=True) for i in some]
        return merge(*[jnp.stack(of) for of in zip(*found, strict=True)])

    def loss(results):
        return (results[0] ** 2).sum() + (results[1] ** 2).sum()

    found = jax.grad(lambda *x: loss(halves(*x)), (0, 1, 2))(q, k, v)
    expected = jax.grad(lambda *x: loss(regard.jax.attention(*x, lse=True)), (0, 1, 2))(q, k, v)
    jax.tree.map(close, found, expected)


def test_refusals(random):
    o, lse = parts(random, 4)
    with pytest.raises(ValueError, match=r"\[parts, h, tokens\], with at least one part"):
        merge(o, lse[:2])
    with pytest.raises(ValueError, match="the first must be float32, bfloat16 or float16, and the second float32"):
        merge(o, lse.astype(numpy.float16))
    with pytest.raises(ValueError, match="out is 'fp8'; it must be"):
        merge(o, lse, out="fp8")
