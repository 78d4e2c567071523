"""Latent attention in JAX: V is the first columns of K."""

import numpy
import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
import jax.numpy as jnp  # noqa: E402

import regard.jax  # noqa: E402
from cached import numbers  # noqa: E402
from latent_cases import LatentPages  # noqa: E402

DV, SCALE = 16, 0.2


def of_jax(tensor):
    return jnp.array(tensor.numpy())


def close(found, right):
    numpy.testing.assert_allclose(numpy.asarray(found), right, rtol=1e-4, atol=1e-4)


def keys(k, apart):
    return (k[..., :DV], {"k_rope": k[..., DV:]}) if apart else (k, {"dv": DV})


@pytest.mark.parametrize("apart", [False, True])
def test_attention(apart):
    pages, q = LatentPages([9, 0, 6], 4), numbers(7, 3, 2, 4, 24)

    def call(q, k, table, lengths):
        k, columns = keys(k, apart)
        options = {"page_table": table, "lengths_k": lengths, "causal": True, "scale": SCALE, "lse": True}
        return regard.jax.attention(q, k, None, **columns, **options)

    o, lse = jax.jit(call)(*map(of_jax, (q, pages.k, pages.table, pages.lengths)))
    right, of_right = pages.expected(q.flatten(0, 1), [2] * 3, causal=True, scale=SCALE)
    close(o.reshape(6, 4, DV), right)
    close(lse.transpose(0, 2, 1).reshape(6, 4), of_right)


@pytest.mark.parametrize("apart", [False, True])
def test_append_takes_the_memory_of_the_cache(apart):
    pages, q, new = LatentPages([9, 4, 6], 16), numbers(7, 3, 2, 4, 24), numbers(8, 3, 2, 1, 24)
    k = pages.k.clone()
    for i, length in enumerate([9, 4, 6]):
        for j in range(2):
            pages.k[pages.place(i, length + j)] = new[i, j]
    where = {"page_table": pages.table.numpy(), "lengths_k": pages.lengths.numpy()}
    cache, columns = keys(of_jax(k), apart)
    address = cache.unsafe_buffer_pointer()
    changed = regard.jax.append(cache, None, of_jax(new), None, **columns, **where)
    assert cache.is_deleted() and changed[0].unsafe_buffer_pointer() == address
    close(jnp.concatenate(changed, -1), pages.k)
    cache, columns = keys(of_jax(k), apart)
    o, *changed = regard.jax.attention(of_jax(q), cache, None, k_new=of_jax(new), **columns, **where)
    close(jnp.concatenate(changed, -1), pages.k)
    pages.lengths += 2
    close(o.reshape(6, 4, DV), pages.expected(q.flatten(0, 1), [2] * 3)[0])


def test_append_returns_the_factors_of_columns():
    """Of new rows: the largest number of 128 over 448."""
    pages, new = LatentPages([9, 4, 6], 16), numbers(8, 3, 2, 1, 144)
    rows = pages.k.shape[:3]
    k, k_rope = jnp.zeros((*rows, 128), jnp.float8_e4m3fn), jnp.zeros((*rows, 16))
    where = {"page_table": pages.table.numpy(), "lengths_k": pages.lengths.numpy()}
    factors = jnp.ones((*rows, 1))
    k, factors, k_rope = regard.jax.append(k, None, of_jax(new), None, k_rope=k_rope, descale_k=factors, **where)
    page, row = pages.place(1, 5)
    close(factors[page, row, 0, 0], new[1, 1, 0, :128].abs().max() / 448)
    close(k_rope[page, row], new[1, 1, :, 128:])
    found = k[page, row].astype("float32") * factors[page, row]
    numpy.testing.assert_allclose(found, new[1, 1, :, :128], rtol=0.07, atol=1e-2)


def test_mapped():
    q, k = of_jax(numbers(7, 3, 2, 2, 4, 24)), of_jax(numbers(8, 3, 2, 5, 1, 24))
    call = jax.jit(lambda q, k: regard.jax.attention(q, k, None, dv=DV, causal=True))
    found = jax.vmap(call)(q, k)
    for i in range(3):
        close(found[i], call(q[i], k[i]))


def test_what_is_wrong_is_said():
    q, k = of_jax(numbers(7, 2, 2, 4, 24)), of_jax(numbers(8, 2, 5, 1, 24))
    with pytest.raises(ValueError, match="v is None, which means that v is the first columns of k: give dv="):
        regard.jax.attention(q, k, None)
    with pytest.raises(NotImplementedError, match=r"latent attention \(v=None\) has no gradients"):
        jax.grad(lambda q: regard.jax.attention(q, k, None, dv=DV).sum())(q)
    with pytest.raises(ValueError, match="k and k_new are needed: the cache and the new tokens"):
        regard.jax.append(k, None, None, None, dv=DV, lengths_k=numpy.ones(2, "int32"))
    with pytest.raises(ValueError, match=r"k_rope has shape \[2, 4, 1, 8\]; it must be \[2, 5, 1, 8\]"):
        regard.jax.attention(q, k[..., :DV], None, k_rope=k[:, :4, :, DV:])
