"""Errors from an array's own library become one sentence of ours that names the array."""

import traceback

import numpy
import pytest

torch = pytest.importorskip("torch")
import regard  # noqa: E402

Q = torch.randn(1, 9, 2, 16)
PACKED = Q[0]
OFFSETS = torch.tensor([0, 9], dtype=torch.int32)
PLAN = regard.plan("fwd fp32 b=1 h=2 s=9 d=16")


def wrapping(answer):
    """A wrapper subclass whose operations end in `answer`."""

    class Wrapping(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function, types, arguments=(), options=None):
            return answer()

    def make(x):
        return torch.Tensor._make_wrapper_subclass(Wrapping, x.shape, dtype=x.dtype, device=x.device)

    return make


def raising():
    raise RuntimeError("this one\ncannot do it")


KINDS = {
    "not implemented": wrapping(lambda: NotImplemented),
    "raising": wrapping(raising),
    "not initialised": lambda x: torch.nn.UninitializedParameter(dtype=torch.float32),
    "a buffer not initialised": lambda x: torch.nn.UninitializedBuffer(dtype=torch.float32),
    "sparse": lambda x: x.to_sparse(),
}
CALLS = {
    "q": lambda x: regard.attention(x, Q, Q),
    "k": lambda x: regard.attention(Q, x, Q),
    "q of a gradient": lambda x: regard.attention_backward(Q, x, Q, Q, Q, torch.zeros(1, 2, 9)),
    "bias": lambda x: regard.attention(Q, Q, Q, bias=x),
    "lse": lambda x: regard.attention(Q, Q, Q, lse=x),
    "o": lambda x: regard.attention(Q, Q, Q, out=x),
    "seed": lambda x: regard.attention(Q, Q, Q, dropout=0.5, seed=x),
    "lengths_k": lambda x: regard.attention(Q, Q, Q, lengths_k=x),
    "offsets_q": lambda x: regard.attention(PACKED, PACKED, PACKED, offsets_q=x, offsets_k=OFFSETS),
    "q of a plan": lambda x: PLAN.run(q=x, k=Q, v=Q, o=torch.empty_like(Q)),
    "window": lambda x: regard.attention(Q, Q, Q, window=x),
    "scale": lambda x: regard.attention(Q, Q, Q, scale=x),
    "scale of a problem": lambda x: regard.Problem("fwd", scale=x),
    "mask": lambda x: regard.pack_bits(x),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
def test_errors_of_pytorch_are_one_sentence_of_ours(call, kind):
    of_integers = call in ("offsets_q", "lengths_k", "seed")
    given = KINDS[kind](torch.ones(9, 9, dtype=torch.bool) if call == "mask" else OFFSETS if of_integers else Q)
    with pytest.raises((regard.InvalidError, TypeError)) as caught:
        CALLS[call](given)
    sentence = str(caught.value)
    assert sentence.startswith(call.split()[0]), sentence
    assert "\n" not in sentence
    assert isinstance(caught.value, regard.RegardError) or "; it must be" in sentence, sentence


def test_an_error_that_is_kept_keeps_nothing_else():
    """PyTorch's str() has a guard in a local variable, which would switch its transforms off for as long."""
    with pytest.raises(regard.InvalidError, match="^scale ") as caught:
        regard.Problem("fwd", scale=KINDS["raising"](Q))
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__cause__.__traceback__)]
    assert frames and not any(frame.f_locals for frame in frames)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.tensor([0, 9], dtype=torch.bfloat16),
        lambda: torch.tensor([0.0, 9.0], requires_grad=True),
        lambda: OFFSETS.to("meta"),
        lambda: [[0], [1, 2]],
    ],
    ids=["bf16", "gradient", "meta", "ragged"],
)
def test_offsets_that_numpy_cannot_read(make):
    with pytest.raises(regard.InvalidError, match=r"^offsets_k cannot be read .*int32 \[b\+1\]"):
        regard.attention(PACKED, PACKED, PACKED, offsets_q=OFFSETS, offsets_k=make())


def test_offsets_are_those_that_are_read():
    """With the negative bit the memory holds other numbers."""
    negative = torch._neg_view(torch.tensor([0, -9], dtype=torch.int32))
    expected = regard.attention(PACKED, PACKED, PACKED, offsets_q=OFFSETS, offsets_k=OFFSETS)
    got = regard.attention(PACKED, PACKED, PACKED, offsets_q=negative, offsets_k=negative)
    assert torch.equal(got, expected)


def test_masks_that_numpy_cannot_read():
    for mask in ([[True], [True, False]], [[Q], [Q, Q]]):
        with pytest.raises(regard.InvalidError, match="^mask "):
            regard.pack_bits(mask)
    assert numpy.array_equal(regard.pack_bits([[True, False, True]]), [[5]])
