"""The dropout mask is that of its definition, on every CPU target and in both passes."""

import numpy
import pytest

import reference
import regard

B, HQ, HK, SQ, SK, D = 3, 4, 2, 70, 133, 16
DROPOUT = 0.3
TARGETS = [row["name"] for row in regard.info()["targets"] if row["kind"] == "cpu" and row["runs_here"]]
# All 64 bits of both count.
DRAWS = [(0, 0), (11, 3 * 2**32), (2**63 + 1, 2**32 + 7), (2**64 - 1, 2**64 - 1)]


def drawn_mask(b=B, hq=HQ, hk=HK, sq=SQ, sk=SK, **options):
    q = numpy.zeros((b, sq, hq, D), "float32")
    k = numpy.zeros((b, sk, hk, D), "float32")
    return regard.attention(q, k, k, dropout=DROPOUT, dropout_mask=True, **options)[1]


@pytest.mark.parametrize("family", ["forward", "generic"])
@pytest.mark.parametrize("target", TARGETS)
def test_forward_drops_what_the_definition_says(target, family):
    for seed, offset in DRAWS:
        expected = reference.kept(DROPOUT, seed, offset, B, HQ, SQ, SK)
        where = {"target": target, "family": family}
        assert (drawn_mask(seed=seed, offset=offset, **where) == expected).all()
        of_array = numpy.array([seed, offset], "uint64")
        assert (drawn_mask(seed=of_array, **where) == expected).all()


@pytest.mark.parametrize("family", ["backward", "generic"])
@pytest.mark.parametrize("target", TARGETS)
def test_backward_drops_what_the_definition_says(target, family):
    """Weights are 1 / sk everywhere, and each row has a column of dO and each key one of K, so that the gradients are
    the mask."""
    group = HQ // HK
    q, v = numpy.zeros((B, SQ, HQ, SK), "float32"), numpy.ones((B, SK, HK, group * SQ), "float32")
    k = numpy.broadcast_to(numpy.eye(SK, dtype="float32")[None, :, None], (B, SK, HK, SK)).copy()
    grad_o = numpy.zeros((B, SQ, HQ, group * SQ), "float32")
    for head in range(HQ):
        first = head % group * SQ
        grad_o[:, range(SQ), head, range(first, first + SQ)] = 1
    for seed, offset in DRAWS:
        kept = reference.kept(DROPOUT, seed, offset, B, HQ, SQ, SK)
        options = {"dropout": DROPOUT, "seed": seed, "offset": offset, "scale": 1.0, "target": target}
        o, lse = regard.attention(q, k, v, lse=True, **options)
        grad_q, _, grad_v = regard.attention_backward(grad_o, q, k, v, o, lse, family=family, **options)
        of_v = grad_v.reshape(B, SK, HK, group, SQ).transpose(0, 2, 3, 4, 1).reshape(B, HQ, SQ, SK)
        assert ((of_v > 0) == kept).all()
        # A key's part of dQ lies above or below the row's mean.
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
    q = numpy.zeros((offsets_q[-1], HQ, D), "float32")
    k = numpy.zeros((offsets_k[-1], HK, D), "float32")
    options = {"offsets_q": offsets_q, "offsets_k": offsets_k, "dropout": DROPOUT, "seed": 7, "offset": 8}
    packed = regard.attention(q, k, k, dropout_mask=True, family=family, **options)[1]
    assert packed.shape == (HQ, offsets_q[-1], SK)
    for i, (sq, sk) in enumerate(zip(lengths_q, lengths_k)):
        rows = slice(offsets_q[i], offsets_q[i + 1])
        assert (packed[:, rows, :sk] == dense[i, :, :sq, :sk]).all()
