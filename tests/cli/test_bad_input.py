"""Bad input gives one sentence on standard error and exit code 2; a valid problem that nothing solves gives 3."""

import os

import pytest

CASES = [
    ("rnu", "unknown verb 'rnu'; did you mean 'run'?"),
    ("", "a verb is missing"),
    ("run", "a problem is missing"),
    ("run --repaet=3 fwd s=8 d=64", "unknown option '--repaet'; did you mean '--repeat'?"),
    ("run fwd s=8 d=64 --repeat", "--repeat needs a value"),
    ("run fwd s=8 d=64 --repeat 3 --repeat 4", "--repeat can be given only once"),
    ("explain fwd fp32 s d=64", "s needs a number, as in s=512"),
    ("explain fwd fp32 s= d=64", "s needs a number, as in s=512"),
    ("explain fwd fp32 s=8 d=64 is_causal=1", "did you mean 'mask=causal'"),
    ("run fwd s=8 d=64 --causal", "unknown option '--causal'; did you mean 'mask=causal'?"),
    ("run fwd s=8 d=64 --softcap=3", "did you mean 'softcap=3', a word of the problem, without dashes?"),
    ("bench fwd s=8 --head-dim=64", "unknown option '--head-dim'; did you mean 'd=64'?"),
    ("run --", "unknown option '--'"),
    ("bench ---", "unknown option '---'"),
    ("explain fwd s=8 --=x", "unknown option '--'"),
    ("list --causal", "unknown option '--causal'; one of"),
    ("run fwd s=8 d=64 --json=1", "--json takes no value"),
    ("run fwd s=8 d=64 --no-check=false", "--no-check takes no value"),
    ("run fwd s=8 d=64 --repeat=", "--repeat needs a value"),
    ("run fwd s=8 d=64 --JSON", "did you mean '--json'?"),
    ("help run run", "only one topic can be given"),
    ("run fwd fp32 s=8 d=64 --seed -1", "--seed: '-1' is not a whole number between 0 and 18446744073709551615"),
    ("bench fwd fp32 s=8 d=64 --seed=99999999999999999999", "--seed: '99999999999999999999' is not a whole number"),
    (
        "run fwd fp32 b=1000000000 h=1 s=1 d=64 varlen",
        "b=1000000000 is more than 16777216, the most sequences whose lengths are drawn; use a smaller b",
    ),
    ("bench fwd fp32 b=1000000000 h=1 s=0 d=64 lengths", "b=1000000000 is more than 16777216"),
    ("run fwd s=8 d=64 --repeat=x", "--repeat: 'x' is not a whole number between 0 and 1000000"),
    ("run fwd s=8 d=64 --threads=-1", "--threads: '-1' is not a whole number between 0 and 4096"),
    ("run fwd s=8 d=64 --threads 2147483648", "--threads: '2147483648' is not a whole number between 0 and 4096"),
    ("explain fwd s=8 d=64 --threads 1e3", "--threads: '1e3' is not a whole number between 0 and 4096"),
    ("bench fwd s=8 d=64 --threads 4.0", "--threads: '4.0' is not a whole number between 0 and 4096"),
    ("bench fwd s=8 d=64 --rounds 0", "--rounds: '0' is not a whole number between 1 and 1000000"),
    (
        "prebuild --target=cpu-generic --profile=default --sample=-1",
        "--sample: '-1' is not a whole number between 0 and 1000000",
    ),
    ("run fwd fp32 s=8 d=64 hqq=4", "unknown word 'hqq=4'; did you mean 'hq'?"),
    ("run fwd fp32 s=8 d=64 mask=casual", "did you mean 'causal'?"),
    ("run fwd fp31 s=8 d=64", "did you mean 'fp32'?"),
    ("run fwd fp32 hq=8 hk=3 s=8 d=64", "hq=8 is not a multiple of hk=3"),
    ("run fwd fp32 s=8 d=64 dropout=1.5", "dropout=1.5 is outside [0, 1)"),
    ("run fwd fp32 s=8 d=600", "d=600"),
    ("run fwd fp32 s=-8 d=64", "-8"),
    ("run fwd fp32 d=64", "sq is missing in 'fwd fp32 d=64'; give the sequence length, such as s=1024, or sq=0"),
    ("run fwd fp32 sq=4 d=64", "sk is missing"),
    ("explain fwd fp32 d=64", "sq is missing"),
    ("bench fwd fp32 d=64", "sq is missing"),
    ("explain append fp32 sq=1 d=64 snew=1", "snew=1 new tokens do not fit"),
    ("run fwd fp32 s=99999999999999999999 d=64", "99999999999999999999"),
    ("run fwd fp32 s=8 d=64 --lengths-q 1,2", "--lengths-q needs the word varlen or lengths"),
    ("run fwd fp32 varlen b=3 s=8 d=64 --lengths-q 1,2", "names 2 sequences and the problem has b=3"),
    ("run fwd fp32 varlen b=2 s=8 d=64 --lengths-q 1,9", "has 9, outside 0 to sq=8"),
    ("run fwd fp32 varlen b=2 s=8 d=64 --lengths-q 1,,2", "takes lengths such as 5,0,17"),
    ("run fwd fp32 s=8 d=64 --target=cpu-axv2", "unknown target 'cpu-axv2'; did you mean 'cpu-avx2'?"),
    ("explain fwd fp32 s=8 d=64 --target=cpu-axv2", "unknown target 'cpu-axv2'; did you mean 'cpu-avx2'?"),
    ("list --profile=defualt", "unknown profile 'defualt'; did you mean 'default'?"),
    ("list --target=cpu-axv2", "unknown target 'cpu-axv2'; did you mean 'cpu-avx2'?"),
    ("list --tier=compiled", "unknown tier 'compiled'; did you mean 'compile'?"),
    ("cache", "verb is required"),
    ("cache lst", "unknown cache verb 'lst'; did you mean 'list'?"),
    ("completion bsh", "no completion for 'bsh'; did you mean 'bash'?"),
    ("help rnu", "unknown verb 'rnu'; did you mean 'run'?"),
    ("bench --problems=nowhere.txt", "cannot read nowhere.txt: No such file"),
    ("bench --problems=.", "cannot read .: Is a directory"),
    ("bench", "a problem is missing"),
    (
        "prebuild --target=cpu-generic --profile=default --threads=-5",
        "--threads: '-5' is not a whole number between 0 and 4096",
    ),
    (
        "prebuild --target=cpu-generic --profile=default --threads=4097",
        "--threads: '4097' is not a whole number between 0 and 4096",
    ),
]


@pytest.mark.parametrize(("line", "sentence"), CASES, ids=[line or "nothing" for line, _ in CASES])
def test_one_sentence(refused, line, sentence):
    assert sentence in refused(line)


# Each option that takes a path or a name, with the words of a command that has it.
EMPTY = [
    *(
        ["run", "fwd", "fp32", "s=8", "d=64", option]
        for option in ["--in", "--out", "--q", "--sink", "--lengths-q", "--target", "--family"]
    ),
    *(["run", "fwd", "fp32", "s=8", "d=64", option] for option in ["--repeat", "--seed", "--threads"]),
    *(["bench", "fwd", "fp32", "s=8", "d=64", option] for option in ["--problems", "--target", "--family"]),
    *(["list", option] for option in ["--target", "--profile", "--tier"]),
    *(["bundle", "merge", "x", option] for option in ["--out", "--key", "--trusted"]),
    ["prebuild", "--target", "cpu-generic", "--profile"],
    ["prebuild", "--profile", "default", "--target"],
]


@pytest.mark.parametrize("words", EMPTY, ids=" ".join)
@pytest.mark.parametrize("joined", [False, True])
def test_an_empty_value_stands_for_nothing(regard_words, words, joined):
    shown = regard_words(*words[:-1], words[-1] + "=") if joined else regard_words(*words, "")
    assert shown.code == 2 and shown.out == ""
    assert shown.err.startswith(f"regard: {words[-1]}") and shown.err.count("\n") == 1


def test_unknown_family_is_refused(refused):
    message = refused("run fwd fp32 s=8 d=64 --family=gneric", code=2)
    assert "unknown family or kernel 'gneric'; did you mean 'generic'?" in message


def test_valid_problem_without_a_kernel_is_refused(refused):
    assert "kv=fp8" in refused("run fwd fp32 b=1 h=2 sq=1 sk=64 d=64 kv=fp8 --target=sm_90a", code=3)


def test_nobody_waits_for_the_writer_of_a_fifo(regard, refused, tmp_path):
    os.mkfifo(tmp_path / "q.npy")
    assert "cannot read q.npy: it is not a file" in refused("run fwd fp32 s=8 d=64 --q=q.npy")
    os.mkfifo(tmp_path / "libnvrtc.so")
    one = "prebuild --target=sm_80 --profile=flash --sample=1"
    shown = regard(one, REGARD_NVRTC=str(tmp_path / "libnvrtc.so"), REGARD_CACHE_DIR=str(tmp_path / "cache"))
    assert shown.code == 3 and "libnvrtc.so: it is not a file" in shown.out


def test_tensors_larger_than_the_machine_are_one_sentence(refused):
    assert "GiB of this machine" in refused("run fwd fp32 b=100000 s=1000000 d=512 --no-check", code=4)


@pytest.mark.parametrize("verb", ["info", "list", "run fwd fp32 s=8 d=64"])
def test_setting_that_is_not_understood(refused, verb):
    assert "REGARD_JIT='maybe' is not understood" in refused(verb, REGARD_JIT="maybe")


def test_unknown_setting_is_reported_and_the_run_goes_on(regard):
    shown = regard("run fwd fp32 s=8 d=64 --repeat=0", REGARD_JTI="off")
    assert shown.code == 0 and "unknown setting REGARD_JTI; did you mean 'REGARD_JIT'?" in shown.err


def test_unwritable_cache_is_reported_and_the_run_goes_on(regard):
    shown = regard("run fwd fp32 s=8 d=20", REGARD_CACHE_DIR="/proc/nowhere")
    assert shown.code == 0 and "'/proc/nowhere' is not used" in shown.err


def test_no_compiler_falls_back_to_the_generic_kernel(regard, tmp_path):
    shown = regard("run fwd fp32 s=8 d=22", REGARD_CXX="/dev/null/c++", REGARD_CACHE_DIR=str(tmp_path / "empty"))
    assert shown.code == 0 and "/dev/null/c++" in shown.out + shown.err and "generic_forward" in shown.out
