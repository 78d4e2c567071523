"""Latent attention (MLA): v=None says that v is the first columns of k."""

import numpy
import pytest

import regard
from regard.request import read

D, DV = 24, 16


def random(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("float32")


def text(q, k, pass_="fwd", **options):
    return regard.Problem(read(pass_, {"q": q, "k": k}, options, {}).text).text


def test_the_words():
    q, k = random(2, 3, 4, D), random(2, 9, 1, D)
    sizes = "fwd fp32 b=2 hq=4 hk=1 sq=3 sk=9 d=24 dv=16"
    assert text(q, k, dv=DV) == f"{sizes} latent"
    assert text(q, k[..., :DV], k_rope=k[..., DV:]) == f"{sizes} latent k_rope"
    pages = {"page_table": numpy.zeros((2, 3), "int32"), "lengths_k": numpy.ones(2, "int32")}
    assert text(q, random(7, 3, 1, D), dv=DV, **pages) == f"{sizes} lengths latent paged=3 pages=7"
    with pytest.raises(
        ValueError, match="v is None, which means that v is the first columns of k: give dv=, their number, or k_rope="
    ):
        regard.attention(q, k, None)
    with pytest.raises(ValueError, match=r"dv=25 is above d=24"):
        regard.attention(q, k, None, dv=25)
    with pytest.raises(ValueError, match="k_rope needs latent"):
        regard.attention(q, k[..., :DV], k[..., :DV], k_rope=k[..., DV:])
    wide, factors = random(2, 9, 1, 192), {"descale_k": random(2, 9, 1, 1), "kv": "fp8"}
    row = {"k_rope": wide[..., 128:], **factors}
    found = text(random(2, 3, 4, 192), wide[..., :128].astype("uint8"), **row)
    assert found == "fwd fp32 b=2 hq=4 hk=1 sq=3 sk=9 d=192 dv=128 kv=fp8 descale=columns latent k_rope"
    with pytest.raises(ValueError, match="latent does not go with bwd"):
        o, lse = regard.attention(q, k, None, dv=DV, lse=True)
        regard.attention_backward(o, q, k, None, o, lse, dv=DV)
    with pytest.raises(ValueError, match="unknown option 'use_mla'; did you mean v=None and dv="):
        regard.attention(q, k, k, use_mla=True)
    with pytest.raises(ValueError, match="'v' is given, but .* does not use it; leave it out"):
        regard.attention(q, k, k[..., :DV], latent=True)


@pytest.mark.parametrize("apart", [False, True])
def test_attention_and_append(apart):
    q, k, new = random(2, 3, 4, D), random(2, 9, 1, D, seed=1), random(2, 2, 1, D, seed=2)
    lengths = numpy.array([7, 4], "int32")
    parts = numpy.ascontiguousarray(k[..., :DV]), numpy.ascontiguousarray(k[..., DV:])
    given = (parts[0], {"k_rope": parts[1]}) if apart else (k, {"dv": DV})
    regard.append(given[0], None, new, None, lengths_k=lengths, **given[1])
    for i, length in enumerate(lengths):
        k[i, length : length + 2] = new[i]
        assert numpy.array_equal(parts[0][i, :9], k[i, :9, :, :DV]) or not apart
    o = regard.attention(q, given[0], None, lengths_k=lengths + 2, causal=True, **given[1])
    for i, length in enumerate(lengths + 2):
        keys = k[i : i + 1, :length]
        expected = regard.attention(q[i : i + 1], keys, numpy.ascontiguousarray(keys[..., :DV]), causal=True)
        assert numpy.allclose(o[i], expected[0], atol=1e-6)


def test_torch():
    torch = pytest.importorskip("torch")
    import regard.torch

    q, k = (torch.from_numpy(random(*shape)) for shape in ((2, 3, 4, D), (2, 9, 1, D)))
    expected = regard.torch.attention(q, k, k[..., :DV])
    assert torch.allclose(regard.torch.attention(q, k, None, dv=DV), expected, atol=1e-6)
    o, lse = regard.torch.attention(q, k[..., :DV], None, k_rope=k[..., DV:], lse=True)
    assert torch.allclose(o, expected, atol=1e-6) and lse.shape == (2, 4, 3)
    with pytest.raises(NotImplementedError, match=r"latent attention \(v=None\) has no gradients"):
        regard.torch.attention(q.requires_grad_(), k, None, dv=DV)
    with pytest.raises(TypeError, match="k is of type"):
        regard.torch.attention(q, None, None, dv=DV)
    version = k._version
    regard.torch.append(k, None, k[:, :1].clone(), None, lengths_k=torch.tensor([3, 4], dtype=torch.int32), dv=DV)
    assert k._version > version
    assert torch.equal(k[0, 3], k[0, 0])
