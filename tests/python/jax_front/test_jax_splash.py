"""Masks of splash attention as keep=, against the same masks as arrays."""

import jax
import jax.numpy as jnp
import numpy
import pytest
from beside import arrays, close
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as splash

import regard
import regard.jax
from regard.jax.splash import with_mask

pytestmark = pytest.mark.no_compiler
H, Q, K = 4, 24, 40
SHAPE = Q, K
_made = numpy.random.default_rng(11)
ROWS = _made.permutation(Q).astype(numpy.int32)


def dense():
    return splash.NumpyMask(_made.random(SHAPE) < 0.6)


def causal(offset=0, shape=SHAPE):
    return splash.CausalMask(shape, offset)


def local(left, right, offset=0, shape=SHAPE):
    return splash.LocalMask(shape, (left, right), offset)


def shuffled(mask):
    """The rows in another order, as where a sequence is dealt to devices."""
    mask.q_sequence = ROWS
    return mask


full, chunked = splash.FullMask(SHAPE), splash.ChunkedCausalMask(SHAPE, 5)
square = Q, Q
MASKS = {
    # name: (mask, text or None, whether it has bits)
    "causal": (causal(), "(kv<=q)", False),
    "causal from the end": (causal(K - Q), "(kv<=p)", False),
    "causal with an offset": (causal(-3), "(kv<=(q+(-3)))", False),
    "window": (local(4, 2), "(((q-kv)<=4)&&((kv-q)<=2))", False),
    "window from the end": (local(4, None, K - Q), "((p-kv)<=4)", False),
    "window to the right": (local(None, 3, 5), "((kv-(q+5))<=3)", False),
    "window without sides": (local(None, None), None, False),
    "all": (full, None, False),
    "chunks": (chunked, "(((q//5)==(kv//5))&&(kv<=q))", False),
    "array": (dense(), None, True),
    "causal and array": (causal(3) & dense() & dense() & full, "(kv<=(q+3))", True),
    "chunks or array": (chunked | dense(), "((((q//5)==(kv//5))&&(kv<=q))||mask0_[q,kv])", False),
    "array or array": (dense() | dense(), None, True),
    "anything or all": (causal() | full, None, False),
    "rows in another order": (shuffled(causal(2)), "(kv<=(mask0_[q]+2))", False),
    "equal heads": (splash.MultiHeadMask([causal() & full for _ in range(H)]), "(kv<=q)", False),
    "heads": (
        splash.MultiHeadMask([causal(16), full, local(3, 3), causal(16)]),
        "_0=mask0_[h];((((_0==0)&&(kv<=p))||(_0==1))||((_0==2)&&(((q-kv)<=3)&&((kv-q)<=3))))",
        False,
    ),
    "heads of arrays": (splash.MultiHeadMask([dense(), dense(), full, dense()]), None, True),
    "heads and heads": (
        splash.MultiHeadMask([causal(9), dense(), causal(9), full])
        | splash.MultiHeadMask([dense(), shuffled(local(2, 1)), dense(), chunked]),
        None,
        False,
    ),
}


def of_array(q, k, v, mask):
    """In fp64; a row that sees no key gives 0."""
    q, k, v = (numpy.asarray(x, numpy.float64) for x in (q, k, v))
    k, v = (numpy.repeat(x, q.shape[2] // k.shape[2], axis=2) for x in (k, v))
    s = numpy.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    p = numpy.where(mask, numpy.exp(s - s.max(-1, keepdims=True)), 0)
    return numpy.einsum("bhqk,bkhd->bqhd", p / numpy.maximum(p.sum(-1, keepdims=True), 1e-300), v)


def as_array(mask):
    if isinstance(mask, (splash.LogicalAnd, splash.LogicalOr)):
        parts = as_array(mask.left), as_array(mask.right)
        return parts[0] & parts[1] if isinstance(mask, splash.LogicalAnd) else parts[0] | parts[1]
    if isinstance(mask, splash.MultiHeadMask):
        return numpy.stack([as_array(part) for part in mask.masks])
    return mask[:, :]


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_that_of_its_array(random, name):
    mask, text, has_bits = MASKS[name]
    q, k, v = arrays(random, 2, H, 2, Q, K, 8)
    words = with_mask({"keep": mask}, q, k)
    assert ("bits" in words) == has_bits
    if text is not None or "keep" not in words:
        assert words.get("keep") == text
    close(regard.jax.attention(q, k, v, keep=mask), of_array(q, k, v, as_array(mask)))


def test_words_are_planned_as_words(random):
    q, k, _ = arrays(random, 1, H, H, Q, K, 8)
    planned = {"causal": "causal_top_left", "causal from the end": "causal", "window": "window:4,2,top_left"}
    for name, word in planned.items():
        text = with_mask({"keep": MASKS[name][0]}, q, k)["keep"]
        assert f"mask={word}\n" in regard.explain(f'fwd fp32 h={H} sq={Q} sk={K} d=8 keep="{text}"')


def test_beside_other_words(random):
    q, k, v = arrays(random, 2, H, H, Q, K, 8)
    mask, bits, lengths = MASKS["causal and array"][0], _made.random((2, 1, Q, K)) < 0.7, [31, 9]
    seen = as_array(mask) & bits & (numpy.arange(K) < numpy.array(lengths)[:, None, None, None])
    given = {"bits": regard.jax.pack_bits(bits), "lengths_k": jnp.array(lengths)}
    close(regard.jax.attention(q, k, v, keep=mask, **given), of_array(q, k, v, seen))
    # With lengths the diagonal that ends at the last key is another one in each sequence.
    seen = as_array(causal(K - Q)) & (numpy.arange(K) < numpy.array(lengths)[:, None, None, None])
    found = regard.jax.attention(q, k, v, keep=causal(K - Q), lengths_k=given["lengths_k"])
    close(found, of_array(q, k, v, seen))
    w = jnp.asarray(_made.random(H), jnp.float32)
    found = jax.jit(lambda w: regard.jax.attention(q, k, v, keep=chunked, score="s*w[h]", tensors={"w": w}))(w)
    close(found, of_array(q * w[:, None], k, v, as_array(chunked)))
    turned = [jnp.swapaxes(x, 1, 2) for x in (q, k, v)]
    found = regard.jax.attention(*turned, keep=dense(), layout="bhsd")
    assert found.shape == (2, H, Q, 8)


class OwnMask(splash.CausalMask):
    pass


@pytest.mark.parametrize(
    ("mask", "options", "sentence"),
    [
        (causal(shape=(Q, Q)), {}, r"keep is a mask of shape \[24, 24\]; it must be \[24, 40\] or \[4, 24, 40\]"),
        (splash.MultiHeadMask([full, full]), {}, r"keep is a mask of shape \[2, 24, 40\]; it must be"),
        (OwnMask(SHAPE) & full, {}, "keep is a OwnMask, no mask that splash attention itself defines: give a function"),
        (
            causal(),
            {"page_table": jnp.zeros((2, 1), jnp.int32)},
            "for packed sequences and pages give a function, keep",
        ),
        (chunked, {"tensors": "w:fp32[1]"}, "tensors is text beside a mask, which brings its own; give a dict"),
    ],
)
def test_what_is_refused(random, mask, options, sentence):
    q, k, v = arrays(random, 2, H, H, Q, K, 8)
    with pytest.raises((ValueError, NotImplementedError), match=sentence):
        regard.jax.attention(q, k, v, keep=mask, **options)
