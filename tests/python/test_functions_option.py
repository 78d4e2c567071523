"""functions=: whether score= and keep= are computed by words of the problem, or interpreted."""

import numpy as np
import pytest

import regard

rng = np.random.default_rng(6)
WORDS = {"score": "s+m[h,q,kv]", "keep": "kv<=p"}


def test_words_and_interpreted_agree():
    q, k, v = (rng.standard_normal((2, 21, 3, 16), dtype=np.float32) for _ in range(3))
    m = rng.standard_normal((3, 21, 21), dtype=np.float32)
    as_words = regard.attention(q, k, v, bias=m[None], causal=True)
    by_words = regard.attention(q, k, v, **WORDS, tensors={"m": m}, functions="words")
    interpreted = regard.attention(q, k, v, **WORDS, tensors={"m": m}, functions="interpreted")
    np.testing.assert_array_equal(by_words, as_words)
    np.testing.assert_allclose(interpreted, as_words, rtol=2e-5, atol=2e-6)


def test_an_empty_text():
    q = rng.standard_normal((1, 9, 3, 16), dtype=np.float32)
    with pytest.raises(regard.InvalidError, match="functions is ''; give a word such as 'bits'"):
        regard.attention(q, q, q, **WORDS, functions="")


def test_ranges_and_bits_agree():
    q, k, v = (rng.standard_normal((2, 21, 3, 16), dtype=np.float32) for _ in range(3))
    past = np.array([4, 0], "int32")
    both = [
        regard.attention(q, k, v, keep="kv<=p||kv<past[b]", tensors={"past": past}, functions=way)
        for way in ("ranges", "bits")
    ]
    np.testing.assert_allclose(both[0], both[1], rtol=2e-5, atol=2e-6)


def test_a_tensor_that_a_word_does_not_take():
    q, k, v = (rng.standard_normal((1, 9, 3, 16), dtype=np.float32) for _ in range(3))
    m = rng.standard_normal((3, 9, 9)).astype(np.float16)
    expected = regard.attention(q, k, v, bias=m[None].astype(np.float32), causal=True)
    np.testing.assert_allclose(regard.attention(q, k, v, **WORDS, tensors={"m": m}), expected, rtol=2e-5, atol=2e-6)
    with pytest.raises(ValueError, match=r"'m \(captured_0\)' is fp16; the problem needs fp32"):
        regard.attention(q, k, v, **WORDS, tensors={"m": m}, functions="words")


@pytest.mark.parametrize(
    ("problem", "functions", "sentence"),
    [
        ("keep=kv<7", "words", "no word says keep"),
        ("keep=kv!=7", "ranges", "a row may see several ranges of keys"),
        ("mask=causal", "interpreted", "is for a problem with score or keep"),
        ("keep=kv<=p", "word", "did you mean 'words'"),
    ],
)
def test_refusals(problem, functions, sentence):
    with pytest.raises((regard.InvalidError, regard.RefusedError), match=sentence):
        regard.plan(f"fwd fp32 h=2 s=16 d=8 {problem}", functions=functions)


def test_a_plan_keeps_it():
    plan = regard.plan("fwd fp32 h=2 s=16 d=8 keep=kv<=p", functions="interpreted")
    assert "keep" in plan.__reduce__()[1][0].text and plan.__reduce__()[1][4] == "interpreted"
    assert "functions=interpreted" in regard.explain(plan.problem, functions="interpreted")
