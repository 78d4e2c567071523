"""Dropout: JAX keys, the mask that is drawn, and that forward and backward draw the same one."""

import jax
import jax.numpy as jnp
import numpy
from beside import arrays, check, close, turned

import reference
import regard.jax


def test_numbers_are_those_of_the_mask_that_is_returned(random):
    q, k, v = arrays(random, 2, 4, 2, 17, 70, 40)
    seed, offset = 2**63 + 5, 2**40 + 1
    mask = regard.jax.attention(q, k, v, dropout=0.3, seed=seed, offset=offset, dropout_mask=True)[1]
    numpy.testing.assert_array_equal(mask, reference.kept(0.3, seed, offset, 2, 4, 17, 70))
    options = {"kept": numpy.asarray(mask), "keep_probability": (int(0.7 * 255) + 1) / 256}
    check(q, k, v, options, {}, dropout=0.3, seed=seed, offset=offset)


def test_weights_that_flash_attn_keeps_are_times_one_over_one_minus_p(random):
    """Exactly, although 212 of 256 are kept at p = 0.17."""
    q, k, v = arrays(random, 2, 4, 2, 17, 70, 40)
    key, offsets = jax.random.key(3), jnp.arange(3) * 35

    def dense(*of):
        return regard.jax.flash_attn_func(*of, 0.17, key=key, return_attn_probs=True)[0]

    mask = regard.jax.flash_attn_func(q, k, v, 0.17, key=key, return_attn_probs=True)[2]
    seen = reference.Options(reference.visible(2, 4, 17, 70), kept=numpy.asarray(mask), keep_probability=0.83)
    of = [turned(x) for x in (q, k, v)]
    expected, _ = reference.attention(*of, seen)
    o, back = jax.vjp(dense, q, k, v)
    close(o, turned(expected))
    for gradient, correct in zip(back(o), reference.gradients(expected, *of, seen), strict=False):
        close(gradient, turned(correct))
    packed = [x[0] for x in (k, k, v)]
    kept = {"dropout": 0.17, "keep_scale": 1 / 0.83, "offsets_q": offsets, "offsets_k": offsets, "key": key}
    found = regard.jax.flash_attn_varlen(*packed, offsets, offsets, dropout_p=0.17, key=key)
    numpy.testing.assert_array_equal(found, regard.jax.attention(*packed, **kept))


def test_a_key_is_a_mask(random):
    """The same key draws the same mask, compiled or not, raw or typed; another key draws another one."""
    q, k, v = arrays(random, 1, 2, 2, 40, 70, 40)

    def mask(key):
        return regard.jax.attention(q, k, v, dropout=0.5, key=key, dropout_mask=True)[1]

    first = mask(jax.random.key(1))
    numpy.testing.assert_array_equal(first, jax.jit(mask)(jax.random.key(1)))
    numpy.testing.assert_array_equal(first, mask(jax.random.PRNGKey(1)))
    assert (first != mask(jax.random.key(2))).mean() > 0.4
    assert abs(float(first.mean()) - 0.5) < 0.05


def test_keys_in_a_loop_are_what_they_are_one_by_one(random):
    """Seeds are arrays of the program: none is freed, or read, before its call is done."""
    q, k, v = arrays(random, 1, 2, 2, 17, 23, 40)
    keys = jax.random.split(jax.random.key(3), 20)

    def attend(key):
        return regard.jax.attention(q, k, v, dropout=0.5, key=key)

    one_by_one = [attend(key) for key in keys]
    numpy.testing.assert_array_equal(jax.jit(lambda keys: jax.lax.map(attend, keys))(keys), jnp.stack(one_by_one))
    numpy.testing.assert_array_equal(jax.vmap(attend)(keys), jnp.stack(one_by_one))


def test_vmap_with_one_key_is_what_it_is_one_by_one(random):
    q, k, v = arrays(random, 3, 2, 2, 17, 23, 40)

    def attend(q, k, v):
        return regard.jax.attention(q[None], k[None], v[None], dropout=0.5, seed=7)

    numpy.testing.assert_array_equal(
        jax.vmap(attend)(q, k, v), jnp.stack([attend(*of) for of in zip(q, k, v, strict=True)])
    )


def test_a_checkpoint_draws_the_same_mask_again(random):
    q, k, v = arrays(random, 1, 2, 2, 17, 23, 40)

    def loss(q):
        return (regard.jax.attention(q, k, v, dropout=0.5, key=jax.random.key(1)) ** 2).sum()

    numpy.testing.assert_array_equal(jax.grad(jax.checkpoint(loss))(q), jax.grad(loss)(q))
