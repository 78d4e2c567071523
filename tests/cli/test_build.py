"""The meaning of a manifest, and the record of a program's problems, through the command."""

import json
import os
import subprocess

import pytest

from conftest import COMMAND, FORWARD, environment

HEAD = '[build]\ntargets = ["cpu-avx2", "sm_90a"]\n'
# Its kernels are compiled into the library.
BUILT_IN = "fwd fp32 b=2 hq=4 hk=2 s=32 d=64 mask=causal"


@pytest.fixture
def manifest(tmp_path):
    """manifest(tables) writes a manifest with these tables and two targets, and returns its name."""

    def write(tables, head=HEAD, name="te.toml"):
        (tmp_path / name).write_text(head + tables)
        return name

    return write


def test_check_counts_and_list_names(regard, regard_json, manifest):
    tables = '[[variants]]\ndtype = "fp16"\nd = [64, 128]\n[[variants]]\npass = "bwd"\nd = 64\n'
    name = manifest(tables, '[build]\ntargets = ["cpu-avx2", "sm_75"]\n')
    checked = regard_json("build --check", name)
    listed = regard_json("build --list", name)
    assert {**checked, "kernels": listed["kernels"]} == listed
    assert listed["count"] == len(listed["kernels"]) == sum(target["count"] for target in listed["targets"])
    for target in listed["targets"]:
        kernels = [row["kernel"] for row in listed["kernels"] if row["target"] == target["target"]]
        assert len(kernels) == target["count"] and kernels == sorted(set(kernels))
    first, second = listed["variants"]
    assert (first["line"], second["line"]) == (3, 6)
    assert [count["asked"] for count in first["targets"]] == [2, 2]
    assert [count["kernels"] > 0 for count in second["targets"]] == [True, False]
    assert second["targets"][1]["unserved"] == 1 and "sm_75 does not compute in bf16" in second["targets"][1]["why"]
    assert {tuple(row["lines"]) for row in listed["kernels"]} == {(3,), (6,)}
    shown = regard("build --check", name).out.splitlines()
    assert shown[0].split() == ["line", "kernels", "for", "cpu-avx2", "sm_75"]
    assert shown[-1] == f"{listed['count']} kernels"
    assert any(line.startswith("line 6: 1 of 1 have no kernel on sm_75: ") for line in shown)
    lines = regard("build --list", name).out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines[1 : 1 + listed["count"]]] == [
        row["kernel"] for row in listed["kernels"]
    ]


def test_check_gives_the_problems_that_tables_name(regard_json, manifest, tmp_path):
    (tmp_path / "seen.txt").write_text(f"sm_90a | {FORWARD}\nsm_75 | {FORWARD}\n")
    tables = f"""
[[variants]]
d = 64
[[variants]]
problems = ["{FORWARD}", "fwd bf16 h=2 s=40 d=96"]
[[variants]]
record = "seen.txt"
[[exclude]]
d = 96
"""
    product, problems, record = regard_json("build --check", manifest(tables))["variants"]
    assert "problems" not in product
    assert problems["problems"] == [{"problem": FORWARD}]
    assert record["problems"] == [{"problem": FORWARD, "target": "sm_90a"}]


def test_the_kernels_of_a_profile_are_those_of_list(regard_json, manifest):
    kernels = {
        row["kernel"] for row in regard_json("build --list", manifest('[[variants]]\nprofile = "jax"\n'))["kernels"]
    }
    assert kernels == {
        row["kernel"]
        for target in ("cpu-avx2", "sm_90a")
        for row in regard_json("list --profile=jax --target", target, REGARD_CACHE="off")
    }


def test_checking_writes_nothing(regard, manifest, tmp_path):
    name = manifest("[[variants]]\nd = 64\n")
    for option in ("--check", "--list"):
        assert regard("build", name, option, "--output=there").code == 0
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    ("tables", "words", "code"),
    [
        ("[[variants]]\nmsk = 'causal'\n", ["te.toml:4: unknown key 'msk'; did you mean 'mask'?"], 2),
        ("[[variants]]\n", ["te.toml:3: this [[variants]] is empty; give it the fields of signatures"], 2),
        ("[[variants]]\nrecord = 'none.txt'\n", ["te.toml:3: ", "'none.txt'", "No such file"], 2),
        ("[[variants]]\nd = 64\nrecipes = ['append']\n", ["te.toml:3: none of the targets can do this"], 3),
        ("[[variants]]\nd = 64\n[[exclude]]\nd = 40\n", ["te.toml:5: ", "leaves nothing out"], 2),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(refused, manifest, tmp_path, tables, words, code):
    name = manifest(tables)
    for option in ("--check", "--list", "--jobs=1"):
        message = refused("build", name, option, code=code)
        assert all(word in message for word in words), message
    assert os.listdir(tmp_path) == [name]


def test_bad_words_are_refused(refused, regard_words, manifest):
    name = manifest("[[variants]]\nd = 64\n")
    assert "needs" in refused("build") or "required" in refused("build")
    assert "none.toml" in refused("build none.toml --check")
    assert "--check" in refused("build", name, "--check --list")
    assert "--jobs" in refused("build", name, "--jobs=-1")
    assert "its value is empty" in regard_words("build", "", "--check").err
    one_of = "takes kernels from one of --profile, --manifest and --record"
    assert one_of in refused("prebuild --target=cpu-avx2")
    assert one_of in refused("prebuild --target=cpu-avx2 --profile=default --record=seen.txt")
    assert "--target is required" in refused("prebuild --profile=default")
    assert "--target is not for --manifest" in refused("prebuild --target=cpu-avx2 --manifest", name)
    assert "none.txt" in refused("prebuild --target=cpu-avx2 --record=none.txt")


def test_what_is_said_of_a_record_names_no_manifest(refused, regard, tmp_path):
    seen = tmp_path / "seen.txt"
    prebuild = "prebuild --record=seen.txt --target="
    seen.write_text("cpu-avx2 | fwd bf16 s=64 d=64")
    sentence = refused(prebuild + "cpu-avx2")
    assert sentence.startswith(f"regard: the record '{seen}' has no problems but those of lines that are left out: ")
    assert refused(prebuild + "cpu-avx9").startswith("regard: unknown target 'cpu-avx9'")
    seen.write_text("\ufeffcpu-avx2 | fwd bf16 s=64 d=64\n")
    assert refused(prebuild + "cpu-avx2").startswith(f"regard: {seen}:1: unknown target '\\ufeffcpu-avx2'")
    seen.write_text(f"cpu-generic | {BUILT_IN}\nsm_90a | fwd bf16 s=64 d=64\n")
    printed = regard(prebuild + "cpu-generic").err.splitlines()[0]
    assert printed == (f"regard: 1 problem of the record {seen} is left out, as sm_90a is none of the targets")
    assert refused(prebuild + "sm_80") == "regard: none of the targets is one of this record\n"


def test_a_record_has_what_was_planned_and_is_built_from(regard, regard_json, manifest, tmp_path):
    record = {"REGARD_RECORD": "seen.txt", "REGARD_CPU_TARGET": "cpu-generic"}
    for _ in range(2):  # the second process finds the line in the file
        assert regard("run", BUILT_IN, "--repeat=2", **record).code == 0
    assert (tmp_path / "seen.txt").read_text() == f"cpu-generic | {BUILT_IN}\n"
    regard_json("explain", FORWARD, **record)  # nothing is run
    assert regard("run bwd fp32 b=2 hq=4 hk=2 s=32 d=64 --repeat=0 --no-check", **record).code == 0
    passes = [line.split()[2] for line in (tmp_path / "seen.txt").read_text().splitlines()]
    assert passes == ["fwd", "bwd", "fwd"]  # the last one computes the inputs of the backward problem
    name = manifest('[[variants]]\nrecord = "seen.txt"\n', '[build]\ntargets = ["cpu-generic"]\n')
    kernels = [row["kernel"] for row in regard_json("build --list", name)["kernels"]]
    names = {word for kernel in kernels for word in kernel.split() if word.startswith("cpu_")}
    assert names == {"cpu_backward", "cpu_backward_delta", "cpu_forward"}
    of_manifest = regard_json("prebuild --manifest", name)
    of_record = regard_json("prebuild --target=cpu-generic --record=seen.txt")
    assert sorted(row["kernel"] for row in of_manifest) == sorted(row["kernel"] for row in of_record) == kernels
    assert {row["tier"] for row in of_record} == {"built-in"}


def test_many_processes_write_one_record(tmp_path):
    settings = environment(
        REGARD_RECORD=str(tmp_path / "seen.txt"), REGARD_CPU_TARGET="cpu-generic", REGARD_CACHE="off"
    )
    problems = [f"fwd fp32 b={batch} h=1 s=8 d=64" for batch in (1, 2, 3)]
    commands = [
        subprocess.Popen(
            [COMMAND, "bench", *problems, "--rounds=1", "--threads=1"], env=settings, stdout=subprocess.DEVNULL
        )
        for _ in range(8)
    ]
    assert [command.wait(timeout=120) for command in commands] == [0] * 8
    lines = (tmp_path / "seen.txt").read_text().splitlines()
    assert set(lines) == {f"cpu-generic | {problem}" for problem in problems}
    assert len(lines) <= 8 * len(problems)


def test_a_record_that_cannot_be_written_is_one_warning(regard, tmp_path):
    done = regard("run", BUILT_IN, "--repeat=2", REGARD_RECORD=str(tmp_path / "none" / "seen.txt"))
    assert done.code == 0
    assert done.err.count("problems are not recorded, as the file cannot be written: No such file or directory") == 1


def test_a_bad_line_of_a_record_is_named(refused, manifest, tmp_path):
    (tmp_path / "seen.txt").write_text(
        "# mine\ncpu-avx2 | fwd bf16 s=64 d=64\ncpu-avx2 | fwd bf16 s=64 d=64 mask=cusal\n"
    )
    message = refused("build --check", manifest('[[variants]]\nrecord = "seen.txt"\n'))
    assert "seen.txt:3: unknown mask 'cusal'; did you mean 'causal'?" in message, message


def test_a_line_that_is_not_whole_is_told(regard, regard_json, manifest, tmp_path):
    (tmp_path / "seen.txt").write_text(f"cpu-generic | {BUILT_IN}\ncpu-avx2 | fwd bf")
    record = {"REGARD_RECORD": "seen.txt", "REGARD_CPU_TARGET": "cpu-avx2"}
    assert regard("run", BUILT_IN, **record).code == 0  # the record is still valid
    name = manifest('[[variants]]\nrecord = "seen.txt"\n', '[build]\ntargets = ["cpu-avx2", "cpu-generic"]\n')
    (warning,) = regard_json("build --check", name)["warnings"]
    assert warning.startswith("seen.txt:2: the line 'cpu-avx2 | fwd bf' is left out, as it is not whole")
    assert f"warning: {warning}" in regard("build --check", name).out
    assert json.loads(regard("build --check --json", name).out)["count"] > 0
