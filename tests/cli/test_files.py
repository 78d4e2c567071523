"""The user's own files in, results out."""

import json
import struct

import numpy
import pytest

SHAPE = (1, 16, 2, 64)
PROBLEM = "fwd fp32 h=2 s=16 d=64 lse --repeat=0"


def arrays(*names, seed=0):
    random = numpy.random.default_rng(seed)
    return {name: random.standard_normal(SHAPE, dtype="float32") for name in names}


def save_npy(folder, **values):
    for name, value in values.items():
        numpy.save(folder / f"{name}.npy", value)
    return [f"--{name}={name}.npy" for name in values]


def save_safetensors(path, **values):
    """values: name -> (safetensors dtype, shape, bytes)"""
    header, data = {}, b""
    for name, (dtype, shape, content) in values.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load_safetensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    return {name: (row["dtype"], row["shape"], data[slice(*row["data_offsets"])]) for name, row in header.items()}


def attention(q, k, v):
    scores = numpy.einsum("bihd,bjhd->bhij", q, k, dtype="float64") / 8
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return numpy.einsum("bhij,bjhd->bihd", weights / weights.sum(-1, keepdims=True), v)


def to_bf16(value):
    bits = value.view("uint32")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")


def test_npy_in_and_a_folder_of_npy_out(regard, tmp_path):
    values = arrays("q", "k", "v")
    shown = regard("run", PROBLEM, *save_npy(tmp_path, **values), "--out=results")
    assert shown.code == 0, shown.err
    o = numpy.load(tmp_path / "results/o.npy")
    assert o.dtype == "float32" and o.shape == SHAPE
    numpy.testing.assert_allclose(o, attention(**values), atol=1e-5)
    assert numpy.load(tmp_path / "results/lse.npy").shape == (1, 2, 16)


@pytest.mark.parametrize("layout", ["bshd", "bhsd", "sbhd"])
def test_files_are_logical_whatever_the_layout(regard, tmp_path, layout):
    values = arrays("q", "k", "v")
    shown = regard(
        "run fwd fp32 h=2 s=16 d=64 --repeat=0 --out=o.npy", f"layout={layout}", *save_npy(tmp_path, **values)
    )
    assert shown.code == 0, shown.err
    numpy.testing.assert_allclose(numpy.load(tmp_path / "o.npy"), attention(**values), atol=1e-5)


def test_safetensors_in_and_out_in_bf16(regard, tmp_path):
    values = arrays("q", "k", "v")
    save_safetensors(
        tmp_path / "in.safetensors",
        **{name: ("BF16", SHAPE, to_bf16(value).tobytes()) for name, value in values.items()},
    )
    shown = regard("run fwd bf16 h=2 s=16 d=64 --repeat=0 --in=in.safetensors --out=out.safetensors")
    assert shown.code == 0, shown.err
    dtype, shape, content = load_safetensors(tmp_path / "out.safetensors")["o"]
    assert dtype == "BF16" and shape == list(SHAPE)
    o = (numpy.frombuffer(content, "uint16").astype("uint32") << 16).view("float32").reshape(SHAPE)
    numpy.testing.assert_allclose(o, attention(**values), atol=0.05)


def test_bf16_in_npy_is_uint16_bits(regard, tmp_path):
    bits = {name: to_bf16(value) for name, value in arrays("q", "k", "v").items()}
    shown = regard("run fwd bf16 h=2 s=16 d=64 --repeat=0 --out=o.npy", *save_npy(tmp_path, **bits))
    assert shown.code == 0, shown.err
    assert numpy.load(tmp_path / "o.npy").dtype == "uint16"


def test_convert_rounds_in_and_widens_out(regard, tmp_path):
    values = arrays("q", "k", "v")
    shown = regard("run fwd bf16 h=2 s=16 d=64 --repeat=0 --convert --out=o.npy", *save_npy(tmp_path, **values))
    assert shown.code == 0, shown.err
    o = numpy.load(tmp_path / "o.npy")
    assert o.dtype == "float32"
    numpy.testing.assert_allclose(o, attention(**values), atol=0.05)


def test_results_of_forward_feed_backward(regard, tmp_path):
    given = save_npy(tmp_path, **arrays("q", "k", "v"))
    assert regard("run", PROBLEM, *given, "--out=forward").code == 0
    given += save_npy(tmp_path, **arrays("grad_o", seed=1))
    shown = regard("run bwd fp32 h=2 s=16 d=64 --repeat=0 --o=forward/o.npy --lse=forward/lse.npy --out=grads", *given)
    assert shown.code == 0, shown.err
    assert sorted(path.name for path in (tmp_path / "grads").iterdir()) == ["grad_k.npy", "grad_q.npy", "grad_v.npy"]


def test_lengths_and_offsets_from_files(regard_json, tmp_path):
    numpy.save(tmp_path / "offsets.npy", numpy.array([0, 5, 5, 22], dtype="int32"))
    report = regard_json("run fwd fp32 varlen b=3 s=17 d=64 --offsets-q=offsets.npy --offsets-k=offsets.npy --repeat=0")
    assert report["lengths_q"] == [5, 0, 17] and report["check"]["ok"]
    numpy.save(tmp_path / "lengths.npy", numpy.array([5, 0, 17]))
    report = regard_json("run fwd fp32 varlen b=3 s=17 d=64 --lengths-q=lengths.npy --lengths-k=5,0,17 --repeat=0")
    assert report["lengths_q"] == [5, 0, 17]


@pytest.mark.parametrize("family", ["generic", "forward"])
def test_a_bias_and_bits_may_be_of_keys_alone(regard, tmp_path, family):
    random = numpy.random.default_rng(0)
    numpy.save(tmp_path / "bias.npy", random.standard_normal((2, 1, 1, 40), dtype="float32"))
    numpy.save(tmp_path / "bits.npy", random.integers(0, 2**32, (2, 1, 1, 2), dtype="uint32"))
    words = "run fwd fp32 b=2 h=2 s=40 d=64 bias=b1 bits --bias=bias.npy --bits=bits.npy --repeat=0"
    shown = regard(words, f"--family={family}")
    assert shown.code == 0, shown.err
    numpy.save(tmp_path / "bias.npy", random.standard_normal((2, 1, 40, 1), dtype="float32"))
    shown = regard(words, f"--family={family}")
    assert shown.code != 0 and "bias" in shown.err and "[2,1,40,40]" in shown.err, shown.err


def test_a_batch_of_nothing(regard, tmp_path):
    empty = numpy.zeros((0, 16, 2, 64), "float32")
    shown = regard(
        "run fwd fp32 b=0 h=2 s=16 d=64 lse --repeat=0 --out=results", *save_npy(tmp_path, q=empty, k=empty, v=empty)
    )
    assert shown.code == 0, shown.err
    assert numpy.load(tmp_path / "results/o.npy").shape == empty.shape


def test_bits_may_be_broadcast(regard, tmp_path):
    numpy.save(tmp_path / "bits.npy", numpy.full((1, 1, 16, 1), 0xFF, dtype="uint32"))
    shown = regard("run fwd fp32 b=2 h=2 s=16 d=64 bits --bits=bits.npy --repeat=0 --family=generic")
    assert shown.code == 0, shown.err


# ---- what is wrong with a file is one sentence ----


def test_missing_file(refused):
    assert "cannot read nowhere.npy: No such file" in refused("run", PROBLEM, "--q=nowhere.npy")


def test_folder_instead_of_a_file(refused, tmp_path):
    (tmp_path / "folder.npy").mkdir()
    assert "folder.npy: it is not a file" in refused("run", PROBLEM, "--q=folder.npy")


def test_unknown_format(refused, tmp_path):
    (tmp_path / "q.pt").write_bytes(b"")
    assert "must end in .npy or .safetensors" in refused("run", PROBLEM, "--q=q.pt")


def test_other_dtype(refused, tmp_path):
    numpy.save(tmp_path / "q.npy", numpy.zeros(SHAPE))
    sentence = refused("run", PROBLEM, "--q=q.npy")
    assert "q.npy: it holds float64 [1,16,2,64], but q of this problem is float32 [1,16,2,64]; --convert" in sentence


def test_other_shape(refused, tmp_path):
    numpy.save(tmp_path / "q.npy", numpy.zeros((1, 16, 3, 64), dtype="float32"))
    assert "it holds float32 [1,16,3,64], but q of this problem is float32 [1,16,2,64]" in refused(
        "run", PROBLEM, "--q=q.npy"
    )


def test_truncated_npy(refused, tmp_path):
    numpy.save(tmp_path / "q.npy", numpy.zeros(SHAPE, dtype="float32"))
    (tmp_path / "q.npy").write_bytes((tmp_path / "q.npy").read_bytes()[:-1])
    assert "q.npy: it is truncated" in refused("run", PROBLEM, "--q=q.npy")


def test_truncated_safetensors(refused, tmp_path):
    save_safetensors(tmp_path / "in.safetensors", q=("F32", SHAPE, bytes(4 * 2048)))
    (tmp_path / "in.safetensors").write_bytes((tmp_path / "in.safetensors").read_bytes()[:-1])
    assert "in.safetensors: it is truncated" in refused("run", PROBLEM, "--in=in.safetensors")


def test_fortran_order(refused, tmp_path):
    numpy.save(tmp_path / "q.npy", numpy.asfortranarray(numpy.ones(SHAPE, dtype="float32")))
    assert "Fortran order" in refused("run", PROBLEM, "--q=q.npy")


def test_unknown_tensor_name_says_the_nearest(refused, tmp_path):
    save_safetensors(tmp_path / "in.safetensors", grad_a=("F32", [0], b""))
    assert "there is no tensor 'grad_a'; did you mean 'grad_o'?" in refused("run", PROBLEM, "--in=in.safetensors")


def test_file_for_a_tensor_that_the_problem_does_not_read(refused, tmp_path):
    numpy.save(tmp_path / "x.npy", numpy.zeros(2, dtype="float32"))
    assert "this problem has no sink" in refused("run", PROBLEM, "--sink=x.npy")
    assert "this problem writes o" in refused("run", PROBLEM, "--o=x.npy")


def test_o_without_lse(refused, tmp_path):
    numpy.save(tmp_path / "o.npy", numpy.zeros(SHAPE, dtype="float32"))
    assert "give both files or none, not o alone" in refused("run bwd fp32 h=2 s=16 d=64 --o=o.npy")


def test_offsets_that_decrease_or_do_not_start_at_zero(refused, tmp_path):
    for offsets, word in [([0, 5, 3], "never decrease"), ([1, 5, 9], "start at 0")]:
        numpy.save(tmp_path / "x.npy", numpy.array(offsets, dtype="int32"))
        assert word in refused("run fwd fp32 varlen b=2 s=9 d=64 tq=9 tk=9 --offsets-q=x.npy --offsets-k=x.npy")


def test_folder_that_cannot_be_written(refused):
    assert "cannot write" in refused("run", PROBLEM, "--out=/proc/nowhere/results")


def test_several_results_do_not_fit_one_npy(refused):
    assert "can hold one array and there are 2 results" in refused("run", PROBLEM, "--out=o.npy")
