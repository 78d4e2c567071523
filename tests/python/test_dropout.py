"""The dropout mask matches its definition, on every CPU target and in both passes."""

import numpy
import pytest
from part import part_of

import reference
import regard

B, HQ, HK, SQ, SK = 2, 4, 2, 70, 133
GROUP = HQ // HK
DROPOUT = 0.3
TARGETS = [row["name"] for row in regard.info()["targets"] if row["kind"] == "cpu" and row["runs_here"]]
DRAWS = [(11, 3 * 2**32), (2**64 - 1, 2**63 + 5)]  # seed and offset: all 64 bits of both count


def on_targets(*families):
    paths = [(target, family) for target in TARGETS for family in families]
    paths = [path for path in paths if path != ("cpu-amx-emulated", "generic")]
    return pytest.mark.parametrize(("target", "family"), part_of(paths))


def inputs(rows_q, rows_k, hq=HQ, hk=HK):
    """Q of zeros, so that all weights of a row are equal; a column of K for each key; V of ones."""
    q, v = numpy.zeros((*rows_q, hq, SK), "float16"), numpy.ones((*rows_k, hk, GROUP * SQ), "float16")
    k = numpy.broadcast_to(numpy.eye(rows_k[-1], SK, dtype="float16")[:, None], (*rows_k, hk, SK))
    return q, k.copy(), v


def drawn_mask(b=B, hq=HQ, hk=HK, **options):
    return regard.attention(*inputs((b, SQ), (b, SK), hq, hk), dropout=DROPOUT, dropout_mask=True, **options)[1]


@on_targets("forward", "generic")
def test_forward_drops_what_the_definition_says(target, family):
    for seed, offset in DRAWS:
        expected = reference.kept(DROPOUT, seed, offset, B, HQ, SQ, SK)
        for given in ({"seed": seed, "offset": offset}, {"seed": numpy.array([seed, offset], "uint64")}):
            assert (drawn_mask(**given, target=target, family=family) == expected).all()


@on_targets("backward", "generic")
def test_backward_drops_what_the_definition_says(target, family):
    """If each row has a column of dO, and each key one of K, gradients are the mask."""
    q, k, v = inputs((B, SQ), (B, SK))
    grad_o = numpy.zeros((B, SQ, HQ, GROUP * SQ), "float16")
    for head in range(HQ):
        first = head % GROUP * SQ
        grad_o[:, range(SQ), head, range(first, first + SQ)] = 1
    for seed, offset in DRAWS:
        kept = reference.kept(DROPOUT, seed, offset, B, HQ, SQ, SK)
        options = {"dropout": DROPOUT, "seed": seed, "offset": offset, "scale": 1.0, "target": target}
        o, lse = regard.attention(q, k, v, lse=True, **options)
        grad_q, _, grad_v = regard.attention_backward(grad_o, q, k, v, o, lse, family=family, **options)
        of_v = grad_v.reshape(B, SK, HK, GROUP, SQ).transpose(0, 2, 3, 4, 1).reshape(B, HQ, SQ, SK)
        assert ((of_v > 0) == kept).all()
        # A key's part of dQ is above or below the row's mean.
        assert ((grad_q.swapaxes(1, 2) > 0) == kept).all()


def test_a_head_has_its_mask_however_many_there_are():
    options = {"seed": 5, "offset": 2**32}
    expected = reference.kept(DROPOUT, 5, 2**32, 3, 6, SQ, SK)
    for b, hq, hk in ((1, 1, 1), (2, 3, 1), (3, 6, 2)):
        assert (drawn_mask(b=b, hq=hq, hk=hk, **options) == expected[:b, :hq]).all()


@pytest.mark.parametrize("family", ["forward", "generic"])
def test_packed_sequences_have_the_masks_of_dense_ones(family):
    lengths_q, lengths_k = [33, 0, SQ, 5], [9, 40, SK, 70]
    offsets_q, offsets_k = (numpy.cumsum([0, *lengths]).astype("int32") for lengths in (lengths_q, lengths_k))
    dense = drawn_mask(b=4, seed=7, offset=8, family=family)
    options = {"offsets_q": offsets_q, "offsets_k": offsets_k, "dropout": DROPOUT, "seed": 7, "offset": 8}
    packed = regard.attention(*inputs((offsets_q[-1],), (offsets_k[-1],)), dropout_mask=True, family=family, **options)[
        1
    ]
    assert packed.shape == (HQ, offsets_q[-1], SK)
    for i, (sq, sk) in enumerate(zip(lengths_q, lengths_k)):
        rows = slice(offsets_q[i], offsets_q[i + 1])
        assert (packed[:, rows, :sk] == dense[i, :, :sq, :sk]).all()


@on_targets("forward", "generic")
def test_what_is_kept_is_scaled_as_the_caller_says(target, family):
    random = numpy.random.default_rng(2)
    q, k, v, grad_o = (
        random.standard_normal((B, s, h, 24)).astype("float16") for s, h in ((SQ, HQ), (SK, HK), (SK, HK), (SQ, HQ))
    )
    kept = reference.kept(DROPOUT, 5, 6, B, HQ, SQ, SK)
    expected = reference.Options(numpy.ones_like(kept), kept=kept, keep_probability=1 / 2.5)
    options = {"dropout": DROPOUT, "keep_scale": 2.5, "seed": 5, "offset": 6, "target": target}
    o, lse = regard.attention(q, k, v, lse=True, family=family, **options)
    family = "backward" if family == "forward" else family
    results = [o, *regard.attention_backward(grad_o, q, k, v, o, lse, family=family, **options)]
    across = [x.swapaxes(1, 2) for x in (grad_o, q, k, v)]
    correct = [reference.attention(*across[1:], expected)[0], *reference.gradients(*across, expected)[:3]]
    for result, right in zip(results, correct):
        numpy.testing.assert_allclose(result, right.swapaxes(1, 2), rtol=5e-3, atol=5e-3)
