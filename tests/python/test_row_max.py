"""row_max: each row's largest score, as a further result of forward."""

import json

import numpy
import pytest

import regard

B, H, HK, SQ, SK, D = 2, 4, 2, 21, 33, 16


def drawn():
    random = numpy.random.default_rng(4)
    return [random.standard_normal((B, s, h, D), "float32") for s, h in ((SQ, H), (SK, HK), (SK, HK))]


def largest(q, k, visible):
    scores = numpy.einsum("bqhd,bkhd->bhqk", q, k.repeat(H // HK, axis=2), dtype="float64") / D**0.5
    return numpy.where(visible, scores, -numpy.inf).max(-1)


def test_the_largest_score_that_each_row_sees():
    q, k, v = drawn()
    visible = numpy.arange(SK) <= numpy.arange(SQ)[:, None] - 3  # the first rows see no key
    options = {"ranges": numpy.stack([0 * visible[:, 0], visible.sum(-1)], -1)[None].astype("int32")}
    o, lse, row_max = regard.attention(q, k, v, lse=True, row_max=True, **options)
    numpy.testing.assert_allclose(row_max, largest(q, k, visible), rtol=1e-6, atol=1e-6)
    assert (row_max[:, :, :3] == -numpy.inf).all()
    numpy.testing.assert_array_equal(regard.attention(q, k, v, **options), o)
    given = numpy.empty_like(lse)
    again, returned = regard.attention(q, k, v, row_max=given, **options)
    assert returned is given
    numpy.testing.assert_array_equal(given, row_max)
    numpy.testing.assert_array_equal(again, o)


def test_gpus_write_it():
    for target in ("sm_80", "sm_90a", "gfx942"):
        plan = json.loads(regard.plan("fwd bf16 h=2 s=64 d=64 row_max", target=target).json)
        assert plan["stages"][0]["kernel"].endswith("fwd bf16 d=64 row_max")


def test_what_is_refused():
    q, k, v = drawn()
    o, lse = regard.attention(q, k, v, lse=True)
    with pytest.raises(regard.InvalidError, match="row_max does not go with bwd; only fwd has scores of whole rows"):
        regard.attention_backward(o, q, k, v, o, lse, row_max=True)
    with pytest.raises(regard.InvalidError, match="did you mean row_max=True"):
        regard.attention(q, k, v, row_maxx=True)
