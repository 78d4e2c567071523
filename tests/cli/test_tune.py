"""`regard tune` measures candidates and writes records, which plans follow."""

import json
import os
import signal
import subprocess
import time

import pytest

from conftest import COMMAND, environment

DECODE = "fwd fp32 b=1 hq=4 hk=1 sq=1 sk=300 d=64"
ON = "--target=cpu-generic --threads=1"


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def tuned(regard, tmp_path):
    """A file with a record of one problem."""
    done = regard("tune", DECODE, ON, "--seconds=1 --out=my.tuning")
    assert done.code == 0, done.err
    assert "cost model" in done.out
    return tmp_path / "my.tuning"


def test_a_record_of_what_was_measured(regard, tuned):
    (record,) = records(tuned)
    assert record["problem"] == DECODE
    assert (record["target"], record["threads"]) == ("cpu-generic", 1)
    assert record["candidate"] in record["times"] and record["by_cost"] in record["times"]
    assert all(len(digest) == 64 for digest in record["kernels"].values()) and record["kernels"]
    explained = json.loads(regard("explain", DECODE, ON, "--json", REGARD_TUNING=tuned).out)
    assert explained["chosen_by"] == "record"
    assert str(tuned) in explained["record"]
    assert json.loads(regard("explain", DECODE, ON, "--json").out)["chosen_by"] == "cost"


def test_numbers_of_parts_and_threads_are_candidates(regard, tmp_path):
    problem, on = "fwd fp32 b=1 hq=4 hk=1 sq=1 sk=4096 d=64", "--target=cpu-generic --threads=2"
    done = regard("tune", problem, on, "--seconds=1 --out=my.tuning")
    assert done.code == 0, done.err
    (record,) = records(tmp_path / "my.tuning")
    decode = next(name for name in record["times"] if name.startswith("cpu_decode"))
    assert any(name.startswith("cpu_decode") and " splits=" in name for name in record["times"])
    assert any(name.endswith(" threads=1") for name in record["times"])
    record["candidate"] = f"{decode.split(' splits=')[0].split(' threads=')[0]} splits=3 threads=1"
    record["times"][record["candidate"]] = 0.5
    (tmp_path / "my.tuning").write_text(json.dumps(record))
    explained = regard("explain", problem, on, REGARD_TUNING="my.tuning").out
    assert f"chosen   {record['candidate']}: " in explained and "chosen by the tuning record of" in explained
    assert "2 stages, 1 thread, " in explained and "the keys in 3 parts of" in explained
    save = {"REGARD_SAVE_CALLS": "calls,when=first:1"}
    done = regard("run", problem, on, "--repeat=0 --json", REGARD_TUNING="my.tuning", **save)
    assert done.code == 0 and json.loads(done.out)["plan"]["splits"] == 3, done.err
    again = json.loads(regard("rerun calls/call-0001 --json").out)  # without the record
    assert again["verdict"] == "same_bits"
    saved = json.loads((tmp_path / "calls/call-0001/call.json").read_text())
    assert saved["family"].endswith(" splits=3") and saved["threads"] == 1


def test_a_candidate_that_exists_nowhere(regard, tuned):
    (record,) = records(tuned)
    tuned.write_text(json.dumps(record | {"candidate": "cpu_decode block_k=63"}))
    done = regard("run", DECODE, ON, "--repeat=0 --no-check", REGARD_TUNING=tuned)
    sentence = "the tuning records name 'cpu_decode block_k=63', which is no candidate of this Regard on cpu-generic"
    assert done.code == 0 and sentence in done.err, done.err


def test_other_records_of_the_file_stay(regard, tuned):
    (first,) = records(tuned)
    done = regard("tune", DECODE.replace("d=64", "d=32"), ON, "--seconds=0 --out=my.tuning --json")
    assert [record["problem"] for record in json.loads(done.out)] == [DECODE, DECODE.replace("d=64", "d=32")]
    regard("tune", DECODE.replace("sk=300", "sk=290"), ON, "--seconds=0 --out=my.tuning")  # of the same bucket
    problems = [record["problem"] for record in records(tuned)]
    assert problems == [DECODE.replace("d=64", "d=32"), DECODE.replace("sk=300", "sk=290")]


def test_the_problems_of_a_run(regard, tmp_path):
    regard("run", DECODE, ON, "--repeat=0 --no-check", REGARD_RECORD="seen.txt")
    regard("run", DECODE.replace("sk=300", "sk=301"), ON, "--repeat=0 --no-check", REGARD_RECORD="seen.txt")
    done = regard("tune --record=seen.txt --threads=1 --seconds=0 --out=my.tuning")
    assert done.code == 0, done.err
    assert [record["problem"] for record in records(tmp_path / "my.tuning")] == [DECODE]


MANIFEST = f"""
[build]
targets = ["cpu-generic", "sm_90a"]
[[variants]]
profile = "vllm"
[[variants]]
problems = ["{DECODE}", "bwd fp32 b=1 h=2 s=40 d=64"]
[[variants]]
record = "seen.txt"
[[exclude]]
pass = "bwd"
"""


def test_the_problems_of_a_manifest(regard, tmp_path):
    other = DECODE.replace("d=64", "d=32")
    (tmp_path / "seen.txt").write_text(f"cpu-generic | {other}\ncpu-avx2 | {other.replace('fp32', 'bf16')}\n")
    (tmp_path / "te.toml").write_text(MANIFEST)
    done = regard("tune --manifest=te.toml --threads=1 --seconds=2 --out=my.tuning")
    assert done.code == 0, done.err
    assert {(record["problem"], record["target"]) for record in records(tmp_path / "my.tuning")} == {
        (DECODE, "cpu-generic"),
        (other, "cpu-generic"),
    }
    for sentence in (
        "te.toml:4: the signatures of this table (profile vllm) have no batch, heads and lengths",
        "te.toml:8: 1 problem of the record seen.txt is left out, as cpu-avx2 is none of the targets",
        "sm_90a of te.toml is left out: this machine has no NVIDIA driver",
    ):
        assert sentence in done.err
    (tmp_path / "my.toml").write_text('[build]\ntargets = ["cpu-generic"]\ntuning = "my.tuning"\n')
    again = regard("tune --manifest=my.toml --threads=1 --seconds=0 --out=again.tuning")
    assert again.code == 0 and len(records(tmp_path / "again.tuning")) == 1, again.err


def test_manifests_without_problems_to_measure(regard, tmp_path):
    def answer(tables, words="", targets='"cpu-generic"'):
        (tmp_path / "te.toml").write_text(f"[build]\ntargets = [{targets}]\n{tables}")
        done = regard("tune --manifest=te.toml --out=my.tuning --seconds=0", words)
        return done.code, done.err

    product, problems = "[[variants]]\nd = 64\n", f'[[variants]]\nproblems = ["{DECODE}"]\n'
    code, err = answer(product)
    assert code == 2 and "te.toml:3: the signatures of this table (product) have no batch" in err
    code, err = answer(problems, "--target=cpu-avx2")
    assert code == 2 and "'cpu-avx2' is no target of te.toml, whose targets are cpu-generic" in err
    code, err = answer(problems, targets='"sm_90a"')
    assert code == 3 and "no target of te.toml runs here; sm_90a of te.toml is left out" in err
    code, err = answer("[[variants]]\nprofile = 'flsh'\n")
    assert code == 2 and "did you mean 'flash'" in err
    assert not (tmp_path / "my.tuning").exists()


def test_a_check_measures_again(regard, tuned):
    (record,) = records(tuned)
    done = regard("tune --seconds=1 --json --check", tuned)
    (row,) = json.loads(done.out)
    assert row["verdict"] in ("holds", "changed")
    assert done.code == (row["verdict"] == "changed")
    done = regard("tune --seconds=1 --check", tuned)
    verdict, problem = done.out.split(": ")[:2]  # which one it is depends on the machine
    assert verdict in ("holds", "changed") and problem == DECODE
    assert done.code == (verdict == "changed")
    assert f"with {record['candidate']}, recorded " in done.out


def test_a_check_says_why_a_record_is_not_used(regard, tuned):
    (record,) = records(tuned)
    tuned.write_text(json.dumps(record | {"device": "another chip"}))
    done = regard("tune --check", tuned)
    assert done.code == 0
    assert done.out.startswith("not used: ") and "it is for another chip" in done.out


def test_bad_input(regard, tuned, tmp_path):
    (tmp_path / "other").write_text("hello\n")
    before = tuned.read_text()
    for words, code, sentence in [
        (f"tune {DECODE}", 2, "--out is required"),
        ("tune --out=my.tuning", 2, "a problem is missing"),
        (f"tune {DECODE} --out=other", 2, "other:1: not a tuning record"),
        ("tune --check=missing", 2, "missing"),
        (f"tune {DECODE} --check=my.tuning", 2, "takes no problems"),
        ("tune --manifest=te.toml --check=my.tuning", 2, "takes no problems"),
        ("tune --manifest=te.toml --out=my.tuning", 2, "the manifest 'te.toml' cannot be read"),
        (f"tune {DECODE} --out=my.tuning --target=cpu-genric", 2, "did you mean"),
        ("tune fwd fp32 h=1 s=8 d=600 --out=my.tuning", 2, "d=600"),
    ]:
        done = regard(words)
        assert (done.code, sentence in done.err) == (code, True), (words, done)
    done = regard(f"explain {DECODE}", REGARD_TUNING="other")
    assert done.code == 2 and done.err.startswith("regard: REGARD_TUNING: other:1: ")
    assert tuned.read_text() == before


def test_ctrl_c_keeps_what_is_known(tmp_path, cache):
    out = tmp_path / "my.tuning"
    slow = "fwd fp32 b=1 h=8 s=2048 d=64"
    words = ["tune", DECODE, slow, *ON.split(), "--seconds=600", "--out", out]
    settings = environment(REGARD_CACHE_DIR=str(cache))
    with subprocess.Popen([COMMAND, *words], env=settings, stderr=subprocess.PIPE, cwd=tmp_path, text=True) as process:
        end = time.monotonic() + 60
        while not out.exists() and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        err = process.stderr.read()
    assert process.returncode == -signal.SIGINT
    assert "1 of 2 problems were measured and are in" in err
    assert [record["problem"] for record in records(out)] == [DECODE]
