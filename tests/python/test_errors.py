"""Bad input gives one sentence that names what was wrong, in the documented class."""

import json

import numpy
import pytest

import regard

ZEROS = numpy.zeros


def f32(*shape):
    return ZEROS(shape, "float32")


GOOD = f32(1, 8, 4, 16)
MASKED = numpy.ma.masked_array(GOOD, GOOD == 0)
OFFSETS = numpy.array([0, 4, 8], "int32")
PACKED = f32(8, 2, 16)

# name: (call, class, words that the sentence contains)
CASES = {
    "dtype of q": (lambda: regard.attention(GOOD.astype("float64"), GOOD, GOOD), ValueError, ["q", "float64"]),
    "dtype mix": (lambda: regard.attention(GOOD, GOOD.astype("float16"), GOOD), ValueError, ["'k'", "fp16", "fp32"]),
    "integers": (lambda: regard.attention(*[ZEROS((1, 8, 4, 16), "uint16")] * 3), ValueError, ["q", "dtype='bf16'"]),
    "no array": (lambda: regard.attention([1, 2], GOOD, GOOD), TypeError, ["q", "list"]),
    "no array k": (lambda: regard.attention(GOOD, "k", GOOD), TypeError, ["k", "str"]),
    "head dims differ": (lambda: regard.attention(GOOD, f32(1, 8, 4, 8), GOOD), ValueError, ["'k'", "8", "16"]),
    "batches differ": (lambda: regard.attention(GOOD, f32(2, 8, 4, 16), GOOD), ValueError, ["'k'", "2"]),
    "masked elements": (lambda: regard.attention(MASKED, GOOD, GOOD), ValueError, ["q is a masked array", "filled()"]),
    "masked output": (lambda: regard.attention(*[GOOD] * 3, out=MASKED), ValueError, ["o is a masked array"]),
    "heads": (lambda: regard.attention(GOOD, *[f32(1, 8, 3, 16)] * 2), ValueError, ["hq=4", "hk=3", "multiple"]),
    "rank": (lambda: regard.attention(GOOD[0], GOOD, GOOD), ValueError, ["q", "4 dimensions"]),
    "last dimension": (
        lambda: regard.attention(f32(1, 8, 4, 32)[..., ::2], GOOD, GOOD),
        ValueError,
        ["'q'", "contiguous"],
    ),
    "head dim too large": (lambda: regard.attention(*[f32(1, 1, 1, 600)] * 3), ValueError, ["600", "512"]),
    "negative size": (lambda: regard.Problem("fwd fp32 b=-1 h=1 s=8 d=8"), ValueError, ["b=-1"]),
    "overflow": (
        lambda: regard.Problem("fwd fp32 b=4000000000 h=4000000000 s=4000000000 d=8"),
        ValueError,
        ["2^63"],
    ),
    "offsets decrease": (
        lambda: regard.attention(
            *[PACKED] * 3, offsets_q=numpy.array([0, 6, 5], "int32"), offsets_k=OFFSETS, sq=8, sk=8
        ),
        ValueError,
        ["offsets_q", "decrease"],
    ),
    "offsets start": (
        lambda: regard.attention(*[PACKED] * 3, offsets_q=numpy.array([1, 4, 8], "int32"), offsets_k=OFFSETS),
        ValueError,
        ["offsets_q", "start at 0"],
    ),
    "offsets too far": (
        lambda: regard.attention(*[PACKED] * 3, offsets_q=numpy.array([0, 4, 9], "int32"), offsets_k=OFFSETS),
        ValueError,
        ["offsets_q", "9"],
    ),
    "offsets beyond 32 bits": (
        lambda: regard.attention(
            *[PACKED] * 3, offsets_q=OFFSETS.astype("int64") + 2**32, offsets_k=OFFSETS, sq=8, sk=8
        ),
        ValueError,
        ["offsets_q", "4294967296", "32 bits"],
    ),
    "offsets of another shape": (
        lambda: regard.attention(*[PACKED] * 3, offsets_q=OFFSETS, offsets_k=numpy.arange(2**20), sq=8, sk=8),
        ValueError,
        ["'offsets_k'", "[1048576]", "[3]"],
    ),
    "fractions for lengths": (
        lambda: regard.attention(GOOD, GOOD, GOOD, lengths_k=numpy.array([8.0])),
        ValueError,
        ["lengths_k", "float64", "int32"],
    ),
    "a list of fractions": (
        lambda: regard.attention(GOOD, GOOD, GOOD, lengths_k=[8.0]),
        ValueError,
        ["lengths_k", "list", "float64", "whole"],
    ),
    "words for offsets": (
        lambda: regard.attention(*[PACKED] * 3, offsets_q=["a", "b"], offsets_k=OFFSETS),
        ValueError,
        ["offsets_q", "dtype", "int32"],
    ),
    "a window of arrays": (
        lambda: regard.attention(GOOD, GOOD, GOOD, window=(GOOD, GOOD, GOOD)),
        ValueError,
        ["window", "pair"],
    ),
    "a ragged list": (
        lambda: regard.plan("fwd fp32 h=4 s=8 d=16 lengths").run(q=GOOD, k=GOOD, v=GOOD, o=GOOD, lengths_k=[[1], []]),
        ValueError,
        ["lengths_k", "list"],
    ),
    "a list of huge numbers": (
        lambda: regard.attention(GOOD, GOOD, GOOD, lengths_k=[2**40]),
        ValueError,
        ["lengths_k", str(2**40), "32 bits"],
    ),
    "offsets alone": (lambda: regard.attention(*[PACKED] * 3, offsets_q=OFFSETS), ValueError, ["offsets_k"]),
    "dropout": (lambda: regard.attention(GOOD, GOOD, GOOD, dropout=1.0), ValueError, ["dropout=1", "[0, 1)"]),
    "negative dropout": (lambda: regard.attention(GOOD, GOOD, GOOD, dropout=-0.5), ValueError, ["dropout=-0.5"]),
    "negative seed": (lambda: regard.attention(GOOD, GOOD, GOOD, dropout=0.5, seed=-1), ValueError, ["seed is -1"]),
    "seed too large": (
        lambda: regard.attention(GOOD, GOOD, GOOD, dropout=0.5, seed=2**64),
        ValueError,
        ["seed is 18446744073709551616", "2^64 - 1"],
    ),
    "memory that wraps": (
        lambda: regard._core.empty([2**32, 2**31, 2], "fp32", False),
        ValueError,
        ["2^63 bytes"],
    ),
    "bias shape": (lambda: regard.attention(GOOD, GOOD, GOOD, bias=f32(1, 1, 8, 9)), ValueError, ["'bias'", "9"]),
    "bias rank": (lambda: regard.attention(GOOD, GOOD, GOOD, bias=f32(1, 1, 1, 8, 8)), ValueError, ["bias", "8, 8]"]),
    "bias per query": (lambda: regard.attention(GOOD, GOOD, GOOD, bias=f32(1, 1, 8, 1)), ValueError, ["'bias'", "1]"]),
    "gradient of a bias per key": (
        lambda: regard.attention_backward(
            GOOD, GOOD, GOOD, GOOD, GOOD, f32(1, 4, 8), bias=f32(1, 1, 1, 8), grad_bias=True
        ),
        ValueError,
        ["bias", "[1, 1, 1, 8]", "expanded", "sum grad_bias"],
    ),
    "gradient of all strides 0": (
        lambda: regard.attention_backward(
            numpy.broadcast_to(numpy.float32(1), GOOD.shape), GOOD, GOOD, GOOD, GOOD, f32(1, 4, 8)
        ),
        ValueError,
        ["'grad_o'", "numpy.ascontiguousarray()", "contiguous()"],
    ),
    # ---- masks
    "boolean bias": (lambda: regard.attention(GOOD, GOOD, GOOD, bias=MASK), ValueError, ["bias", "pack_bits(mask)"]),
    "boolean bits": (lambda: regard.attention(GOOD, GOOD, GOOD, bits=MASK), ValueError, ["bits", "pack_bits(mask)"]),
    "boolean mask": (lambda: regard.attention(GOOD, GOOD, GOOD, mask=MASK), ValueError, ["mask", "pack_bits(mask)"]),
    "boolean mask for a plan": (
        lambda: regard.plan("fwd fp32 h=4 s=8 d=16 bits").run(q=GOOD, k=GOOD, v=GOOD, o=GOOD.copy(), bits=MASK),
        ValueError,
        ["bits", "bool", "pack_bits(mask)"],
    ),
    "scores to pack": (lambda: regard.pack_bits(f32(1, 1, 8, 8)), ValueError, ["mask", "float32", "bias"]),
    "one boolean to pack": (lambda: regard.pack_bits(True), ValueError, ["mask", "[..., sq, sk]"]),
    "unknown option": (
        lambda: regard.attention(GOOD, GOOD, GOOD, dropuot=0.1),
        ValueError,
        ["unknown option 'dropuot'; did you mean dropout=0.1?"],
    ),
    "another library's option": (
        lambda: regard.attention(GOOD, GOOD, GOOD, is_causal=True),
        ValueError,
        ["is_causal", "did you mean causal=True?"],
    ),
    "another library's number": (
        lambda: regard.attention(GOOD, GOOD, GOOD, softmax_scale=0.5),
        ValueError,
        ["softmax_scale", "did you mean scale=0.5?"],
    ),
    "another library's array": (
        lambda: regard.attention(GOOD, GOOD, GOOD, attn_mask=GOOD),
        ValueError,
        ["attn_mask", "bits=regard.pack_bits(mask)", "bias="],
    ),
    "another library's list": (
        lambda: regard.attention(GOOD, GOOD, GOOD, cu_seqlens=[0, 8]),
        ValueError,
        ["cu_seqlens", "did you mean offsets_q= and offsets_k=?"],
    ),
    "an array for a number": (
        lambda: regard.attention(GOOD, GOOD, GOOD, softcap=GOOD),
        TypeError,
        ["softcap is of type ndarray", "must be a number"],
    ),
    "another library's array of numbers": (
        lambda: regard.attention(GOOD, GOOD, GOOD, softmax_scale=numpy.float32(0.5)),
        ValueError,
        ["softmax_scale", "did you mean scale=?"],
    ),
    "another library's pair": (
        lambda: regard.attention(GOOD, GOOD, GOOD, window_size=(3, 0)),
        ValueError,
        ["window_size", "did you mean window=(3, 0)?"],
    ),
    "another library's object": (
        lambda: regard.attention(GOOD, GOOD, GOOD, score_mod=lambda score: score),
        ValueError,
        ["score_mod", "did you mean score= or keep=, which take text or, in regard.torch.attention"],
    ),
    "another library's lists": (
        lambda: regard.attention(GOOD, GOOD, GOOD, attn_mask=[[True]]),
        ValueError,
        ["attn_mask", "bits="],
    ),
    "an unknown option of any kind": (
        lambda: regard.attention(GOOD, GOOD, GOOD, dropuot=object()),
        ValueError,
        ["dropuot", "did you mean dropout=?"],
    ),
    "an unknown option that is None": (
        lambda: regard.attention(GOOD, GOOD, GOOD, causl=None),
        ValueError,
        ["unknown option 'causl'; did you mean causal=?"],
    ),
    "a size of another library": (
        lambda: regard.attention(GOOD, GOOD, GOOD, num_heads=4),
        ValueError,
        ["num_heads", "sizes are those of the arrays"],
    ),
    "a result of another pass": (
        lambda: regard.attention(GOOD, GOOD, GOOD, grad_q=True),
        ValueError,
        ["grad_q is True, which requests a result that fwd does not have"],
    ),
    "an object for bits": (
        lambda: regard.attention(GOOD, GOOD, GOOD, bits=object()),
        TypeError,
        ["bits must be", "regard.pack_bits(mask)"],
    ),
    "a boolean mask of lists": (
        lambda: regard.attention(GOOD, GOOD, GOOD, mask=MASK.tolist()),
        ValueError,
        ["mask is of type list", "pack_bits(mask)"],
    ),
    "a number for lengths": (
        lambda: regard.attention(GOOD, GOOD, GOOD, lengths_k=5),
        TypeError,
        ["lengths_k is of type int; it must be an array or a list of whole numbers"],
    ),
    "a number for offsets": (
        lambda: regard.attention(*[PACKED] * 3, offsets_q=9, offsets_k=OFFSETS),
        TypeError,
        ["offsets_q is of type int; it must be an array or a list of whole numbers"],
    ),
    "an object for offsets": (
        lambda: regard.attention(*[PACKED] * 3, offsets_q=OFFSETS, offsets_k=object()),
        TypeError,
        ["offsets_k is of type object", "list"],
    ),
    "a list of nothing for lengths": (
        lambda: regard.attention(GOOD, GOOD, GOOD, lengths_k=[None]),
        ValueError,
        ["lengths_k is a list of values that are no numbers"],
    ),
    "a list of numbers past 64 bits": (
        lambda: regard.attention(GOOD, GOOD, GOOD, lengths_k=[2**70]),
        ValueError,
        ["lengths_k is a list of values that", "do not fit in 64 bits"],
    ),
    "a list of text for lengths": (
        lambda: regard.attention(GOOD, GOOD, GOOD, lengths_k=["8"]),
        ValueError,
        ["lengths_k is a list of text; it must hold 32-bit whole numbers"],
    ),
    "no number in a window": (
        lambda: regard.attention(GOOD, GOOD, GOOD, window=(None, 0)),
        TypeError,
        ["window's left side is of type NoneType; it must be a whole number"],
    ),
    "text for sink_tokens": (
        lambda: regard.attention(GOOD, GOOD, GOOD, sink_tokens="4"),
        TypeError,
        ["sink_tokens is '4'; it must be a whole number"],
    ),
    "another library's key": (
        lambda: regard.Problem.from_json('{"is_causal": true}'),
        ValueError,
        ["is_causal", '"mask": "causal"'],
    ),
    "unknown word": (lambda: regard.Problem("fwd fp32 b=1 h=1 s=8 d=8 mask=casual"), ValueError, ["casual", "causal"]),
    "unknown json": (lambda: regard.Problem.from_json('{"bb": 1}'), ValueError, ["bb"]),
    "no json": (lambda: regard.Problem.from_json("{"), ValueError, ["JSON"]),
    "unknown tensor": (
        lambda: regard.plan("fwd fp32 b=1 h=4 s=8 d=16").run(q=GOOD, kk=GOOD),
        ValueError,
        ["kk"],
    ),
    "long unknown tensor": (
        lambda: regard.plan("fwd fp32 b=1 h=4 s=8 d=16").run(**{"k" * 100_000: GOOD}),
        ValueError,
        ["kk [...] kk", "tensors are q"],
    ),
    "missing tensor": (lambda: regard.plan("fwd fp32 b=1 h=4 s=8 d=16").run(q=GOOD, k=GOOD), ValueError, ["'v'"]),
    "tensor too many": (
        lambda: regard.plan("fwd fp32 b=1 h=4 s=8 d=16").run(q=GOOD, k=GOOD, v=GOOD, o=GOOD.copy(), sink=f32(4)),
        ValueError,
        ["'sink'", "does not use it"],
    ),
    "small workspace": (
        lambda: regard.plan("fwd fp32 b=1 h=4 s=8 d=16").run(
            q=GOOD, k=GOOD, v=GOOD, o=GOOD.copy(), workspace=ZEROS(1, "uint8")
        ),
        ValueError,
        ["workspace"],
    ),
    "unknown target": (lambda: regard.attention(GOOD, GOOD, GOOD, target="cpu-avx3"), ValueError, ["cpu-avx3"]),
    "unknown family": (lambda: regard.attention(GOOD, GOOD, GOOD, family="genric"), ValueError, ["genric"]),
    "target without a kernel for it": (
        lambda: regard.plan("fwd bf16 s=8 d=576 dv=512", target="gfx942"),
        NotImplementedError,
        ["gfx942"],
    ),
    "gpu target": (
        lambda: regard.attention(GOOD, GOOD, GOOD, target="sm_90a"),
        ValueError,
        ["q is in host memory", "GPU"],
    ),
    "layout": (lambda: regard.attention(GOOD, GOOD, GOOD, layout="bsdh"), ValueError, ["layout", "bsdh"]),
    "mask twice": (lambda: regard.attention(GOOD, GOOD, GOOD, mask="causal", causal=True), ValueError, ["mask"]),
    "window": (lambda: regard.attention(GOOD, GOOD, GOOD, window=128), ValueError, ["window", "128", "pair"]),
    "causal": (lambda: regard.attention(GOOD, GOOD, GOOD, causal="bottom"), ValueError, ["causal", "bottom"]),
    "unknown verb": (lambda: regard.cache("cleen"), ValueError, ["cleen", "clean"]),
    "unknown profile": (lambda: regard.list(profile="flesh"), ValueError, ["flesh", "flash"]),
    "unknown format": (lambda: regard.explain("fwd fp32 b=1 h=1 s=8 d=8", format="yaml"), ValueError, ["yaml"]),
    "read-only output": (lambda: regard.attention(GOOD, GOOD, GOOD, out=read_only()), ValueError, ["o", "read-only"]),
    "byte order": (lambda: regard.attention(GOOD, GOOD.astype(">f4"), GOOD), ValueError, ["k", "byte order"]),
    # ---- not even the right kind of object
    "None for q": (lambda: regard.attention(None, GOOD, GOOD), TypeError, ["q", "NoneType"]),
    "None for q with a dtype": (lambda: regard.attention(None, GOOD, GOOD, dtype="fp32"), TypeError, ["q", "NoneType"]),
    "text for bias": (lambda: regard.attention(GOOD, GOOD, GOOD, bias="x"), TypeError, ["bias", "str"]),
    "number for alibi": (lambda: regard.attention(GOOD, GOOD, GOOD, alibi=0.5), TypeError, ["alibi", "float"]),
    "list for k": (lambda: regard.attention(GOOD, GOOD.tolist(), GOOD), TypeError, ["k", "list"]),
    "list for bias": (lambda: regard.attention(GOOD, GOOD, GOOD, bias=[[[[0.0]]]]), TypeError, ["bias", "list"]),
    "offsets without length": (
        lambda: regard.attention(*[PACKED] * 3, offsets_q=ZEROS((), "int32"), offsets_k=OFFSETS, sq=8, sk=8),
        ValueError,
        ["offsets_q", "[b+1]"],
    ),
    "no problem": (lambda: regard.explain(None), TypeError, ["a problem", "NoneType"]),
    "no plan's problem": (
        lambda: regard.Plan("fwd fp32 b=1 h=1 s=8 d=8"),
        TypeError,
        ["Problem", "regard.plan", "str"],
    ),
    "an array by place": (lambda: regard.plan("fwd fp32 d=8 s=8").run(GOOD), TypeError, ["by name", "plan.run(q=q"]),
    "no json text": (lambda: regard.Problem.from_json(3), TypeError, ["json", "int"]),
    "number for target": (lambda: regard.attention(GOOD, GOOD, GOOD, target=3), TypeError, ["target", "int", "text"]),
    "list for target": (lambda: regard.attention(GOOD, GOOD, GOOD, target=["x"]), TypeError, ["target", "list"]),
    "number for family": (lambda: regard.plan("fwd fp32 d=8 s=8", family=3), TypeError, ["family", "int"]),
    "text for threads": (lambda: regard.attention(GOOD, GOOD, GOOD, threads="2"), TypeError, ["threads", "str"]),
    "a float for threads": (
        lambda: regard.attention(GOOD, GOOD, GOOD, threads=2.0),
        TypeError,
        ["threads is of type float; it must be an int"],
    ),
    "too many threads": (lambda: regard.attention(GOOD, GOOD, GOOD, threads=2**40), ValueError, ["threads", "2^31"]),
    "number for layout": (lambda: regard.attention(GOOD, GOOD, GOOD, layout=3), ValueError, ["layout", "3"]),
    "number for dtype": (lambda: regard.attention(GOOD, GOOD, GOOD, dtype=3), ValueError, ["3"]),
    "number for verb": (lambda: regard.cache(3), TypeError, ["verb", "int"]),
    "number for profile": (lambda: regard.list(profile=3), TypeError, ["profile", "int"]),
    "None for format": (lambda: regard.explain("fwd fp32 d=8 s=8", format=None), TypeError, ["format", "NoneType"]),
    "text for offset": (
        lambda: regard.attention(GOOD, GOOD, GOOD, dropout=0.5, offset="1"),
        TypeError,
        ["offset", "str"],
    ),
    "negative offset": (
        lambda: regard.attention(GOOD, GOOD, GOOD, dropout=0.5, offset=-1),
        ValueError,
        ["offset is -1"],
    ),
    # ---- text
    "NUL in a problem": (lambda: regard.Problem("fwd fp32 s=8 d=16\0 mask=causal"), ValueError, ["problem", "NUL"]),
    "NUL in a word": (lambda: regard.Problem("fwd fp32 s=8 d=16", mask="causal\0"), ValueError, ["mask", "NUL"]),
    "NUL in a word's name": (lambda: regard.Problem("fwd", **{"d\0": 3}), ValueError, ["word", "NUL"]),
    "NUL in an option": (lambda: regard.attention(GOOD, GOOD, GOOD, mask="causal\0x"), ValueError, ["NUL"]),
    "NUL in JSON": (lambda: regard.Problem.from_json("{}\0"), ValueError, ["json", "NUL"]),
    "NUL in a target": (
        lambda: regard.attention(GOOD, GOOD, GOOD, target="cpu-generic\0"),
        ValueError,
        ["target", "NUL"],
    ),
    "NUL in a family": (lambda: regard.attention(GOOD, GOOD, GOOD, family="generic\0"), ValueError, ["family", "NUL"]),
    "NUL in a format": (lambda: regard.explain("fwd fp32 d=8 s=8", format="text\0"), ValueError, ["format", "NUL"]),
    "NUL in a verb": (lambda: regard.cache("stat\0"), ValueError, ["verb", "NUL"]),
    "NUL in a list": (lambda: regard.list("cpu-generic\0"), ValueError, ["target", "NUL"]),
    "NUL in a tensor": (
        lambda: regard.plan("fwd fp32 b=1 h=4 s=8 d=16").run(**{"q\0": GOOD}),
        ValueError,
        ["tensor's name", "NUL"],
    ),
    "a control of a terminal": (
        lambda: regard.Problem("fwd fp32 s=8 d=16 x\x1b[31m\u202e"),
        ValueError,
        [r"'x\x1b[31m\u202e'"],
    ),
    "a control in a tensor": (
        lambda: regard.plan("fwd fp32 b=1 h=4 s=8 d=16").run(**{"x\n\x1b[31m": GOOD}),
        ValueError,
        [r"'x\n\x1b[31m'"],
    ),
    "a control in a target": (
        lambda: regard.explain("fwd fp32 d=8 s=8", target="x\n\x1b[31m"),
        ValueError,
        [r"'x\n\x1b[31m'"],
    ),
    "half a character": (lambda: regard.Problem("fwd fp32 s=8 d=\ud800"), ValueError, ["surrogate"]),
    "megabytes": (
        lambda: regard.Problem("fwd fp32 s=8 d=16 " + "é" * (1 << 23)),
        ValueError,
        ["unknown word", "[...]"],
    ),
    # ---- outputs that share memory
    "output in k": (lambda: in_place(lambda k: {"out": k}), ValueError, ["'o'", "'k'", "memory"]),
    "output across k": (lambda: regard.attention(GOOD, ROOM[:, :8], GOOD, out=ROOM[:, 7:]), ValueError, ["'o'", "'k'"]),
    "outputs in each other": (
        lambda: regard.attention(GOOD, GOOD, GOOD, out=ROOM[:, :8], lse=ROOM.reshape(-1)[:32].reshape(1, 4, 8)),
        ValueError,
        ["'o'", "'lse'", "memory"],
    ),
}


ROOM = f32(1, 15, 4, 16)
MASK = ZEROS((1, 1, 8, 8), "bool")


# The values that words take, at the end of the message for a wrong one.
TAKEN = {
    "scale": "a number",
    "softcap": "a number",
    "dropout": "a number",
    "splits": "a whole number",
    "paged": "a whole number",
    "deterministic": "True or False",
    "rope": "text such as 'interleaved'",
    "descale": "text such as 'tensor'",
    "causal": "True (bottom-right), 'top_left' or False",
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_word_says_what_it_takes(name):
    for value in (GOOD, [1], object()):
        with pytest.raises(TypeError) as caught:
            regard.attention(GOOD, GOOD, GOOD, **{name: value})
        assert str(caught.value) == f"{name} is of type {type(value).__name__}; it must be {TAKEN[name]}"


BOOLEANS = {"lengths_k": (1,), "lse": (2,), "sink": (4,), "alibi": (4,), "ranges": (1, 8, 2)}


@pytest.mark.parametrize("name", BOOLEANS)
def test_only_masks_are_packed(name):
    with pytest.raises(regard.InvalidError, match=f"^{name} has dtype bool where the problem takes [a-z0-9]+$"):
        regard.attention(GOOD, GOOD, GOOD, **{name: ZEROS(BOOLEANS[name], "bool")})
    with pytest.raises(regard.InvalidError, match="^k has dtype bool where the problem takes fp32$"):
        regard.attention(GOOD, GOOD.astype("bool"), GOOD)


def in_place(outputs):
    k = GOOD.copy()
    return regard.attention(GOOD, k, GOOD, **outputs(k))


def read_only():
    o = GOOD.copy()
    o.flags.writeable = False
    return o


def test_numpy_numbers_are_seeds():
    def drawn(seed):
        return regard.attention(GOOD + 1, GOOD, GOOD + 1, dropout=0.5, seed=seed)

    for seed in (numpy.int64(7), numpy.uint64(7), numpy.int32(7)):
        assert (drawn(seed) == drawn(7)).all()
    assert (drawn(7) != drawn(8)).any()


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_one_sentence(name):
    call, kind, words = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    sentence = str(caught.value)
    for word in words:
        assert word in sentence, sentence
    assert "\n" not in sentence.strip()
    assert len(sentence) < 5000
    if kind is not TypeError:
        assert isinstance(caught.value, regard.RegardError)


WORDS = ["causal", "window", "sink_tokens", "mask", "scale", "softcap", "dropout", "splits", "layout", "dtype"]
WORDS += [
    "deterministic",
    "batch_invariant",
    "target",
    "family",
    "threads",
    "stream",
    "seed",
    "offset",
    "paged",
    "rope",
]
NUMBERS = {"sink_tokens", "scale", "softcap", "dropout", "splits", "threads", "stream", "offset", "paged", "dtype"}
STRANGE = {
    "array": numpy.arange(3),
    "array of arrays": numpy.zeros((2, 2)),
    "empty array": numpy.zeros(0),
    "list": [1, 2, 3],
    "dict": {"a": 1},
    "bytes": b"1",
    "object": object(),
    "class": numpy.float32,
    "nan": float("nan"),
    "infinity": float("inf"),
    "huge": 10**40,
    "huge negative": -(10**40),
    "complex": 1j,
    "text": "nonsense",
    "text of lines": "a\nb",
    "numpy text": numpy.array(["a"]),
}


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("kind", STRANGE)
def test_options_of_any_kind_are_one_sentence(name, kind):
    with pytest.raises((regard.InvalidError, regard.RefusedError, TypeError)) as caught:
        regard.attention(GOOD, GOOD, GOOD, **{name: STRANGE[kind]})
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 1000, sentence
    assert "truth value" not in sentence and "incompatible function arguments" not in sentence
    said = {"sink_tokens": "sink"}.get(name, name)
    assert said in sentence or name in ("mask", "dtype", "layout", "stream", "seed"), sentence


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_true_is_no_number(name):
    with pytest.raises((regard.InvalidError, TypeError)) as caught:
        regard.attention(GOOD, GOOD, GOOD, **{name: True})
    assert name in str(caught.value) and "\n" not in str(caught.value)


def test_numpy_numbers_are_numbers():
    q = numpy.random.default_rng(0).standard_normal((1, 8, 4, 16)).astype("float32")
    for mine, theirs in (
        ({"window": (3, 0), "sink_tokens": 2}, {"window": numpy.array([3, 0]), "sink_tokens": numpy.int64(2)}),
        ({"scale": 0.5}, {"scale": numpy.float32(0.5)}),
        ({"scale": 0.5}, {"scale": numpy.array(0.5)}),
        ({"softcap": 4}, {"softcap": numpy.uint8(4)}),
        ({"causal": True}, {"causal": numpy.bool_(True)}),
        ({"threads": 1}, {"threads": numpy.int32(1)}),
    ):
        assert (regard.attention(q, q, q, **mine) == regard.attention(q, q, q, **theirs)).all()
    assert len(regard.attention(q, q, q, lse=numpy.bool_(True))) == 2


class Refusing:
    """An array whose producer does not export it."""

    shape, dtype = GOOD.shape, GOOD.dtype

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        raise BufferError("it is lent to somebody else.\nAsk later.")


def test_what_the_producer_of_an_array_says_is_the_cause():
    with pytest.raises(
        ValueError, match=r"k is an array of type Refusing .*\(BufferError: it is lent to somebody else\)"
    ) as caught:
        regard.attention(GOOD, Refusing(), GOOD)
    assert isinstance(caught.value.__cause__, BufferError)


def test_outputs_between_each_other_s_rows_are_no_overlap():
    packed = numpy.random.default_rng(0).standard_normal((2, 8, 3, 4, 16)).astype("float32")
    q, k, v = (packed[:, :, i] for i in range(3))
    o, lse = regard.attention(q, k, v, lse=True)
    gradients = numpy.empty_like(packed)
    views = {f"grad_{name}": gradients[:, :, i] for i, name in enumerate("qkv")}
    regard.attention_backward(o, q, k, v, o, lse, **views)
    for given, made in zip(views.values(), regard.attention_backward(o, q, k, v, o, lse)):
        assert (given == made).all()


def test_every_status_has_a_class_of_the_builtin_kind():
    kinds = {
        "InvalidError": ValueError,
        "RefusedError": NotImplementedError,
        "NoKernelError": RuntimeError,
        "NoMemoryError": MemoryError,
        "InternalError": RuntimeError,
    }
    for name, kind in kinds.items():
        assert issubclass(getattr(regard, name), (kind, regard.RegardError))


def test_a_refusal_is_explained():
    explanation = regard.explain("fwd bf16 b=1 h=1 s=64 d=64", "sm_90a", format="json")
    assert json.dumps(explanation)


class Arrogant:
    """A class whose name turns a terminal red and reverses its text."""


Arrogant.__name__ = "x\x1b[31m\u202e\ny"
SHAPED = type("x\x1b[31m\u202e\ny", (), {"shape": (1, 8, 4, 16), "dtype": "float\x1b[31m"})


@pytest.mark.parametrize(
    "call",
    [
        lambda: regard.attention(Arrogant(), GOOD, GOOD),
        lambda: regard.attention(GOOD, Arrogant(), GOOD),
        lambda: regard.attention(GOOD, GOOD, GOOD, bias=Arrogant()),
        lambda: regard.attention(GOOD, GOOD, GOOD, scale=Arrogant()),
        lambda: regard.attention(GOOD, GOOD, GOOD, window=(Arrogant(), 0)),
        lambda: regard.attention(GOOD, GOOD, GOOD, dtype=Arrogant()),
        lambda: regard.attention(GOOD, GOOD, GOOD, threads=Arrogant()),
        lambda: regard.attention(GOOD, GOOD, GOOD, **{"x\x1b[31m": Arrogant()}),
        lambda: regard.attention(GOOD, GOOD, GOOD, lengths_k=Arrogant()),
        lambda: regard.attention(SHAPED(), GOOD, GOOD),
        lambda: regard.pack_bits(SHAPED()),
    ],
)
def test_names_of_classes_do_nothing_to_a_terminal(call):
    with pytest.raises((regard.InvalidError, TypeError)) as caught:
        call()
    assert str(caught.value).isprintable(), str(caught.value)


PROBLEM = regard.Problem("fwd fp32 s=8 d=16")
PLAN = regard.plan(PROBLEM)


@pytest.mark.parametrize(
    "ours", [PROBLEM, PLAN, PROBLEM.tensors, PROBLEM.tensors["q"]], ids=["problem", "plan", "tensors", "spec"]
)
def test_equality_with_an_array_is_one_answer(ours):
    for theirs in (numpy.zeros(3), numpy.float32(1), numpy.array([ours, None], object)):
        assert (ours == theirs) is False and (ours != theirs) is True
        assert (theirs == ours) is False and (theirs != ours) is True
    assert (ours == ours) is True and (ours != ours) is False  # noqa: PLR0124
    assert PROBLEM.tensors == dict(PROBLEM.tensors) and PROBLEM.tensors != {}
    assert {PLAN: 1}[PLAN] == 1 and regard.plan(PROBLEM) != PLAN


def test_rerun_of_no_saved_call(tmp_path):
    with pytest.raises(regard.InvalidError, match=r"call.json.*REGARD_SAVE_CALLS writes such folders"):
        regard.rerun(tmp_path)
    with pytest.raises(TypeError):
        regard.rerun(3)
