"""Inputs from the user's files, and results written to files."""

import json
import os
import re
import resource
import struct
import subprocess

import numpy
import pytest

from conftest import COMMAND, environment

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
    """values: name -> (safetensors dtype, shape, bytes)."""
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


def test_eight_bit_types_are_not_taken_for_each_other(regard, tmp_path):
    bits = numpy.random.default_rng(0).integers(0, 0x60, SHAPE, "uint8").tobytes()
    call = "run fwd fp8_fnuz out=fp8_fnuz h=2 s=16 d=64 --repeat=0 --in=in.safetensors --out=out.safetensors"
    save_safetensors(tmp_path / "in.safetensors", **{name: ("F8_E4M3FNUZ", SHAPE, bits) for name in "qkv"})
    shown = regard(call)
    assert shown.code == 0, shown.err
    assert load_safetensors(tmp_path / "out.safetensors")["o"][0] == "F8_E4M3FNUZ"
    save_safetensors(tmp_path / "in.safetensors", **{name: ("F8_E4M3", SHAPE, bits) for name in "qkv"})
    refused = regard(call)
    assert (
        refused.code == 2
        and "it holds float8_e4m3 [1,16,2,64], but q of this problem is float8_e4m3fnuz" in refused.err
    )


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


def test_a_bias_of_fp32_beside_16_bits_is_read_and_its_gradient_written_as_it_is(regard, tmp_path):
    q, k, v = (numpy.zeros((1, sk, 1, 8), "float16") for sk in (1, 2, 2))
    v[0, 1] = 1
    numpy.save(tmp_path / "bias.npy", numpy.array([[[[-1e5, 1 - 1e5]]]], "float32"))
    words = ["run fwd fp16 sq=1 sk=2 d=8 bias=11 --bias=bias.npy --repeat=0", *save_npy(tmp_path, q=q, k=k, v=v)]
    shown = regard(*words, "bias_type=fp32 --out=o.npy")
    assert shown.code == 0, shown.err
    assert numpy.allclose(numpy.load(tmp_path / "o.npy"), 0.7310586, atol=2**-10)

    shown = regard(*words)
    assert shown.code != 0 and "bias_type=fp32 takes it as it is" in shown.err

    shown = regard("run bwd bf16 b=2 h=2 sq=30 sk=40 d=16 bias=1h bias_type=fp32 dbias --repeat=0 --out=gradients")
    assert shown.code == 0, shown.err
    grad = numpy.load(tmp_path / "gradients" / "grad_bias.npy")
    assert grad.dtype == "float32" and (grad.view("uint32") & 0xFFFF).any()


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


# ---- an error in a file is one sentence ----


def test_missing_file(refused):
    assert "cannot read nowhere.npy: it cannot be opened: No such file" in refused("run", PROBLEM, "--q=nowhere.npy")


@pytest.mark.scarce
def test_a_file_that_memory_has_no_room_for(tmp_path):
    with open(tmp_path / "q.npy", "wb") as file:
        file.truncate(1 << 40)
    done = subprocess.run(
        [COMMAND, "run", "fwd fp32 s=8 d=64", "--q=q.npy"],
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36)),
        capture_output=True,
        text=True,
        env=environment(REGARD_CACHE="off"),
    )
    assert done.returncode == 4 and done.stderr == "regard: cannot read q.npy: Cannot allocate memory\n"


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
    assert sentence.endswith("; --convert rounds it\n")
    numpy.save(tmp_path / "bits.npy", numpy.zeros((1, 1, 16, 1), dtype="int64"))
    assert refused("run", PROBLEM, "bits --bits=bits.npy").endswith("; --convert takes it if all values fit\n")
    numpy.save(tmp_path / "q.npy", numpy.zeros(SHAPE, dtype="int64"))
    assert "--convert" not in refused("run", PROBLEM, "--q=q.npy")


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
    sentence = refused("run", PROBLEM, "--in=in.safetensors")
    assert (
        "it has no tensor that this problem reads, such as q, k and v, only 'grad_a' (did you mean 'grad_o'?)"
        in sentence
    )


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


# ---- a model's file also has other tensors ----


def test_tensors_that_the_problem_does_not_read_are_left_out_and_named(regard, regard_json, tmp_path):
    values = {name: ("F32", SHAPE, value.tobytes()) for name, value in arrays("q", "k", "v").items()}
    save_safetensors(
        tmp_path / "in.safetensors",
        **values,
        **{f"model.layers.{i}.weight": ("F32", [1], bytes(4)) for i in range(20)},
        quantized=("I16", [2], bytes(4)),  # a dtype that Regard does not read
        lse=("F32", [1], bytes(4)),
        sinc=("F32", [1], bytes(4)),
    )
    shown = regard("run", PROBLEM, "--in=in.safetensors --out=o")
    assert shown.code == 0, shown.err
    numpy.testing.assert_allclose(numpy.load(tmp_path / "o/o.npy"), attention(**arrays("q", "k", "v")), atol=1e-5)
    assert shown.err.count("\n") == 1
    assert (
        "in.safetensors: left out, as the problem does not read them: 'sinc' (did you mean 'sink'?), 'lse', "
        in shown.err
    )
    assert "'model.layers.0.weight'" in shown.err and " and 15 more" in shown.err
    left_out = regard_json("run", PROBLEM, "--in=in.safetensors")["left_out"]
    assert len(left_out) == 23 and {"lse", "sinc", "quantized", "model.layers.19.weight"} <= set(left_out)


def test_a_name_that_is_nearly_a_tensor_s_is_pointed_out(regard, tmp_path):
    one = ("F32", SHAPE, arrays("q")["q"].tobytes())
    save_safetensors(tmp_path / "in.safetensors", q=one, k=one, sinc=("F32", [1], bytes(4)))
    assert "'sinc' (did you mean 'sink'?)" in regard("run", PROBLEM, "--in=in.safetensors").err


def test_one_tensor_under_two_names(refused, tmp_path):
    one = ("F32", [1], bytes(4))
    save_safetensors(tmp_path / "in.safetensors", **{"descale-q": one, "descale_q": one})
    assert "descale_q is there twice" in refused("run", PROBLEM, "--in=in.safetensors")


def test_a_tensor_of_a_type_that_is_not_read(refused, tmp_path):
    save_safetensors(tmp_path / "in.safetensors", q=("I16", [2], bytes(4)))
    printed = "in.safetensors: 'q': it has dtype 'I16', which Regard does not read"
    assert printed in refused("run", PROBLEM, "--in=in.safetensors")
    assert printed in refused("run", PROBLEM, "--q=in.safetensors")


def test_of_a_file_larger_than_the_memory_what_is_needed_is_read(regard, tmp_path):
    """The file has a terabyte, but is sparse."""
    values, hole = arrays("q", "k", "v"), 1 << 40
    header, data = {"model.weights": {"dtype": "U8", "shape": [hole], "data_offsets": [0, hole]}}, b""
    for name, value in values.items():
        start = hole + len(data)
        data += value.tobytes()
        header[name] = {"dtype": "F32", "shape": SHAPE, "data_offsets": [start, hole + len(data)]}
    text = json.dumps(header).encode()
    with open(tmp_path / "in.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        try:
            file.seek(hole, 1)
            file.write(data)
        except OSError:
            pytest.skip("this file system has no files of a terabyte")
    shown = regard("run", PROBLEM, "--in=in.safetensors --out=o")
    assert shown.code == 0, shown.err
    numpy.testing.assert_allclose(numpy.load(tmp_path / "o/o.npy"), attention(**values), atol=1e-5)
    shown = regard("run fwd fp32 h=2 s=16 d=64 --repeat=0 --convert --in=in.safetensors --out=o.npy")
    assert shown.code == 0, shown.err


def test_an_array_of_another_shape_is_refused_unread(refused, tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }\n" % (1 << 38)
    with open(tmp_path / "q.npy", "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
        try:
            file.truncate(file.tell() + (1 << 40))
        except OSError:
            pytest.skip("this file system has no files of a terabyte")
    assert f"it holds float32 [{1 << 38}], but q of this problem is" in refused("run", PROBLEM, "--q=q.npy")


# ---- a file appears complete or not at all ----


def limited(command, folder, size, **streams):
    """Runs the command with a file size limit."""
    return subprocess.run(
        [COMMAND, *command.split()],
        cwd=folder,
        env=environment(REGARD_CACHE="off"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        timeout=60,
        **streams,
    )


@pytest.mark.parametrize("out", ["o.npy", "o.safetensors", "made/of/folders"])
def test_of_a_file_that_is_too_large_nothing_is_left(tmp_path, out):
    run = "run fwd fp32 h=2 s=16 d=64 --repeat=0 --out=" + out
    for left in [[], ["o.npy"]]:  # an existing file is kept
        for name in left:
            (tmp_path / name).write_bytes(b"before")
        done = limited(run, tmp_path, 1024, capture_output=True, text=True)
        assert done.returncode == 2 and done.stdout == ""
        assert re.fullmatch(rf"regard: cannot write {out}(/o.npy)?: File too large\n", done.stderr)
        assert [path.name for path in tmp_path.iterdir()] == left
        assert all((tmp_path / name).read_bytes() == b"before" for name in left)


@pytest.mark.parametrize("command", ["completion bash", "help problem", "info --json", "--help"])
def test_standard_output_that_is_too_large(tmp_path, command):
    with open(tmp_path / "out", "w") as out:
        done = limited(command, tmp_path, 16, stdout=out, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 4 and done.stderr == "regard: cannot write to standard output: File too large\n"


def test_a_result_takes_the_place_of_what_was_there(regard, tmp_path):
    target, link = tmp_path / "elsewhere" / "o.npy", tmp_path / "link.npy"
    target.parent.mkdir()
    link.symlink_to("elsewhere/o.npy")
    for name in ["elsewhere/o.npy", "link.npy"]:
        target.write_bytes(b"before")
        target.chmod(0o600)
        assert regard(f"run fwd fp32 h=2 s=16 d=64 --repeat=0 --out={name}").code == 0
        assert numpy.load(target).shape == SHAPE
        assert target.stat().st_mode & 0o777 == 0o600
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "link.npy", "o.npy"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user, who may not write")
def test_a_missing_permission_is_called_that(tmp_path):
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [COMMAND, "run", "fwd fp32 s=8 d=64", "--repeat=0", "--no-check", f"--out={tmp_path}/o.npy"],
        cwd="/",
        preexec_fn=lambda: os.setuid(12345),
        capture_output=True,
        text=True,
        env=environment(REGARD_CACHE="off"),
    )
    assert done.returncode == 2 and done.stderr == f"regard: cannot write {tmp_path}/o.npy: Permission denied\n"
