"""Calls with PyTorch tensors that match an earlier one take another path, which must not show."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import regard  # noqa: E402
from regard.request import read  # noqa: E402

pytestmark = pytest.mark.no_compiler


class Labelled(torch.Tensor):
    """A subclass, whose calls are never treated as repeated ones."""


def labelled(value):
    return value.as_subclass(Labelled) if isinstance(value, torch.Tensor) else value


def plain(results):
    results = results if isinstance(results, tuple) else (results,)
    return [x.as_subclass(torch.Tensor) for x in results]


def tensors(seed, sq=40, sk=50, hq=4, hk=2, d=16, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    shapes = (2, sq, hq, d), (2, sk, hk, d), (2, sk, hk, d)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def whole(*values):
    return torch.tensor(values, dtype=torch.int32)


# Options that differ in one aspect each, so that all of them are remembered together.
OPTIONS = {
    "none": {},
    "lse": {"lse": True},
    "causal": {"causal": True},
    "top_left": {"causal": "top_left"},
    "window": {"window": (8, 2)},
    "other window": {"window": (8, 3), "lse": True},
    "scale": {"scale": 0.5},
    "other scale": {"scale": 0.25},
    "softcap": {"softcap": 5},
    "bias": {"bias": numbers(1, 4, 40, 50)},
    "bias per batch": {"bias": numbers(2, 4, 40, 50)},
    "alibi": {"alibi": numbers(4).abs()},
    "sink": {"sink": numbers(4)},
    "lengths": {"lengths_k": whole(50, 13), "lse": True},
    "dropout": {"dropout": 0.3, "seed": 5, "offset": 6, "dropout_mask": True},
    "other seed": {"dropout": 0.3, "seed": 6, "offset": 6, "dropout_mask": True},
    "seed of a tensor": {"dropout": 0.3, "seed": torch.tensor([5, 6], dtype=torch.int64)},
}


def same(expected, got):
    for one, other in itertools.zip_longest(plain(expected), plain(got)):
        assert one.dtype == other.dtype and one.shape == other.shape and one.stride() == other.stride()
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_are_those_of_a_first_call(dtype):
    for turn, name in itertools.product(range(3), OPTIONS):
        options = {key: x.to(dtype) if key == "bias" else x for key, x in OPTIONS[name].items()}
        inputs = tensors(turn, dtype=dtype)
        expected = regard.attention(*map(labelled, inputs), **{key: labelled(x) for key, x in options.items()})
        same(expected, regard.attention(*inputs, **options))


def test_gradients_are_those_of_a_first_call():
    for turn, causal in itertools.product(range(3), (False, True)):
        q, k, v = tensors(turn)
        o, lse = regard.attention(q, k, v, causal=causal, lse=True)
        inputs = torch.randn_like(o), q, k, v, o, lse
        same(regard.attention_backward(*map(labelled, inputs), causal=causal),
             regard.attention_backward(*inputs, causal=causal))  # fmt: skip


def test_shapes_dtypes_and_layouts_are_told_apart():
    for turn in range(3):
        for variant in ({}, {"sq": 41}, {"sk": 51}, {"hq": 2}, {"d": 24}, {"dtype": torch.float16}):
            inputs = tensors(turn, **variant)
            same(regard.attention(*map(labelled, inputs)), regard.attention(*inputs))
        q, k, v = tensors(turn, 40, 40, 4, 4)
        expected = regard.attention(q, k, v)
        across = (x.transpose(1, 2) for x in (q, k, v))
        assert torch.equal(regard.attention(*across, layout="bhsd").transpose(1, 2), expected)


def test_results_lie_as_those_of_a_first_call():
    q, k, v = tensors(1)
    for _ in range(3):
        for one in (q, q.transpose(1, 2).contiguous().transpose(1, 2)):
            result = regard.attention(one, k, v)
            assert result.is_contiguous() and type(result) is torch.Tensor
        out, lse = torch.empty_like(q), torch.empty(2, 4, 40)
        results = regard.attention(q, k, v, out=out, lse=lse)
        assert results[0] is out and results[1] is lse
        same(regard.attention(q, k, v, lse=True), results)


def test_packed_sequences_may_grow():
    for longest in (10, 20, 40):
        q, k, v = (x[0] for x in tensors(longest, 50, 50, 2, 2))
        offsets = whole(0, longest, 50)
        expected = regard.attention(q[longest:][None], k[longest:][None], v[longest:][None])[0]
        got = regard.attention(q, k, v, offsets_q=offsets, offsets_k=offsets)
        assert torch.allclose(got[longest:], expected, atol=1e-5)


def test_rows_past_a_length_are_zero():
    q, k, v = tensors(1)
    for _ in range(3):
        torch.full((2, 40, 4, 16), torch.nan)  # may be allocated next
        assert (regard.attention(q, k, v, lengths_q=whole(40, 7))[1, 7:] == 0).all()


def test_rows_without_keys_are_written():
    q, k, v = tensors(1)
    inputs, lengths = {"q": q, "k": k, "v": v}, {"lengths_k": whole(40, 0)}
    assert not read("fwd", inputs, lengths, {}).zeros  # so that results need not be cleared first
    assert read("fwd", inputs, {**lengths, "dropout": 0.5}, {"dropout_mask": True}).zeros
    for _ in range(3):
        torch.full((2, 40, 4, 16), torch.nan), torch.full((2, 4, 40), torch.nan)  # may be allocated next
        o, lse = regard.attention(q, k, v, lse=True, **lengths)
        assert (o[1] == 0).all() and (lse[1] == -torch.inf).all()
        assert o.isfinite().all() and lse[0].isfinite().all()


def test_what_is_wrong_is_still_refused():
    q, k, v = tensors(1)
    for _ in range(3):
        regard.attention(q, k, v)
        with pytest.raises(ValueError, match=r"q requires a gradient.*detach"):
            regard.attention(q.clone().requires_grad_(), k, v)
        with pytest.raises(ValueError, match="tensor 'k'.*last dimension must be contiguous"):
            regard.attention(q, k.transpose(1, 3).contiguous().transpose(1, 3), v)
        with pytest.raises(ValueError, match="CPU target takes no stream"):
            regard.attention(q, k, v, stream=5)
        with pytest.raises(ValueError, match="unknown|not a"):
            regard.attention(q, k, v, colour="red")
        negative = torch.complex(torch.zeros_like(q), -q).conj().imag
        assert torch.equal(regard.attention(negative, k, v), regard.attention(q, k, v))


@pytest.mark.skipif("not hasattr(torch.Tensor, '__dlpack_c_exchange_api__')")
def test_older_versions_of_pytorch_give_the_same():
    program = (
        "import sys, pytest, torch; del torch.Tensor.__dlpack_c_exchange_api__; sys.exit(pytest.main(sys.argv[1:]))"
    )
    here = Path(__file__)
    files = [str(here), str(here.parent / "test_torch.py")]
    subprocess.run(
        [sys.executable, "-c", program, "-q", "-k", "not older_versions", "-p", "no:cacheprovider", *files], check=True
    )
