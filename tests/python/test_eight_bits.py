"""Each 8-bit type, of every library that has it, is read as that type and as no other."""

import numpy
import pytest

import regard

types = pytest.importorskip("ml_dtypes")
WORDS = {
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8_e5m2",
    "float8_e4m3fnuz": "fp8_fnuz",
    "float8_e5m2fnuz": "fp8_e5m2_fnuz",
}
TARGETS = [row["name"] for row in regard.info()["targets"] if row["kind"] == "cpu" and row["runs_here"]]
TARGETS = [name for name in TARGETS if name != "cpu-amx-emulated"]  # which has no 8-bit types


def of_numpy(bits, name):
    return bits.view(getattr(types, name))


def of_torch(bits, name):
    torch = pytest.importorskip("torch")
    return torch.from_numpy(bits).view(getattr(torch, name))


def of_jax(bits, name):
    jax = pytest.importorskip("jax")
    return jax.numpy.asarray(bits).view(name)


def codes(shape):
    return numpy.random.default_rng(0).integers(0, 0x70, shape, "uint8")  # finite in every type


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", WORDS)
def test_every_code_is_its_number(name, target):
    # With one key O is V.
    v = numpy.arange(256, dtype="uint8").reshape(1, 1, 1, 256)
    q = numpy.zeros((1, 1, 1, 8), "uint8")
    o = regard.attention(q, q, v, dtype=WORDS[name], out="fp32", family="generic", target=target)
    numpy.testing.assert_allclose(o, v.view(getattr(types, name)).astype("float32"), rtol=1e-6)


@pytest.mark.parametrize("name", WORDS)
def test_results_are_rounded_as_by_ml_dtypes(name):
    q, k = codes((1, 5, 1, 16)), codes((1, 3, 1, 16))
    v = of_numpy(codes((1, 3, 1, 16)), name)
    wide = regard.attention(of_numpy(q, name), of_numpy(k, name), v, out="fp32")
    o = regard.attention(of_numpy(q, name), of_numpy(k, name), v, out=WORDS[name])
    numpy.testing.assert_array_equal(o.view("uint8"), wide.astype(v.dtype).view("uint8"))


@pytest.mark.parametrize("library", [of_numpy, of_torch, of_jax])
@pytest.mark.parametrize("name", WORDS)
def test_arrays_of_every_library(name, library):
    q, k, v = codes((1, 9, 4, 16)), codes((1, 7, 2, 16)), codes((1, 7, 2, 16))
    expected = regard.attention(q, k, v, dtype=WORDS[name], out="fp32", scale=1e-4)
    o = regard.attention(*(library(x, name) for x in (q, k, v)), out="fp32", scale=1e-4)
    numpy.testing.assert_array_equal(numpy.asarray(o), expected)


@pytest.mark.parametrize("library", [of_numpy, of_torch, of_jax])
@pytest.mark.parametrize(
    ("first", "second"), [("float8_e4m3fn", "float8_e4m3fnuz"), ("float8_e5m2fnuz", "float8_e5m2")]
)
def test_types_that_differ_are_refused(first, second, library):
    bits = codes((1, 9, 2, 16))
    for q, k in [(first, second), (second, first)]:
        sentence = f"'k' is {WORDS[k]}; the problem needs {WORDS[q]}$"
        with pytest.raises(ValueError, match=sentence):
            regard.attention(library(bits, q), library(bits, k), library(bits, q))
        with pytest.raises(ValueError, match=f"'q' is {WORDS[k]}; the problem needs {WORDS[q]}$"):
            regard.attention(*[library(bits, k)] * 3, dtype=WORDS[q])


def test_another_eight_bit_type_of_ml_dtypes_is_refused():
    other = codes((1, 9, 2, 16)).view(types.float8_e4m3b11fnuz)
    with pytest.raises(ValueError, match="q has dtype float8_e4m3b11fnuz; attention takes float32, .* float8_e5m2fnuz"):
        regard.attention(other, other, other)
    with pytest.raises(ValueError, match="q is an array of type ndarray whose memory cannot be taken through DLPack"):
        regard.attention(other, other, other, dtype="fp8_fnuz")


@pytest.mark.parametrize("word", ["fp8_fnuz", "fp8_e5m2_fnuz"])
def test_cuda_targets_refuse_fnuz_types(word):
    problem = regard.Problem(f"fwd {word} b=1 h=2 s=64 d=64")
    assert regard.plan(problem, "gfx942").target == "gfx942"
    with pytest.raises(regard.RefusedError, match=f"sm_90a does not compute in {word}; .* cpu and hip targets"):
        regard.plan(problem, "sm_90a")
