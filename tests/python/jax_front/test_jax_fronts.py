"""flash_attn_func, flash_attn_varlen and dot_product_attention: functions of other libraries, computed here."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy
import pytest
from beside import arrays, close, normal, turned

import reference
import regard.jax
from regard.jax import dot_product_attention, flash_attn_func, flash_attn_varlen

pytestmark = pytest.mark.no_compiler


def by_position(function):
    parameters = inspect.signature(function).parameters.values()
    return " ".join(p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD)


def test_signatures_are_those_of_others():
    """The arguments of jax.nn, and the positional ones of FlashAttention's JAX front ends."""
    theirs = inspect.signature(jax.nn.dot_product_attention).parameters.values()
    ours = inspect.signature(dot_product_attention).parameters.values()
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]
    assert by_position(flash_attn_func) == (
        "q k v dropout_p softmax_scale causal window_size bias alibi_slopes deterministic return_lse return_attn_probs "
        "cu_seqlens_q cu_seqlens_kv"
    )
    assert by_position(flash_attn_varlen) == (
        "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k dropout_p softmax_scale causal window_size "
        "deterministic return_lse"
    )


def test_an_implementation_of_jax_is_that_of_jax(random, monkeypatch):
    """Also if ours has replaced jax.nn's."""
    q, k, v = arrays(random, 1, 2, 2, 5, 9, 40)
    mask = jnp.zeros((1, 1, 5, 9), bool)  # in rows that see no key, they give the mean
    options = {"mask": mask, "scale": 0.3, "return_residual": True, "is_causal": True}
    options |= {"local_window_size": 3, "query_seq_lengths": jnp.asarray([4], jnp.int32)}
    expected = jax.jit(partial(jax.nn.dot_product_attention, **options))(q, k, v)
    monkeypatch.setattr(jax.nn, "dot_product_attention", dot_product_attention)
    found = jax.jit(partial(jax.nn.dot_product_attention, **options, implementation="xla"))(q, k, v)
    assert expected[0].any()
    jax.tree.map(numpy.testing.assert_array_equal, found, expected)
    assert not dot_product_attention(q, k, v, **options, implementation="regard")[0].any()


CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.7},
    "window": {"local_window_size": 4},
    "causal window": {"local_window_size": (6, 2), "is_causal": True},
    "window as a list, lengths past the end": {
        "local_window_size": [3, 2],
        "query_seq_lengths": [99, 3],
        "key_value_seq_lengths": [24, 2**31 - 1],
    },
    "lengths": {"query_seq_lengths": [17, 3], "key_value_seq_lengths": [20, 23]},
    "length of keys": {"key_value_seq_lengths": [20, 23], "is_causal": True},
    "bias": {"bias": (2, 4, 17, 23)},
    "bias of keys": {"bias": (2, 1, 1, 23)},
    "bias of rows": {"bias": (1, 4, 17, 1)},
    "bias of columns": {"bias": (23,)},
    "bias for all": {"bias": ()},
    "mask": {"mask": (2, 4, 17, 23)},
    "mask of rows and columns": {"mask": (17, 23)},
    "mask of rows and bias": {"mask": (1, 1, 17, 23), "bias": (4, 17, 23), "is_causal": True},
}


@pytest.mark.parametrize("name", CASES)
def test_dot_product_attention_beside_jax(random, name):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)
    options = dict(CASES[name])
    for lengths in ("query_seq_lengths", "key_value_seq_lengths"):
        if lengths in options:
            options[lengths] = jnp.asarray(options[lengths], jnp.int32)
    if "mask" in options:
        options["mask"] = jnp.asarray(random.random(options["mask"]) < 0.7).at[..., 0].set(True)
    differentiable = [q, k, v] + ([normal(random, *options.pop("bias"))] if "bias" in options else [])

    def program(attend):
        def loss(q, k, v, bias=None):
            o = attend(q, k, v, bias, **options)
            return (o**2).sum(), o

        return jax.jit(jax.grad(loss, tuple(range(len(differentiable))), has_aux=True))(*differentiable)

    found, expected = program(dot_product_attention), program(jax.nn.dot_product_attention)
    jax.tree.map(close, found, expected)


def test_no_argument_is_swallowed():
    """New arguments of a newer jax.nn are refused until this front end knows them, and are compared with JAX's here."""
    known = {"query", "key", "value", "return_residual", "implementation"}
    for name in inspect.signature(jax.nn.dot_product_attention).parameters.keys() - known.union(*CASES.values()):
        with pytest.raises(TypeError, match=name):
            dot_product_attention(*[jnp.zeros((1, 1, 1, 1))] * 3, **{name: True})
    for front in (dot_product_attention, flash_attn_func, flash_attn_varlen):
        assert all(p.kind != p.VAR_KEYWORD for p in inspect.signature(front).parameters.values())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dot_product_attention_of_one_sequence_with_its_residual(random, dtype):
    q, k, v = (x[0] for x in arrays(random, 1, 4, 2, 17, 23, 40, dtype=dtype))
    found = dot_product_attention(q, k, v, is_causal=True, return_residual=True)
    expected = jax.nn.dot_product_attention(q, k, v, is_causal=True, return_residual=True)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        close(one, other, dtype)
    grads = jax.grad(lambda q: dot_product_attention(q, k, v, return_residual=True)[1].sum().astype(jnp.float32))(q)
    assert not grads.any()


# On a CPU jax.nn does not support queries of float16.
@pytest.mark.parametrize(
    ("dtype", "of_bias"), [("bfloat16", "float32"), ("bfloat16", "float16"), ("float32", "bfloat16")]
)
def test_dot_product_attention_adds_a_bias_in_float32(random, dtype, of_bias):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40, dtype=dtype)
    bias = (jnp.arange(80, 103) * jnp.asarray([1.1, 0.7, 0.3, 0.1])[:, None, None]).astype(of_bias)

    def program(attend):
        def loss(q, k, v, bias):
            o = attend(q, k, v, bias)
            return (o.astype(jnp.float32) ** 2).sum(), o

        return jax.jit(jax.grad(loss, (0, 1, 2, 3), has_aux=True))(q, k, v, bias)

    found, expected = program(dot_product_attention), program(jax.nn.dot_product_attention)
    jax.tree.map(lambda one, other: close(one, other, dtype), found, expected)
    assert [x.dtype for x in found[0]] == [x.dtype for x in (q, k, v, bias)]


@pytest.mark.parametrize(
    ("dtype", "bias", "second"), [("bfloat16", [1000, 1001], 0.731), ("float16", [-1e5, 1 - 1e5], 0.731)]
)
def test_neighbours_that_16_bits_do_not_tell_apart(dtype, bias, second):
    q, k = jnp.zeros((1, 1, 1, 8), dtype), jnp.zeros((1, 2, 1, 8), dtype)
    v = k.at[0, 1].set(1)
    bias = jnp.asarray(bias, jnp.float32)[None, None, None]
    for attend in (dot_product_attention, regard.jax.attention, flash_attn_func):
        assert abs(float(attend(q, k, v, bias=bias)[0, 0, 0, 0]) - second) < 2**-8


def test_a_row_that_sees_no_key_is_zero(random):
    q, k, v = arrays(random, 1, 2, 2, 5, 9, 40)
    mask = jnp.ones((1, 1, 5, 9), bool).at[0, 0, 2].set(False)
    o = dot_product_attention(q, k, v, mask=mask)
    assert not o[0, 2].any()
    close(o[:, :2], jax.nn.dot_product_attention(q, k, v, mask=mask)[:, :2])


def test_flash_attn_func(random):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)
    slopes, sink = jnp.abs(normal(random, 4)), normal(random, 4)
    same = regard.jax.attention
    pairs = [
        (flash_attn_func(q, k, v), same(q, k, v)),
        (flash_attn_func(q, k, v, 0.0, 0.3, True), same(q, k, v, scale=0.3, causal=True)),
        (flash_attn_func(q, k, v, window_size=(5, 2)), same(q, k, v, window=jnp.asarray([5, 2]))),
        (flash_attn_func(q, k, v, causal=True, window_size=(5, -1, 2)), same(q, k, v, window=(5, 0), sink_tokens=2)),
        (flash_attn_func(q, k, v, softcap=1.0, return_lse=True), same(q, k, v, softcap=1.0, lse=True)),
        (flash_attn_func(q, k, v, alibi_slopes=slopes, sink=sink), same(q, k, v, alibi=slopes, sink=sink)),
        (flash_attn_func(q, k, v, return_attn_probs=True), (*same(q, k, v, lse=True), None)),
        (
            flash_attn_func(q, k, v, 0.3, key=jax.random.key(1), return_attn_probs=True),
            same(q, k, v, dropout=0.3, keep_scale=1 / 0.7, key=jax.random.key(1), lse=True, dropout_mask=True),
        ),
    ]
    for found, expected in pairs:
        jax.tree.map(numpy.testing.assert_array_equal, found, expected)


def test_flash_attn_func_with_offsets_that_are_traced(random):
    """Gradients respect them."""
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)
    offsets_q, offsets_k = jnp.asarray([0, 17, 20], jnp.int32), jnp.asarray([0, 5, 28], jnp.int32)

    @jax.jit
    def program(q, k, v, offsets_q, offsets_k):
        loss = lambda *of: (  # noqa: E731
            flash_attn_func(*of, bias=None, causal=True, cu_seqlens_q=offsets_q, cu_seqlens_kv=offsets_k) ** 2
        ).sum()
        return jax.grad(loss, (0, 1, 2))(q, k, v)

    seen = reference.visible(2, 4, 17, 23, causal=True, lengths=([17, 3], [5, 23]))
    of = [turned(x) for x in (q, k, v)]
    o, _ = reference.attention(*of, reference.Options(seen))
    expected = reference.gradients(2 * o, *of, reference.Options(seen))
    for gradient, correct in zip(program(q, k, v, offsets_q, offsets_k), expected, strict=False):
        close(gradient, turned(correct))


def test_flash_attn_varlen(random):
    q, k, v = normal(random, 23, 4, 40), normal(random, 36, 2, 40), normal(random, 36, 2, 40)
    of_q, of_k = jnp.asarray([0, 5, 5, 22, 23], jnp.int32), jnp.asarray([0, 9, 13, 13, 36], jnp.int32)
    found = flash_attn_varlen(q, k, v, of_q, of_k, causal=True, return_lse=True, softcap=1.0)
    traced = jax.jit(lambda *of: flash_attn_varlen(*of, 17, 23, causal=True, return_lse=True, softcap=1.0))
    jax.tree.map(numpy.testing.assert_array_equal, found, traced(q, k, v, of_q, of_k))
    alone = regard.jax.attention(q[None, :5], k[None, :9], v[None, :9], causal=True, softcap=1.0, lse=True)
    close(found[0][None, :5], alone[0])
    close(found[1][None, :, :5], alone[1])
    slopes = jnp.abs(normal(random, 4))
    o, lse, mask = flash_attn_varlen(
        q, k, v, of_q, of_k, dropout_p=0.5, key=jax.random.key(1), alibi_slopes=slopes, return_attn_probs=True
    )
    assert o.shape == q.shape and lse.shape == (4, 23) and mask.shape == (4, 23, 23) and mask.dtype == jnp.uint8


def test_sequences_with_few_queries_are_left_out(random):
    """The same as min_seqlen_q elsewhere: a length of 0, in a program that computes the lengths."""
    q, k, v = normal(random, 23, 4, 40), normal(random, 36, 2, 40), normal(random, 36, 2, 40)
    of_q, of_k = jnp.asarray([0, 5, 8, 23], jnp.int32), jnp.asarray([0, 9, 13, 36], jnp.int32)

    @jax.jit
    def program(q, k, v, of_q):
        lengths = jnp.diff(of_q)
        lengths = jnp.where(lengths < 4, 0, lengths)
        return regard.jax.attention(q, k, v, offsets_q=of_q, offsets_k=of_k, sq=15, sk=23, lengths_q=lengths)

    o = program(q, k, v, of_q)
    expected = flash_attn_varlen(q, k, v, of_q, of_k)
    assert not o[5:8].any()
    numpy.testing.assert_array_equal(o[:5], expected[:5])
    numpy.testing.assert_array_equal(o[8:], expected[8:])
