"""regard.torch.mask: the bits of a function, made once, are those of keep= in a call."""

import pytest
import torch

import regard.torch
from regard.torch import masks

B, H, SQ, SK = 2, 4, 37, 70
doc = torch.randint(0, 3, (B, SK), generator=torch.Generator().manual_seed(1)).sort(-1).values
ends = torch.tensor([20, 41, 70])


def documents(b, h, q, kv):
    return (doc[b, q] == doc[b, kv]) & (kv <= q + 9)


def heads(b, h, q, kv):
    return (q // 4 + h) % 3 != kv // 8 % 3


@pytest.mark.parametrize(("keep", "b", "h"), [(documents, B, 1), (heads, 1, H), (lambda b, h, q, kv: kv < 33, 1, 1)])
@pytest.mark.parametrize("at_once", [1 << 24, 1000])
def test_bits_are_those_of_the_call(monkeypatch, keep, b, h, at_once):
    monkeypatch.setattr(masks, "_AT_ONCE", at_once)
    bits = regard.torch.mask(keep, b, h, SQ, SK)
    assert bits.dtype == torch.uint32 and bits.shape == (b, h, SQ, 3)
    torch.manual_seed(2)
    q, k, v = (torch.randn(B, s, H, 8, requires_grad=True) for s in (SQ, SK, SK))
    results = [regard.torch.attention(q, k, v, **options) for options in ({"bits": bits}, {"keep": keep})]
    gradients = [torch.autograd.grad(o.square().sum(), (q, k, v)) for o in results]
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*gradients)


def test_what_a_function_of_a_call_cannot_say():
    bits = regard.torch.mask(
        lambda b, h, q, kv: torch.searchsorted(ends, q) == torch.searchsorted(ends, kv), 1, 1, SQ, SK
    )
    document = torch.searchsorted(ends, torch.arange(SK))
    assert torch.equal(bits, regard.pack_bits(document[:SQ, None] == document)[None, None])


def test_empty_sizes():
    assert regard.torch.mask(documents, B, 1, SQ, 0).shape == (B, 1, SQ, 0)
    assert regard.torch.mask(documents, 0, 1, SQ, SK).shape == (0, 1, SQ, 3)


def test_what_is_refused():
    with pytest.raises(TypeError, match="keep is of type str; it must be a function of b, h, q_idx and kv_idx"):
        regard.torch.mask("kv<=q", 1, 1, SQ, SK)
    with pytest.raises(TypeError, match="keep returns torch.int32; it must return booleans, true where a key is seen"):
        regard.torch.mask(lambda b, h, q, kv: kv - q, 1, 1, SQ, SK)
    with pytest.raises(TypeError, match="keep returns an object of type bool; it must return a tensor of booleans"):
        regard.torch.mask(lambda b, h, q, kv: True, 1, 1, SQ, SK)
    with pytest.raises(ValueError, match=r"keep returns a tensor of shape \[2\] for one query and key; return one"):
        regard.torch.mask(lambda b, h, q, kv: torch.stack([q > kv, q < kv]), 1, 1, SQ, SK)
    for keep, sentence in (
        (lambda b, h, q, kv: q > kv if q > 3 else q < kv, "it decides by the value of an index, .* use torch.where, &"),
        (lambda b, h, q, kv: q.item() > kv, r"it makes a number of an index, .* use operations on tensors instead"),
        (lambda b, h, q, kv: q > torch.from_numpy(kv.numpy()), "it reads the memory of an index, as numpy"),
        (
            lambda b, h, q, kv: torch.nonzero(q > kv) > 0,
            "use other operations than the one of which PyTorch says: vmap",
        ),
    ):
        with pytest.raises(NotImplementedError, match=f"keep cannot be evaluated for all places at once.*{sentence}"):
            regard.torch.mask(keep, 1, 1, SQ, SK)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):  # keep's own
        regard.torch.mask(lambda b, h, q, kv: torch.zeros(3)[q] > kv, 1, 1, SQ, SK)
    with pytest.raises(ValueError, match="sq is -1; it must be a whole number from 0 on"):
        regard.torch.mask(documents, 1, 1, -1, SK)
