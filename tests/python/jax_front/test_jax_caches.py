"""KV caches in JAX: they are donated, and returned."""

import numpy
import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
import jax.numpy as jnp  # noqa: E402

import cached  # noqa: E402
import regard.jax  # noqa: E402
from cached import Cache, ints, numbers  # noqa: E402

HK, D = 2, 16
LENGTHS, TABLE = ints(5, 0, 11), ints([2, 7, -1, -1], [1, -1, -1, -1], [0, 3, 6, 5])
NEW = numbers(3, 3, 3, HK, D), numbers(4, 3, 3, HK, D)


def cache():
    return Cache(numbers(1, 8, 4, HK, D), numbers(2, 8, 4, HK, D), LENGTHS, TABLE)


def written():
    made = cache()
    for sequence in range(3):
        made.write(sequence, NEW[0][sequence], NEW[1][sequence])
    return made


def close(found, right):
    numpy.testing.assert_allclose(numpy.asarray(found), right, rtol=1e-4, atol=1e-4)


def of_jax(*tensors):
    return [jnp.array(tensor.numpy()) for tensor in tensors]


def test_append_takes_the_memory_of_the_cache():
    made, right = cache(), written()
    k, v, *new = of_jax(made.k, made.v, *NEW)
    address = k.unsafe_buffer_pointer()
    words = {"lengths_k": LENGTHS.numpy(), "page_table": TABLE.numpy()}
    changed_k, changed_v = regard.jax.append(k, v, *new, **words)
    close(changed_k, right.k)
    close(changed_v, right.v)
    assert k.is_deleted() and changed_k.unsafe_buffer_pointer() == address


def test_a_compiled_step_with_a_donated_cache():
    made, right, q = cache(), written(), numbers(9, 3, 3, 4, D)
    expected = numpy.stack([cached.attention(q[i], *right.read(i), causal=True)[0] for i in range(3)])

    def step(k, v, q, k_new, v_new, lengths, table):
        k, v = regard.jax.append(k, v, k_new, v_new, lengths_k=lengths, page_table=table)
        return regard.jax.attention(q, k, v, lengths_k=lengths + 3, page_table=table, causal=True), k, v

    def at_once(k, v, q, k_new, v_new, lengths, table):
        words = {"lengths_k": lengths, "page_table": table, "causal": True}
        return regard.jax.attention(q, k, v, k_new=k_new, v_new=v_new, **words)

    for function in (step, at_once):
        compiled = jax.jit(function, donate_argnums=(0, 1))
        o, k, v = compiled(*of_jax(made.k, made.v, q, *NEW, LENGTHS, TABLE))
        close(o, expected)
        close(k, right.k)
        close(v, right.v)


def test_a_cache_that_is_used_again_is_copied():
    made, right = cache(), written()

    def step(k, v, k_new, v_new):
        words = {"lengths_k": LENGTHS.numpy(), "page_table": TABLE.numpy()}
        return *regard.jax.append(k, v, k_new, v_new, **words), 2 * k

    k, _, twice = jax.jit(step)(*of_jax(made.k, made.v, *NEW))
    close(k, right.k)
    close(twice, 2 * made.k)


def test_append_mapped_over_caches():
    """One append after the other, as each has a cache of its own."""
    made, right = cache(), written()
    k, v, *new = [jnp.stack([x, -x]) for x in of_jax(made.k, made.v, *NEW)]
    words = {"lengths_k": LENGTHS.numpy(), "page_table": TABLE.numpy()}
    found = jax.vmap(lambda *of_one: regard.jax.append(*of_one, **words))(k, v, *new)
    for changed, tensor in zip(found, (right.k, right.v), strict=True):
        close(changed, numpy.stack([tensor, -tensor]))


@pytest.mark.parametrize("scaled", [False, True])
def test_paged_attention(scaled):
    made, q = cache(), numbers(9, 3, 4, D)
    k, v, scales = made.k, made.v, ()
    if scaled:
        scales = [0.01 + 0.02 * numbers(i, 8, 4, HK).abs() for i in (5, 6)]
        k, v = (x.mul(40).round().clamp(-127, 127).to(torch.int8) for x in (k, v))
        made.k, made.v = (x.float() * s[..., None] for x, s in zip((k, v), scales))
        scales = [jnp.array(s.permute(2, 0, 1).contiguous().numpy()) for s in scales]
    k_pages, v_pages = of_jax(*(x.permute(2, 0, 1, 3).contiguous() for x in (k, v)))
    arguments = *of_jax(q), k_pages, v_pages, *of_jax(TABLE, LENGTHS), *scales
    o = jax.jit(regard.jax.paged_attention, static_argnames="attn_logits_soft_cap")(
        *arguments, attn_logits_soft_cap=4.0
    )
    expected = [cached.attention(q[i][None], *made.read(i), softcap=4.0, scale=1.0)[0][0] for i in range(3)]
    close(o, numpy.stack(expected))


@pytest.mark.no_compiler
def test_paged_attention_without_lengths():
    made, table = cache(), numpy.array([[2, 7, 1], [0, 3, 6]], "int32")
    pages = of_jax(*(x.permute(2, 0, 1, 3).contiguous() for x in (made.k, made.v)))
    full = numpy.full(2, 3 * made.k.shape[1], "int32")
    (q,) = of_jax(numbers(9, 2, 4, D))
    found, right = (regard.jax.paged_attention(q, *pages, table, lengths) for lengths in (None, full))
    assert numpy.array_equal(found, right)


def test_what_is_wrong_is_said():
    k, v, *new = of_jax(cache().k, cache().v, *NEW)
    with pytest.raises(ValueError, match="k, v, k_new and v_new are all needed"):
        regard.jax.append(k, v, None, None)
    with pytest.raises(ValueError, match=r"they must be \[b, hq, d\], \[hk, pages, page, d\]"):
        regard.jax.paged_attention(k, k, v, TABLE.numpy(), None)
    with pytest.raises(ValueError, match="k_scales_pages and v_scales_pages are for the same cache"):
        regard.jax.paged_attention(k[0, :3], k[:2], v[:2], TABLE.numpy(), None, k[:2, ..., 0])
    with pytest.raises(ValueError, match=r"v_pages \[1, 4, 2, 16\] .* they must be \[b, hq, d\]"):
        regard.jax.paged_attention(k[0, :3], k[:2], v[:1], TABLE.numpy(), None)
    with pytest.raises(ValueError, match=r"lengths has shape \[1, 3\]; it must be \[b\], here \[3\]"):
        regard.jax.paged_attention(k[0, :3], k[:2], v[:2], TABLE.numpy(), LENGTHS.numpy()[None])
    with pytest.raises(ValueError, match=r"k_scales_pages has shape \[2, 4\]; it must be .* \[2, 4, 2\]"):
        scales = k[:2, ..., 0]
        regard.jax.paged_attention(k[0, :3], k[:2], v[:2], TABLE.numpy(), None, scales[..., 0], scales)
    with pytest.raises(ValueError, match=r"k_new has shape \[3, 3, 4, 16\]"):
        regard.jax.append(
            k, v, jnp.repeat(new[0], 2, axis=2), new[1], lengths_k=LENGTHS.numpy(), page_table=TABLE.numpy()
        )
