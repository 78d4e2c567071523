"""Saved calls: REGARD_SAVE_CALLS writes them, `regard rerun` computes them again."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from training import NAN_IN_STEP_4

from conftest import environment

# Odd shapes, and kernels that need no compiler; between them every kind of tensor: packed, with lengths, changed in
# place, drawn, bias, cache.
PROBLEMS = {
    "forward": "fwd bf16 b=2 hq=4 hk=2 sq=33 sk=65 d=64 mask=causal lse",
    "varlen": "fwd fp32 varlen b=3 hq=2 hk=1 sq=17 sk=29 d=64 lse",
    "lengths": "fwd bf16 lengths b=3 hq=2 hk=2 sq=39 sk=71 d=64 mask=causal",
    "backward": "bwd fp32 b=2 hq=4 hk=2 s=37 d=64 mask=causal",
    "drawn": "fwd fp32 b=2 hq=4 hk=2 s=37 d=40 bias=1h dropout=0.2 --family=generic",
    "append": "append bf16 b=2 hq=2 hk=2 sk=40 snew=3 d=64 lengths",
    "cache": "fwd bf16 b=3 hq=4 hk=2 sq=2 sk=50 d=64 paged=16 lengths snew=2 --family=generic",
    "interpreted": "fwd fp32 b=2 h=2 s=37 d=40 score=s+m[h,q,kv] tensors=m:fp32[3] --functions=interpreted",
    "ranges": "fwd fp32 b=2 h=2 s=37 d=40 keep=kv<past[b]||kv<=p tensors=past:int32[1] --family=generic",
    "read as a word": "fwd fp32 b=2 h=2 s=37 d=40 score=s+m[h,q,kv] tensors=m:fp32[3] --family=generic",
    "merge": "merge fp32 b=2 hq=3 sq=5 dv=24 parts=4 lse",
    "in place": "merge fp32 b=2 hq=3 sq=5 dv=24 parts=4 lse accumulate",
}


@pytest.fixture
def saved(regard, tmp_path):
    """saved(problem, "when=...") is the folder of the call that `regard run` made, and its description."""

    def save(problem, when="when=first:9", code=0, **settings):
        done = regard(
            "run", problem, "--repeat=0 --no-check", REGARD_SAVE_CALLS=f"{tmp_path / 'calls'},{when}", **settings
        )
        assert done.code == code, done.err
        folders = re.findall(r"saved a call \(.*\) in (.*)", done.err)
        assert folders, done.err
        folder = Path(folders[-1])
        return folder, json.loads((folder / "call.json").read_text())

    return save


@pytest.fixture
def rerun(regard):
    def run(folder, *words, code=0, **settings):
        done = regard("rerun", folder, *words, "--json", **settings)
        assert done.code == code, done.out + done.err
        return json.loads(done.out)

    return run


def tensors(path):
    """The header of a safetensors file, and where its data begins."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        return json.loads(file.read(length)), 8 + length


def change(path, name, byte, value):
    header, begin = tensors(path)
    with open(path, "r+b") as file:
        file.seek(begin + header[name]["data_offsets"][0] + byte)
        file.write(value)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_rerun_has_the_same_bits(saved, rerun, name):
    folder, call = saved(PROBLEMS[name])
    assert sorted(os.listdir(folder)) == ["call.json", "inputs.safetensors", "outputs.safetensors"]
    report = rerun(folder)
    assert report["verdict"] == "same_bits" and "bits_may_differ" not in report
    assert report["target"] == call["target"] and report["problem"] == call["problem"]
    assert all(row["different"] == 0 for row in report["outputs"].values()) and report["outputs"]


@pytest.mark.parametrize("name", ["forward", "varlen", "backward", "cache"])
def test_another_target_is_within_the_bound_of_another_order_of_sums(saved, rerun, name):
    folder, _ = saved(PROBLEMS[name])
    report = rerun(folder, "--target=cpu-generic --family=generic --oracle")
    assert report["target"] == "cpu-generic" and report["bits_may_differ"] == "another target"
    assert report["verdict"] in ("within_bound", "same_bits")
    assert name == "cache" or report["verdict"] == "within_bound"
    assert report["oracle"]["saved"]["ok"] and report["oracle"]["rerun"]["ok"]


def test_the_first_element_that_differs(regard, saved, rerun):
    folder, _ = saved("fwd fp32 b=2 h=3 sq=5 sk=7 d=64")
    change(folder / "outputs.safetensors", "o", 4 * (((1 * 5 + 3) * 3 + 2) * 64 + 11), struct.pack("<f", 100))
    report = rerun(folder, code=1)
    assert report["verdict"] == "different"
    row = report["outputs"]["o"]
    assert row["different"] == 1 and row["first"]["index"] == [1, 3, 2, 11] and row["first"]["saved"] == 100
    # Beside another target only what is outside the bound counts.
    report = rerun(folder, "--target=cpu-generic --oracle", code=1)
    row = report["outputs"]["o"]
    assert row["outside"] == 1 and row["first"]["index"] == [1, 3, 2, 11] and row["different"] >= 1
    assert not report["oracle"]["saved"]["ok"] and report["oracle"]["rerun"]["ok"]
    shown = regard("rerun", folder)
    assert shown.code == 1 and "first at [1,3,2,11]: 100 saved" in shown.out and "verdict   different" in shown.out


def test_a_changed_input_is_noticed(saved, rerun):
    folder, _ = saved(PROBLEMS["backward"])
    change(folder / "inputs.safetensors", "k", 40, struct.pack("<f", 7))
    assert rerun(folder, code=1)["verdict"] == "different"


def in_python(program, *words, **settings):
    """What it prints to standard error."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


SEVEN_CALLS = """
import numpy, regard
q = numpy.ones((1, 8, 1, 64), "float32")  # a call has 4 tensors of 2048 bytes
for _ in range(7):
    try:
        regard.attention(q, q, q)
    except regard.NoKernelError:
        pass
"""


def test_a_call_that_failed(rerun, tmp_path):
    none = {"REGARD_JIT": "off", "REGARD_BUILT_IN": "off", "REGARD_CACHE": "off", "REGARD_STRICT": "1"}
    in_python(SEVEN_CALLS, REGARD_SAVE_CALLS=f"{tmp_path / 'calls'},when=error,calls=1", **none)
    (folder,) = (tmp_path / "calls").iterdir()
    call = json.loads((folder / "call.json").read_text())
    assert call["error"] == "no_kernel" and sorted(os.listdir(folder)) == ["call.json", "inputs.safetensors"]
    assert rerun(folder, **none)["verdict"] == "same_error"
    assert rerun(folder, code=1)["verdict"] == "different"


def test_a_call_can_be_sent_to_a_colleague(saved, rerun, tmp_path):
    folder, call = saved(PROBLEMS["forward"])
    for name in os.listdir(folder):
        content = (folder / name).read_bytes()
        assert str(tmp_path).encode() not in content and os.uname().nodename.encode() not in content
        assert b"REGARD_" not in content and os.environ["PATH"].encode() not in content
    assert call["machine"]["cpu"] and call["version"] and all(len(one["digest"]) == 64 for one in call["kernels"])
    moved = tmp_path / "elsewhere"
    shutil.move(folder, moved)
    assert rerun(moved)["verdict"] == "same_bits"


def test_calls_and_bytes_are_bounded(regard, tmp_path):
    for bound, many in (("calls=2", 2), ("bytes=17000", 2), ("when=every:3", 3), ("when=first:1", 1)):
        folder = tmp_path / bound
        printed = in_python(SEVEN_CALLS, REGARD_SAVE_CALLS=f"{folder},{bound}")
        assert len(os.listdir(folder)) == many == printed.count("saved a call"), bound
        assert printed.count("bytes=N allows more") == (bound == "bytes=17000")
    # A second process adds to the folders.
    words = "run fwd fp32 h=1 s=8 d=64 --no-check --repeat=0"
    regard(words, REGARD_SAVE_CALLS=f"{tmp_path / 'calls=2'},when=first:1")
    assert sorted(os.listdir(tmp_path / "calls=2")) == ["call-0001", "call-0002", "call-0003"]


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda folder: shutil.rmtree(folder), ["call.json"]),
        (lambda folder: (folder / "call.json").write_text("{"), ["call.json"]),
        (lambda folder: (folder / "call.json").write_text('{"format": 2}'), ["format '2'", "format 1"]),
        (lambda folder: os.truncate(folder / "inputs.safetensors", 200), ["inputs.safetensors", "truncated"]),
        (lambda folder: os.remove(folder / "outputs.safetensors"), ["outputs.safetensors"]),
        (
            lambda folder: shutil.copy(folder / "outputs.safetensors", folder / "inputs.safetensors"),
            ["'q' is missing", "is null", "'q'"],
        ),
    ],
    ids=["missing", "no JSON", "newer", "truncated", "no outputs", "swapped"],
)
def test_a_folder_that_is_no_saved_call(regard, saved, damage, words):
    folder, _ = saved("fwd fp32 h=1 s=8 d=64")
    damage(folder)
    done = regard("rerun", folder)
    assert done.code == 2 and any(word in done.err for word in words), done.err
    assert done.err.count("\n") == 1


def test_a_target_that_is_not_here(saved, regard):
    folder, call = saved("fwd fp32 h=1 s=8 d=64")
    text = (folder / "call.json").read_text()
    (folder / "call.json").write_text(text.replace(f'"target":"{call["target"]}"', '"target":"sm_90a"'))
    done = regard("rerun", folder)
    assert done.code == 3 and "sm_90a" in done.err and "name another target" in done.err


def test_a_folder_that_cannot_be_written_is_a_warning(regard, tmp_path):
    (tmp_path / "file").write_text("")
    done = regard("run fwd fp32 h=1 s=8 d=64 --repeat=3", REGARD_SAVE_CALLS=str(tmp_path / "file"))
    assert done.code == 0 and done.err.count("a call is not saved") == 1


@pytest.mark.parametrize("name, when", [("lengths", "nan"), ("varlen", "nan"), ("cache", "mismatch"), ("merge", "nan")])
def test_a_right_call_is_not_saved(regard, tmp_path, name, when):
    """Rows past a length keep the NaN with which the command fills outputs."""
    words = "run", PROBLEMS[name], "--repeat=0 --no-check"
    done = regard(*words, REGARD_SAVE_CALLS=f"{tmp_path / 'calls'},when={when}")
    assert done.code == 0 and done.err == "" and not (tmp_path / "calls").exists()


def test_a_nan_in_the_middle_of_training(rerun, tmp_path):
    pytest.importorskip("torch")
    folder = tmp_path / "calls"
    in_python(NAN_IN_STEP_4, "cpu", "float32", REGARD_SAVE_CALLS=f"{folder},when=nan,calls=1")
    (call,) = folder.iterdir()
    description = json.loads((call / "call.json").read_text())
    # Of the fourth step's forward, not of the first that was made; row 7 has the NaN.
    assert description["problem"].startswith("fwd fp32 b=2 h=3 s=19 d=64")
    assert description["found"]["output"] == "o" and description["found"]["index"][:3] == [1, 7, 2]
    report = rerun(call, "--oracle")
    assert report["verdict"] == "same_bits"
    assert report["oracle"]["saved"]["ok"]  # the inputs make it NaN
    assert rerun(call, "--target=cpu-generic")["verdict"] == "within_bound"
