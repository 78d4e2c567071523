"""Bad input: one sentence, as Regard's exceptions while a program is traced and as JAX's while it runs."""

import subprocess
from functools import partial

import jax
import jax.numpy as jnp
import numpy
import pytest
from beside import arrays, normal

import regard.jax
from regard import InvalidError, RefusedError

RUNS = (jax.errors.JaxRuntimeError, ValueError)  # either one, depending on JAX
ONES = partial(jnp.ones, dtype=jnp.float32)
INTS = partial(jnp.ones, dtype=jnp.int32)


def attend(q=None, k=None, v=None, **options):
    of = [ONES((2, 5, 4, 8)), ONES((2, 9, 2, 8)), ONES((2, 9, 2, 8))]
    return regard.jax.attention(
        *(x if given is None else given for x, given in zip(of, (q, k, v), strict=True)), **options
    )


BAD = {
    "rank": ({"q": ONES((5, 4, 8))}, InvalidError, "q has shape [5, 4, 8]; it must have 4 dimensions"),
    "scalar": ({"q": 3.0}, InvalidError, "q has shape []"),
    "batch": ({"k": ONES((3, 9, 2, 8))}, InvalidError, "k has shape [3, 9, 2, 8]; it must be [2, 9, 2, 8]"),
    "batch of 1": ({"k": ONES((1, 9, 2, 8))}, RUNS, "tensor 'k' has shape [1, 9, 2, 8]"),
    "keys": ({"v": ONES((2, 8, 2, 8))}, InvalidError, "v has shape [2, 8, 2, 8]"),
    "heads": ({"k": ONES((2, 9, 3, 8)), "v": ONES((2, 9, 3, 8))}, InvalidError, "multiple"),
    "dtype": ({"q": INTS((2, 5, 4, 8))}, InvalidError, "q has dtype int32; attention takes float32"),
    "another dtype": ({"k": INTS((2, 9, 2, 8))}, InvalidError, "k has dtype int32; it must be float32"),
    "complex": ({"k": ONES((2, 9, 2, 8)) * 1j}, InvalidError, "k has dtype complex64; it must be float32"),
    "mask": ({"mask": ONES((5, 9)) > 0}, InvalidError, "pass bits=regard.jax.pack_bits(mask)"),
    "no array": ({"q": "abc"}, InvalidError, "q is not an array that JAX accepts"),
    "None": ({"q": object()}, InvalidError, "q is not an array that JAX accepts"),
    "bias": ({"bias": ONES((3, 4, 5, 9))}, InvalidError, "bias has shape [3, 4, 5, 9]; it must be [2, 4, 5, 9]"),
    "dtype of a bias": ({"bias": INTS((5, 9))}, InvalidError, "bias has dtype int32; it must be float32"),
    "alibi": ({"alibi": ONES(3)}, InvalidError, "alibi has shape [3]; it must be [4]"),
    "sink": ({"sink": ONES(3)}, InvalidError, "sink has shape [3]; it must be [4]"),
    "lengths": ({"lengths_k": [1, 99]}, RUNS, "lengths_k[1] is 99; a logical length is between 0 and"),
    "floating lengths": ({"lengths_k": [1.5, 2]}, InvalidError, "lengths_k has dtype float32; it must be int32"),
    "large lengths": ({"lengths_k": numpy.array([2**40, 1])}, InvalidError, "do not fit into int32"),
    "bits": ({"bits": ONES((5, 1))}, InvalidError, "bits has dtype float32; it must be uint32"),
    "words of bits": ({"bits": jnp.ones((5, 2), jnp.uint32)}, InvalidError, "bits has shape [1, 1, 5, 2]"),
    "no word": ({"causul": None}, InvalidError, "unknown option 'causul'; did you mean causal=?"),
    "word": ({"causul": True}, InvalidError, "unknown option 'causul'; did you mean causal=True?"),
    "causal": ({"causal": "x"}, InvalidError, "causal is 'x'; it must be True"),
    "window": ({"window": 3}, InvalidError, "window is 3; it must be a pair"),
    "window of another type": ({"window": object()}, TypeError, "window is of type object; it must be a pair"),
    "array of windows": ({"window": INTS((1, 2))}, InvalidError, "window is ((1, 1),); it must be a pair"),
    "scale": ({"scale": "x"}, InvalidError, "scale"),
    "dropout": ({"dropout": 1.5, "seed": 1}, InvalidError, "dropout"),
    "dropout as text": ({"dropout": "0.5", "seed": 1}, TypeError, "dropout is '0.5'; it must be a number"),
    "fine dropout": ({"dropout": 1e-7, "seed": 1}, InvalidError, "dropout=1e-07 is finer than a dropout mask"),
    "no key": ({"dropout": 0.5}, InvalidError, "dropout needs key="),
    "key and seed": ({"dropout": 0.5, "seed": 1, "key": jax.random.key(0)}, InvalidError, "either key, or seed"),
    "key": ({"dropout": 0.5, "key": 3}, TypeError, "key is 3; it must be one key of jax.random"),
    "two keys": ({"dropout": 0.5, "key": jax.random.split(jax.random.key(0))}, TypeError, "it must be one key"),
    "seeds": ({"dropout": 0.5, "seed": ONES(2)}, TypeError, "seed is of type ArrayImpl; it must be a whole number"),
    "target of another type": ({"target": []}, TypeError, "target is "),
    "seed": ({"dropout": 0.5, "seed": -1}, InvalidError, "seed is -1; it must be 0 to 2^64 - 1"),
    "seed alone": ({"seed": 1}, InvalidError, "seed and offset are those of dropout"),
    "out": ({"out": ONES(3)}, InvalidError, "out is an array, and results of JAX are new ones"),
    "lse": ({"lse": ONES(3)}, InvalidError, "lse is of type ArrayImpl; it must be True or False"),
    "row_max": ({"row_max": 1}, InvalidError, "row_max is 1; it must be True or False"),
    "functions": ({"functions": ""}, InvalidError, "functions is ''; give a word such as 'bits'"),
    "stream": ({"stream": 0}, InvalidError, "stream is not an option"),
    "dtype word": ({"dtype": "bf16"}, InvalidError, "dtype is not an option"),
    "target": ({"target": "cpu-nothing"}, InvalidError, "target"),
    "family": ({"family": "nothing"}, InvalidError, "family"),
    "threads": ({"threads": 1.5}, TypeError, "threads is 1.5"),
    "offsets": ({"offsets_q": INTS(3)}, InvalidError, "q has shape"),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_one_sentence(name, compiled):
    options, kind, words = BAD[name]
    of = {n: options.get(n) for n in ("q", "k", "v")}
    rest = {n: x for n, x in options.items() if n not in of}
    if compiled:
        if not all(x is None or isinstance(x, jax.Array) for x in of.values()):
            pytest.skip("no argument of a compiled function")
        program = jax.jit(lambda of: attend(**of, **rest))
    else:
        program = lambda of: attend(**of, **rest)  # noqa: E731
    with pytest.raises(kind) as raised:
        jax.block_until_ready(program(of))
    sentence = str(raised.value).splitlines()[0]
    assert words in sentence, sentence


@pytest.mark.parametrize("name", ["scale", "softcap", "dropout", "causal"])
def test_an_option_that_is_traced(name):
    with pytest.raises(InvalidError, match=f"{name} is traced.*static_argnames"):
        jax.jit(lambda x: attend(**{name: x}))(0.5)


def test_a_seed_or_offsets_that_are_traced():
    with pytest.raises(InvalidError, match="seed is traced; pass key="):
        jax.jit(lambda x: attend(dropout=0.5, seed=x))(1)
    q = ONES((8, 2, 8))
    with pytest.raises(InvalidError, match="offsets_q is traced: give sq"):
        jax.jit(lambda x: regard.jax.flash_attn_varlen(q, q, q, x, x))(jnp.asarray([0, 8], jnp.int32))


def test_what_has_no_gradient_says_so(random):
    q, k, v = arrays(random, 2, 4, 2, 5, 9, 8)
    slopes = jnp.abs(normal(random, 4))
    with pytest.raises(RefusedError, match="alibi has no gradient: pass jax.lax.stop_gradient"):
        jax.grad(lambda slopes: regard.jax.attention(q, k, v, alibi=slopes).sum())(slopes)
    stopped = jax.grad(lambda s: regard.jax.attention(q, k, v, alibi=jax.lax.stop_gradient(s)).sum())(slopes)
    assert not stopped.any()
    with pytest.raises(RefusedError, match="cannot be differentiated again"):
        jax.grad(lambda q: jax.grad(lambda q: regard.jax.attention(q, k, v).sum())(q).sum())(q)
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jvp(lambda q: regard.jax.attention(q, k, v), (q,), (q,))


def test_arguments_of_the_other_functions(random):
    q, k, v = arrays(random, 2, 4, 2, 5, 9, 8)
    dot, flash = regard.jax.dot_product_attention, regard.jax.flash_attn_func
    for program, words in (
        (
            lambda: dot(q, k, v, implementation="flash"),
            "implementation is 'flash'; it must be None, 'regard', 'xla' or",
        ),
        (lambda: dot(q, k, v, is_causal="no"), "is_causal is 'no'; it must be True or False"),
        (lambda: dot(q, k, v, mask=ONES((1, 1, 5, 9))), "mask has dtype float32; it must be bool"),
        (lambda: dot(q, k, v, mask=jnp.ones((5, 8), bool)), "mask has shape [5, 8]; it must broadcast to [2, 4, 5, 9]"),
        (lambda: dot(q, k, v, mask=jnp.ones((1, 1, 5, 10), bool)), "mask has shape [1, 1, 5, 10]; it must broadcast"),
        (lambda: dot(q, k, v, bias=ONES((3, 1, 5, 9))), "bias has shape [3, 1, 5, 9]; it must broadcast"),
        (lambda: dot(q, k, v, bias=ONES((1, 2, 4, 5, 9))), "bias has shape [1, 2, 4, 5, 9]; it must broadcast"),
        (lambda: dot(q, k, v, bias=jnp.ones((5, 9), complex)), "bias has dtype complex64, and scores are float32"),
        (lambda: dot(q, k, v, local_window_size=(1, 2, 3)), "local_window_size is (1, 2, 3)"),
        (lambda: dot(q, k, v, local_window_size=-1), "local_window_size is -1; its sides"),
        (lambda: dot(q, k, v, local_window_size=jnp.asarray(3)), "local_window_size is of type ArrayImpl; it must be"),
        (lambda: jax.jit(lambda x: dot(q, k, v, local_window_size=(x, 2)))(1), "local_window_size is traced"),
        (lambda: jax.jit(lambda x: dot(q, k, v, is_causal=x))(True), "is_causal is traced"),
        (lambda: dot("x", k, v), "query is not an array that JAX accepts"),
        (lambda: dot(q[0, 0], k, v), "query has shape [4, 8]"),
        (lambda: flash(q, k, v, window_size=3), "window_size is 3; it must be (left, right)"),
        (lambda: flash(q, k, v, 0.5), "dropout needs key="),
        (lambda: jax.jit(lambda x: flash(q, k, v, x))(0.5), "dropout_p is traced"),
        (lambda: flash(q, k, v, return_lse=2), "return_lse is 2; it must be True or False"),
        (lambda: flash(q, k, v, deterministic="no"), "deterministic is 'no'; it must be True or False"),
        (lambda: regard.jax.pack_bits(ONES(3)), "mask has dtype float32; pack_bits takes booleans"),
    ):
        with pytest.raises(InvalidError) as raised:
            program()
        assert words in str(raised.value)


def test_an_error_of_a_run_is_one_of_its_program_alone(random):
    """The next run of the same program, and other programs, still work."""
    q, k, v = arrays(random, 1, 4, 2, 5, 9, 8)
    program = jax.jit(lambda lengths: regard.jax.attention(q, k, v, lengths_k=lengths))
    for length in (9, 99, 3, -1, 0):
        if 0 <= length <= 9:
            assert jnp.isfinite(program(jnp.asarray([length], jnp.int32))).all()
        else:
            with pytest.raises(RUNS, match="INVALID_ARGUMENT: lengths_k"):
                program(jnp.asarray([length], jnp.int32)).block_until_ready()


@pytest.mark.parametrize("compiled", [False, True])
def test_lengths_of_64_bits_do_not_wrap(random, compiled):
    """2^32 + 4 would be 4 in 32 bits."""
    q, k, v = arrays(random, 2, 4, 2, 5, 9, 8)
    attend = lambda of: regard.jax.attention(q, k, v, lengths_k=of)  # noqa: E731
    padded = lambda of: regard.jax.flash_attn_func(q, k, v, cu_seqlens_kv=of)  # noqa: E731
    if compiled:
        attend, padded = jax.jit(attend), jax.jit(padded)
    with jax.enable_x64(True):
        numpy.testing.assert_array_equal(attend(jnp.asarray([3, 4])), attend(jnp.asarray([3, 4], jnp.int32)))
        for program, numbers in ((attend, [3, 2**32 + 4]), (attend, [3, -(2**32) + 4]), (padded, [0, 3, 2**32 + 7])):
            numbers = jnp.asarray(numbers)
            assert numbers.dtype == jnp.int64
            with pytest.raises(RUNS, match=r"lengths_k\[1\] is -?2\d{9}; a logical length is between 0 and"):
                jax.block_until_ready(program(numbers))


def test_tracing_starts_no_process(random, monkeypatch):
    q, k, v = arrays(random, 1, 4, 2, 5, 9, 8)
    monkeypatch.setattr(subprocess, "Popen", None)
    before = regard.info()["counters"]["compiled"]
    text = str(jax.make_jaxpr(jax.grad(lambda q: regard.jax.attention(q, k, v, scale=0.123).sum()))(q))
    assert "bwd fp32" in text
    assert regard.info()["counters"]["compiled"] == before
