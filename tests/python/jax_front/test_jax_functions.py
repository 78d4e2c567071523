"""score= and keep= in JAX: text, and functions of jnp, which are traced to the text that says the same."""

import gc
import weakref
from functools import partial

import jax
import jax.numpy as jnp
import numpy
import pytest
from jax.numpy import where

import flex_functions
import regard.jax
from flex_functions import KEEPS, SCORES, B, H, S
from regard.functions import LANGUAGE_TYPES
from regard.functions.jax_trace import Traces
from regard.functions.tree import Named, filled
from regard.jax.tracing import TRACES

_made = numpy.random.default_rng(3)
arrays = {name: jnp.asarray(value.numpy()) for name, value in vars(flex_functions).items() if hasattr(value, "numpy")}
slope, doc, table, pair = (arrays[name] for name in ("slope", "doc", "table", "pair"))
buckets, sigma, temperature, tree = (arrays[name] for name in ("buckets", "sigma", "temperature", "tree"))


def t5(s, b, h, q, kv):
    n = jnp.maximum(q - kv, 0)
    far = 8 + (jnp.log(n.astype(jnp.float32) / 8) / numpy.log(16) * 8).astype(jnp.int32)
    return s + buckets[jnp.where(n < 8, n, jnp.clip(far, 8, 15)), h]


KEEPS_OF_JAX = {
    "causal": lambda b, h, q, kv: kv <= q,
    "window": lambda b, h, q, kv: (q >= kv) & (q - kv <= 5),
    "causal documents": lambda b, h, q, kv: (doc[b, q] == doc[b, kv]) & (kv <= q),
    "sinks and window": lambda b, h, q, kv: jnp.logical_and((kv < 4) | (q - kv < 9), q >= kv),
    "block diagonal": lambda b, h, q, kv: q // 4 == kv // 4,
    "dilated": lambda b, h, q, kv: ((q - kv) % 3 == 0) & (abs(q - kv) < 13),
    "tree": lambda b, h, q, kv: tree[q, kv],
}
SCORES_OF_JAX = {
    "ALiBi": lambda s, b, h, q, kv: s - slope[h] * jnp.abs(q - kv),
    "relative table": lambda s, b, h, q, kv: s + table[h, jnp.clip(q - kv, -6, 6) + 6],
    "soft cap": lambda s, b, h, q, kv: 20.0 * jnp.tanh(s / 20.0),
    "T5": t5,
    "Gaussian": lambda s, b, h, q, kv: s - sigma[h] * (q - kv) ** 2,
    "pair bias": lambda s, b, h, q, kv: s + pair[b, h, q, kv],
    "temperature": lambda s, b, h, q, kv: s * temperature,
    "mask within": lambda s, b, h, q, kv: jnp.where(q >= kv, s, -jnp.inf),
}
ALL = [("keep", name) for name in KEEPS_OF_JAX] + [("score", name) for name in SCORES_OF_JAX]


def traced(purpose, function):
    return Traces().of(purpose, function)


def drawn():
    return [jnp.asarray(_made.standard_normal((B, S, n, 8), numpy.float32)) for n in (H, H, H)]


def canonical(purpose, text, tensors):
    names = [Named(f"t{i}", tensor.shape) for i, tensor in enumerate(tensors)]
    types = [LANGUAGE_TYPES[str(tensor.dtype)] for tensor in tensors]
    declared = ",".join(f"{name}:{kind}[{len(name.shape)}]" for name, kind in zip(names, types))
    words = f" tensors={declared}" if declared else ""
    return regard.Problem(f'fwd fp32 b=2 h=3 s=48 d=8 {purpose}="{filled(text, names)}"{words}').text


@pytest.mark.parametrize(("purpose", "name"), ALL)
def test_a_function_is_the_text_that_says_the_same(purpose, name):
    function = (KEEPS_OF_JAX if purpose == "keep" else SCORES_OF_JAX)[name]
    text = (KEEPS if purpose == "keep" else SCORES)[name][1]
    found = traced(purpose, function)
    read = [array for array, _, _ in found.arrays]
    assert canonical(purpose, found.text, read) == canonical(purpose, text, read)


def formula(q, k, v, score, keep):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    places = jnp.meshgrid(*map(jnp.arange, s.shape), indexing="ij")
    s = jnp.where(keep(*places), score(s, *places), -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v)


def test_gradients_are_those_of_the_formula():
    weights = jnp.asarray(_made.standard_normal((B, S, H, 8), numpy.float32))

    def loss(attend, q, k, v, w, bias):
        def score(s, b, h, i, j):
            return s * w[h] + bias[jnp.clip(i - j, -12, 12) + 12]

        def keep(b, h, i, j):
            return (doc[b, i] == doc[b, j]) & (w[h] > -9)

        return (attend(q, k, v, score=score, keep=keep) * weights).sum()

    inputs = [*drawn(), jnp.asarray(_made.random(H, numpy.float32)), jnp.asarray(_made.random(25, numpy.float32))]
    of_both = [
        jax.jit(jax.value_and_grad(lambda *x, attend=attend: loss(attend, *x), argnums=range(5)))(*inputs)
        for attend in (regard.jax.attention, formula)
    ]
    for ours, theirs in zip(*map(jax.tree.leaves, of_both)):
        numpy.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)


def biased(table, window):
    return lambda s, b, h, q, kv: jnp.where(q - kv < window, s + table[h, kv % 7], -1.5)


def test_a_new_closure_is_neither_traced_nor_compiled():
    q, k, v = drawn()
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
    )

    def step(table, window=9):
        def loss(q, table):
            return regard.jax.attention(q, k, v, score=biased(table, window)).sum()

        return jax.value_and_grad(loss, (0, 1))(q, table)

    tables = [jnp.asarray(_made.random((H, 7), numpy.float32)) for _ in range(4)]
    step(tables[0]), regard.jax.attention(q, k, v, score=biased(tables[0], 9))
    made, before = TRACES.made, len(compiled)
    assert before
    results = [step(table) for table in tables]
    outputs = [regard.jax.attention(q, k, v, score=biased(table, 9)) for table in tables]
    assert (TRACES.made, len(compiled)) == (made, before)
    assert len({float(loss) for loss, _ in results}) == len(tables)
    words = {"score": "where(q-kv<9,s+w[h,kv%7],-1.5)", "tensors": {"w": tables[-1]}}
    numpy.testing.assert_array_equal(outputs[-1], regard.jax.attention(q, k, v, **words))
    for other in (tables[0].astype(jnp.bfloat16), jnp.ones((H, 8)), jnp.ones((H, 7))):
        step(other)
    step(tables[0], 10)
    assert TRACES.made == made + 3
    jax.monitoring.clear_event_listeners()


class Window:
    def __init__(self, size, slope):
        self.size, self.slope = size, slope

    def __call__(self, b, h, q, kv):
        return (q - kv < self.size) & (self.slope[h] < 9)


@jax.jit
def of_head(h):
    return slope[h]


def halved(s, b, h, q, kv):
    return where(q > kv, s * of_head(h), s * halved.factor[h])


def test_what_a_function_depends_on_is_in_its_key():
    traces = Traces()
    assert "<3" in traces.of("keep", Window(3, slope)).text and "<4" in traces.of("keep", Window(4, slope)).text
    other = slope + 1
    found = traces.of("keep", Window(4, other))
    assert traces.made == 2 and [array is other for array, _, _ in found.arrays] == [True]
    for factor in (sigma, other):
        halved.factor = factor
        read = [array for array, _, _ in traces.of("score", halved).arrays]
        assert traces.made == 3 and len(read) == 2 and read[0] is slope and read[1] is factor


def test_numbers_that_become_constants_are_not_remembered():
    """A trace that depends on the numbers in an array is made again."""
    traces = Traces()

    def scaled(factor):
        return traces.of("score", lambda s, b, h, q, kv: s * float(factor)).text

    def looked_up(table):
        return traces.of("score", lambda s, b, h, q, kv: s + jnp.asarray(table)[h])

    assert [scaled(jnp.float32(x)) for x in (2, 3)] == ["(s*2.0)", "(s*3.0)"]
    assert [scaled(numpy.float32(x)) for x in (2, 3)] == ["(s*2.0)", "(s*3.0)"]
    tables = [numpy.full(H, x, numpy.float32) for x in (2, 3)]
    assert [numpy.asarray(looked_up(table).arrays[0][0])[0] for table in tables] == [2, 3]
    assert traces.made == 6


def test_what_is_computed_for_nothing_is_not_read():
    def score(s, b, h, q, kv):
        _ = slope[h] * 2
        return s + sigma[h]

    found = traced("score", score)
    assert found.text == "(s+{0}[h])" and [array is sigma for array, _, _ in found.arrays] == [True]


def test_closures_are_not_kept_alive():
    w = jnp.ones(H)
    alive = weakref.ref(w)
    Traces().of("score", (lambda w: lambda s, b, h, q, kv: s + w[h])(w))
    del w
    gc.collect()
    assert alive() is None


def test_a_gradient_that_a_function_stops():
    q, k, v = drawn()

    def loss(attend, w):
        def score(s, b, h, i, j):
            return s * w[h] + jax.lax.stop_gradient(w)[h] * jax.lax.stop_gradient(w[j % 2])

        return (attend(q, k, v, score=score, keep=lambda b, h, i, j: w[h] >= 0) ** 2).sum()

    w = jnp.asarray(_made.random(H, numpy.float32))
    ours, theirs = (jax.jit(jax.grad(partial(loss, attend)))(w) for attend in (regard.jax.attention, formula))
    numpy.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)


def test_text_reads_tensors():
    q, k, v = drawn()
    words = {"score": "s-slope[h]*abs(kv-q)*c", "keep": "doc[b,q]==doc[b,kv]&&seen[kv]"}
    seen = _made.random(S) < 0.8
    tensors = {"slope": slope.astype(jnp.bfloat16), "doc": doc, "c": jnp.float32(0.5), "seen": seen}
    o = regard.jax.attention(q, k, v, **words, tensors=tensors)
    numpy_tensors = {
        name: numpy.asarray(value, None if name != "slope" else numpy.float32) for name, value in tensors.items()
    }
    expected = regard.attention(*map(numpy.asarray, (q, k, v)), **words, tensors=numpy_tensors)
    numpy.testing.assert_allclose(o, expected, rtol=1e-5, atol=1e-6)
    by_map = jax.vmap(lambda c: regard.jax.attention(q, k, v, **words, tensors={**tensors, "c": c}))(
        jnp.arange(2.0) / 2
    )
    numpy.testing.assert_allclose(by_map[1], o, rtol=1e-5, atol=1e-6)


@jax.custom_vjp
def straight_through(x):
    return jnp.round(x)


straight_through.defvjp(lambda x: (straight_through(x), None), lambda _, g: (g,))


@pytest.mark.parametrize("compiled", [False, True])
def test_how_functions_are_computed(compiled):
    q, k, v = drawn()

    def of(functions):
        def call(q):
            return regard.jax.attention(q, k, v, score="s*0.5", keep="kv<=q", functions=functions, lse=True)

        return (jax.jit(call) if compiled else call)(q)

    with pytest.raises(NotImplementedError, match="no word says score"):
        of("words")
    for one, other in zip(of("interpreted"), of(None), strict=True):
        assert (one == other).all()

    def gradient(functions):
        return jax.grad(lambda q: regard.jax.attention(q, k, v, keep="kv<=q", functions=functions).sum())(q)

    numpy.testing.assert_allclose(gradient("words"), gradient("interpreted"), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="did you mean 'words'"):
        of("word")
    with pytest.raises(ValueError, match="is for a problem with score or keep"):
        regard.jax.attention(q, k, v, functions="bits")


def branch(b, h, q, kv):
    if q > kv:
        return kv < 3
    return kv < 4


@pytest.mark.parametrize(
    ("purpose", "function", "sentence"),
    [
        ("keep", branch, r"keep: line \d+ of test_jax_functions.py, 'if q > kv:', branches or loops on data; jnp.wh"),
        ("keep", lambda b, h, q, kv: jax.lax.cond(q > kv, lambda: q < 3, lambda: q < 4), "branches or loops on data"),
        ("score", lambda s, b, h, q, kv: s + slope.sum(), "calls reduce_sum, which functions of scores and masks do"),
        ("score", lambda s, b, h, q, kv: s + (2 * slope)[h], "works on a whole array; index it first, or do this"),
        ("score", lambda s, b, h, q, kv: s + slope[:2][h], "takes a part of an array; an index is a whole number"),
        ("score", lambda s, b, h, q, kv: s + slope @ slope, "calls dot_general, .* close over the products, indexed"),
        ("score", lambda s, b, h, q, kv: s + jax.random.uniform(jax.random.key(0)), "as a random number, take an int"),
        ("score", lambda s, b, h, q, kv: s + jax.lax.erf(s), "calls erf, .*; do it outside, and close over an array"),
        ("score", lambda s, b, h, q, kv: s.astype(jnp.float16), "computes in float16; functions compute in float32"),
        (
            "score",
            lambda s, b, h, q, kv: straight_through(s),
            "a derivative of its own .jax.custom_vjp.; a score",
        ),
        (
            "score",
            lambda s, b, h, q, kv: jax.lax.stop_gradient(2 * s),
            "stops the gradient of what it computed, and on",
        ),
        ("keep", lambda b, h, q, kv: kv, "keep returns int32; it must return a condition, such as kv_idx <= q_idx"),
        ("keep", lambda q, kv: kv <= q, "keep takes 2 arguments; it must take \\(b, h, q_idx, kv_idx\\)"),
    ],
)
def test_what_is_refused(purpose, function, sentence):
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=sentence):
        traced(purpose, function)
