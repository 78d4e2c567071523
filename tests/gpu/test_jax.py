"""regard.jax on a GPU: every feature and its gradients, streams, devices."""

from __future__ import annotations

import os
import types

import pytest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other tests in this process also need memory
jnp = pytest.importorskip("jax.numpy")
import jax  # noqa: E402

try:
    GPUS = jax.devices("gpu")
except RuntimeError:
    pytest.skip("this JAX sees no GPU", allow_module_level=True)
import numpy  # noqa: E402

import regard.jax  # noqa: E402
from regard.jax import run  # noqa: E402

CPU = jax.devices("cpu")[0]
TOLERANCE = {"float32": 2e-5, "bfloat16": 2e-2, "float16": 3e-3}


@pytest.fixture
def random():
    return numpy.random.default_rng(3)


def arrays(random, b, hq, hk, sq, sk, d, dtype):
    return [
        jax.device_put(jnp.asarray(random.standard_normal(shape), dtype), GPUS[0])
        for shape in ((b, sq, hq, d), (b, sk, hk, d), (b, sk, hk, d))
    ]


def close(found, expected, dtype):
    found, expected = (numpy.asarray(x, numpy.float64) for x in (found, expected))
    numpy.testing.assert_allclose(found, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def number(random, *shape):
    return numpy.asarray(random.standard_normal(shape), numpy.float32)


OPTIONS = {
    "plain": lambda random, dtype: {},
    "causal": lambda random, dtype: {"causal": True},
    "window": lambda random, dtype: {"window": (30, 5), "sink_tokens": 3},
    "softcap": lambda random, dtype: {"softcap": 2.0},
    "bias": lambda random, dtype: {"bias": jnp.asarray(number(random, 4, 100, 200), dtype)},
    "bias of float32": lambda random, dtype: {"bias": 64 + number(random, 2, 1, 100, 200), "causal": True},
    "alibi": lambda random, dtype: {"alibi": abs(number(random, 4)), "causal": True},
    "sink": lambda random, dtype: {"sink": number(random, 4)},
    "lengths": lambda random, dtype: {"lengths_q": [100, 7], "lengths_k": [3, 200]},
    "bits": lambda random, dtype: {"bits": regard.jax.pack_bits(random.random((2, 1, 100, 200)) < 0.7)},
    "ranges": lambda random, dtype: {
        "ranges": numpy.stack([numpy.zeros((1, 100), "int32"), numpy.full((1, 100), 150, "int32")], axis=-1)
    },
    "bhsd": lambda random, dtype: {"layout": "bhsd"},
    "dropout": lambda random, dtype: {"dropout": 0.3, "key": jax.random.key(1)},
}


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("name", OPTIONS)
def test_forward_as_on_the_cpu(random, name, dtype):
    """O, LSE and the dropout mask, with and without jit; the CPU's kernels are tested against fp64."""
    of = arrays(random, 2, 4, 2, 100, 200, 59 if name == "plain" else 64, dtype)
    options = OPTIONS[name](random, dtype)
    if name == "bhsd":
        of = [x.swapaxes(1, 2) for x in of]
    drops = {"dropout_mask": True} if name == "dropout" else {}
    attend = lambda *of: regard.jax.attention(*of, lse=True, **drops, **options)  # noqa: E731
    on_gpu, again = attend(*of), jax.jit(attend)(*of)
    with jax.default_device(CPU):
        on_cpu = attend(*(jax.device_put(x, CPU) for x in of))
    for found, second, expected in zip(on_gpu, again, on_cpu, strict=True):
        assert found.devices() == {GPUS[0]}
        numpy.testing.assert_array_equal(found, second)
        close(found, expected, dtype)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_as_on_the_cpu(random, name, dtype):
    of = arrays(random, 2, 4, 2, 100, 200, 59 if name == "plain" else 64, dtype)
    options = OPTIONS[name](random, dtype)
    if name == "bhsd":
        of = [x.swapaxes(1, 2) for x in of]
    learned = [word for word in ("bias", "sink") if word in options]
    of += [jnp.asarray(options.pop(word)) for word in learned]
    grad_o = number(random, *of[0].shape)

    def loss(q, k, v, *others):
        o = regard.jax.attention(q, k, v, **options, **dict(zip(learned, others, strict=True)))
        return (o.astype(jnp.float32) * grad_o).sum()

    gradients = jax.grad(loss, argnums=tuple(range(len(of))))
    found = jax.jit(gradients)(*(jax.device_put(x, GPUS[0]) for x in of))
    with jax.default_device(CPU):
        expected = gradients(*(jax.device_put(x, CPU) for x in of))
    for a, b in zip(found, expected, strict=True):
        assert a.devices() == {GPUS[0]}
        a, b = (numpy.asarray(x, numpy.float64) for x in (a, b))
        numpy.testing.assert_allclose(a, b, rtol=0, atol=2 * TOLERANCE[dtype] * max(abs(b).max(), 1))


def test_beside_jax_itself(random):
    q, k, v = arrays(random, 2, 4, 2, 100, 200, 64, "bfloat16")
    for options in (
        {},
        {"is_causal": True},
        {"local_window_size": (20, 5)},
        {"key_value_seq_lengths": jnp.array([9, 200])},
    ):
        found = regard.jax.dot_product_attention(q, k, v, **options)
        close(found, jax.nn.dot_product_attention(q, k, v, **options), "bfloat16")


def test_packed_sequences_with_traced_offsets(random):
    q, k, v = (x.reshape(-1, *x.shape[2:]) for x in arrays(random, 2, 4, 2, 100, 200, 64, "bfloat16"))
    offsets_q, offsets_k = jnp.array([0, 20, 20, 200]), jnp.array([0, 150, 170, 400])
    program = jax.jit(lambda *of: regard.jax.flash_attn_varlen(*of, 180, 230, causal=True))
    found = program(q, k, v, offsets_q, offsets_k)
    alone = regard.jax.attention(q[None, 20:], k[None, 170:], v[None, 170:], causal=True)
    close(found[20:], alone[0], "bfloat16")


def test_gradients_beside_jax_itself(random):
    given = arrays(random, 2, 4, 2, 100, 200, 64, "bfloat16")
    of = [
        jax.grad(lambda *of: attend(*of, is_causal=True).astype(jnp.float32).sum(), argnums=(0, 1, 2))(*given)  # noqa: B023
        for attend in (regard.jax.dot_product_attention, jax.nn.dot_product_attention)
    ]
    for found, expected in zip(*of, strict=True):
        close(found, expected, "bfloat16")


def test_many_calls_in_flight(random):
    """No call waits, and each has its own arrays and scratch memory."""
    q, k, v = arrays(random, 2, 4, 2, 300, 300, 64, "bfloat16")
    program = jax.jit(lambda q, key: regard.jax.attention(q, k, v, dropout=0.5, key=key))
    keys = jax.random.split(jax.random.key(0), 50)
    first = [program(q, key) for key in keys]
    for one, key in zip(first, keys, strict=True):
        numpy.testing.assert_array_equal(one, program(q, key).block_until_ready())


def test_a_program_of_another_gpu(random, monkeypatch):
    """A program exported where the plan needs no workspace: XLA allocates it in the call."""
    given = arrays(random, 2, 4, 2, 100, 200, 64, "bfloat16")
    gradients = jax.grad(lambda *of: regard.jax.attention(*of, causal=True).astype(jnp.float32).sum(), (0, 1, 2))
    expected = jax.jit(gradients)(*given)
    jax.clear_caches()
    monkeypatch.setattr(run, "plan_of", lambda _: types.SimpleNamespace(workspace_bytes=0))
    for found, correct in zip(jax.jit(gradients)(*given), expected, strict=True):
        close(found, correct, "bfloat16")
    jax.clear_caches()


def test_another_device(random):
    if len(GPUS) < 2:
        pytest.skip("this machine has one GPU")
    q, k, v = arrays(random, 2, 4, 2, 100, 200, 64, "bfloat16")
    expected = regard.jax.attention(q, k, v)
    o = regard.jax.attention(*(jax.device_put(x, GPUS[1]) for x in (q, k, v)))
    assert o.devices() == {GPUS[1]}
    numpy.testing.assert_array_equal(o, expected)
