"""score= and keep= in programs that are mapped, differentiated, sharded, exported, against a formula of jnp."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy
import pytest
from beside import arrays, close, normal
from jax.sharding import Mesh, PartitionSpec

import regard.jax

pytestmark = pytest.mark.no_compiler
B, S, H, D = 4, 13, 4, 8
_made = numpy.random.default_rng(5)
w, table = normal(_made, H), normal(_made, H, 9)
doc = jnp.asarray(numpy.sort(_made.integers(0, 3, (B, S)), -1), jnp.int32)
Q, K, V = arrays(_made, B, H, H, S, S, D)


def formula(q, k, v, score=lambda s, *_: s, keep=lambda b, h, i, j: j < S):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / D**0.5
    places = jnp.meshgrid(*map(jnp.arange, s.shape), indexing="ij")
    s = jnp.where(keep(*places), score(s, *places), -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v)


def of_all(attend, q, k, v, w, table, doc):
    """With functions that close over arguments."""

    def score(s, b, h, i, j):
        return s * w[h] + table[h, jnp.clip(i - j, -4, 4) + 4]

    def keep(b, h, i, j):
        return (doc[b, i] == doc[b, j]) & (j <= i)

    return attend(q, k, v, score=score, keep=keep)


def agree(program, *inputs):
    """The program with attention, and with the formula. Returns the jaxpr of the first."""
    ours, theirs = (jax.jit(partial(program, attend))(*inputs) for attend in (regard.jax.attention, formula))
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        numpy.testing.assert_allclose(mine, other, rtol=5e-4, atol=5e-4)
    return str(jax.make_jaxpr(partial(program, regard.jax.attention))(*inputs))


def three(x):
    return jnp.stack([x, -x, x // 2 if x.dtype == jnp.int32 else x / 2])


def losses(attend, *inputs):
    return jax.value_and_grad(lambda *x: (of_all(attend, *x) ** 2).sum(), range(5))(*inputs)


@pytest.mark.parametrize("mapped", ["qwd", "kt"])
def test_vmap_of_gradients(mapped):
    given = dict(zip("qkvwtd", (Q, K, V, w, table, doc)))
    inputs = [three(x) if name in mapped else x for name, x in given.items()]
    axes = [0 if name in mapped else None for name in given]
    assert "scan" in agree(lambda attend, *x: jax.vmap(partial(losses, attend), axes)(*x), *inputs)


def test_gradients_of_vmap():
    """An array that all calls share gets the sum of its gradients."""

    def program(attend, q, table):
        def loss(q, table):
            return (jax.vmap(lambda q: of_all(attend, q, K, V, w, table, doc))(q) ** 2).sum()

        return jax.grad(loss, (0, 1))(q, table)

    agree(program, three(Q), table)


def test_mapped_calls_are_one_where_functions_do_not_count_sequences():
    def program(attend, q, functions):
        return jax.vmap(jax.value_and_grad(lambda q: (attend(q, K, V, **functions) ** 2).sum()))(q)

    folded = {
        "score": lambda s, b, h, i, j: s + table[h, jnp.clip(i - j, -4, 4) + 4],
        "keep": lambda b, h, i, j: j <= i + 2,
    }
    in_turn = [{"keep": lambda b, h, i, j: (b == 1) | (j <= i)}, {"keep": lambda b, h, i, j: doc[b, i] == doc[b, j]}]
    assert "scan" not in agree(partial(program, functions=folded), three(Q))
    for functions in in_turn:
        assert "scan" in agree(partial(program, functions=functions), three(Q))


def test_checkpointed_layers_in_a_loop():
    def program(attend, ws, table):
        @jax.checkpoint
        def layer(q, w):
            return of_all(attend, q, K, V, w, table, doc), None

        return jax.grad(lambda ws, table: (jax.lax.scan(layer, Q, ws)[0] ** 2).sum(), (0, 1))(ws, table)

    agree(program, three(w), table)


def test_a_bias_is_a_word_and_has_its_gradient():
    def program(attend, pair):
        def loss(pair):
            o = attend(Q, K, V, score=lambda s, b, h, i, j: s + pair[b, h, i, j], keep=lambda b, h, i, j: j <= i)
            return (o**2).sum()

        return jax.value_and_grad(loss)(pair)

    agree(program, normal(_made, B, H, S, S))


@pytest.mark.parametrize("check", [True, False])
def test_shards_of_batch_and_heads(check):
    """Inside shard_map b and h count what a device has; an array that devices share gets the sum of gradients."""
    mesh = Mesh(numpy.array(jax.devices()[:4]).reshape(2, 2), ("batch", "heads"))
    on_both, on_heads = PartitionSpec("batch", None, "heads"), PartitionSpec("heads")

    def on_one(attend, q, k, v, w, table, bias, doc):
        def score(s, b, h, i, j):
            return s * w[h] + table[h, jnp.clip(i - j, -4, 4) + 4] + bias[jnp.abs(i - j)]

        def keep(b, h, i, j):
            return (doc[b, i] == doc[b, j]) & (j <= i)

        return attend(q, k, v, score=score, keep=keep)

    specs = (on_both, on_both, on_both, on_heads, on_heads, PartitionSpec(), PartitionSpec("batch"))
    ours = partial(on_one, regard.jax.attention)
    sharded = jax.shard_map(ours, mesh=mesh, in_specs=specs, out_specs=on_both, check_vma=check)
    inputs = Q, K, V, w, table, normal(_made, S), doc

    def loss(attend, *inputs):
        return (attend(*inputs) ** 2).sum()

    whole = partial(on_one, formula)
    found = [jax.jit(jax.grad(partial(loss, attend), range(6)))(*inputs) for attend in (sharded, whole)]
    for mine, other in zip(*found, strict=True):
        close(mine, other)


def test_an_exported_program_has_gradients():
    allowed = jax.export.DisabledSafetyCheck.custom_call(regard.jax.TARGET)
    attend = jax.jit(lambda q, w: of_all(regard.jax.attention, q, K, V, w, table, doc))
    saved = jax.export.export(attend, disabled_checks=[allowed])(Q, w).serialize(vjp_order=1)
    again = jax.export.deserialize(saved)
    ours = jax.value_and_grad(lambda w: (again.call(Q, w) ** 2).sum())(w)
    theirs = jax.jit(jax.value_and_grad(lambda w: (of_all(formula, Q, K, V, w, table, doc) ** 2).sum()))(w)
    for mine, other in zip(ours, theirs, strict=True):
        close(mine, other)
