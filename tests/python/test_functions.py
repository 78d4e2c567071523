"""score= and keep= with NumPy arrays against a formula in NumPy."""

import numpy as np
import pytest

import regard

rng = np.random.default_rng(5)


def drawn(b=2, s=19, h=3, d=8):
    return (rng.standard_normal((b, s, h, d), dtype=np.float32) for _ in range(4))


def reference(q, k, v, score, keep):
    """score, keep: functions of s and index arrays b, h, q, kv of all places."""
    s = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    places = np.indices(s.shape)
    s = np.where(keep(*places), score(s, *places), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v)


def everything(b, h, q, kv):
    return np.ones_like(b, bool)


def test_a_score_reads_tensors():
    q, k, v, _ = drawn()
    slope = np.array([0.5, 0.25, 1.5], np.float32)
    expected = reference(q, k, v, lambda s, b, h, i, j: s * 0.5 - slope[h] * abs(j - i), everything)
    actual = regard.attention(q, k, v, score="s * 0.5 - slope[h] * abs(kv - p)", tensors={"slope": slope})
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_a_mask_reads_tensors(dtype):
    q, k, v, _ = drawn()
    doc = np.sort(rng.integers(0, 4, (2, 19)), axis=1).astype(dtype)
    expected = reference(q, k, v, lambda s, *_: s, lambda b, h, i, j: (doc[b, i] == doc[b, j]) & (j <= i))
    actual = regard.attention(q, k, v, keep="doc[b,q]==doc[b,kv]&&kv<=q", tensors={"doc": doc})
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


def test_conditions_numbers_and_scalars():
    q, k, v, _ = drawn()
    seen, scale = rng.random(19) < 0.7, np.array(1.5, np.float16)
    seen[0] = True
    expected = reference(q, k, v, lambda s, *_: s * 1.5, lambda b, h, i, j: seen[j] & (j >= i - 9) | (j == 0))
    actual = regard.attention(
        q,
        k,
        v,
        score="s*c",
        keep="seen[kv] && kv >= q-n0 || kv == 0",
        numbers="n0:9",
        tensors={"seen": seen, "c": scale},
    )
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


def test_gradients_of_tensors():
    q, k, v, grad_o = drawn()
    slope, c = np.array([0.5, 0.25, 1.5], np.float32), np.array(0.75, np.float32)
    words = {"score": "s*c-slope[h]*abs(kv-p)", "keep": "kv<=q"}

    def run(q, slope, c, **more):
        return regard.attention(q, k, v, **words, tensors={"slope": slope, "c": c}, **more)

    o, lse = run(q, slope, c, lse=True)
    results = regard.attention_backward(
        grad_o, q, k, v, o, lse, **words, tensors={"slope": slope, "c": c}, grads=("slope", "c")
    )
    grad_q, _, _, grad_slope, grad_c = results
    assert grad_slope.shape == (3,) and grad_c.shape == (1,) and grad_slope.dtype == np.float32

    def loss(*arrays):
        return float((run(*arrays).astype(np.float64) * grad_o).sum())

    h = np.float32(0.0078125)
    for i in range(3):
        step = np.zeros_like(slope)
        step[i] = h
        difference = (loss(q, slope + step, c) - loss(q, slope - step, c)) / float(2 * h)
        assert difference == pytest.approx(grad_slope[i], rel=1e-2, abs=1e-2)
    difference = (loss(q, slope, c + h) - loss(q, slope, c - h)) / float(2 * h)
    assert difference == pytest.approx(float(grad_c[0]), rel=1e-2, abs=1e-2)
    step = np.zeros_like(q)
    step[1, 4, 2, 3] = h
    difference = (loss(q + step, slope, c) - loss(q - step, slope, c)) / float(2 * h)
    assert difference == pytest.approx(float(grad_q[1, 4, 2, 3]), rel=1e-2, abs=1e-2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"score": 5}, "score is of type int; it must be text such as 's\\*2.0'"),
        ({"score": "s-slop[h]", "tensors": {"slope": np.ones(3, np.float32)}}, "'slop' is not a name here; 'slope' is"),
        ({"score": "s+w[h]", "tensors": [1]}, "tensors is of type list; it must be a dict of arrays by the names"),
        (
            {"score": "s+w[h]", "tensors": {"w": np.ones(3)}},
            "tensors\\['w'\\] has dtype float64; functions read float32,",
        ),
        ({"keep": "kv<='q'"}, "a function cannot contain quotes"),
        ({"score": "s*s", "target": "sm_90a"}, "it does not take score yet; CPU targets have a generic kernel"),
        ({"score": "s*2.0", "softcap": 2.0}, "score cannot be combined with softcap=2"),
        (
            {"score": "s+w[h]", "tensors": {"w": np.ones((3, 3), np.float32)}},
            "w has 2 dimensions, and 1 index is given",
        ),
    ],
)
def test_what_is_refused(options, sentence):
    q, k, v, _ = drawn()
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=sentence):
        regard.attention(q, k, v, **options)
