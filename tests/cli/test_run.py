"""regard run: its results, checks and messages."""

import pytest

from conftest import BACKWARD, FORWARD


def test_says_plan_kernel_tier_check_time_and_rate(regard):
    shown = regard("run", FORWARD)
    assert shown.code == 0, shown.err
    for word in ["problem", "plan", "kernel", "built-in", "check", "ok", "max error", "time", "GFLOP/s"]:
        assert word in shown.out


def test_json_holds_the_same(regard_json):
    report = regard_json("run", FORWARD, "--repeat=2")
    assert report["problem"] == "fwd fp32 b=2 hq=4 hk=2 s=32 d=64 mask=causal lse"
    assert report["plan"]["stages"][0]["tier"] in ("built-in", "cache", "compile")
    assert report["check"]["ok"] and set(report["check"]["outputs"]) == {"o", "lse"}
    assert report["time"]["median_ms"] > 0 and report["time"]["gflops"] > 0


def test_backward_reads_o_and_lse_of_a_forward_run(regard_json):
    report = regard_json("run", BACKWARD, "--repeat=0")
    assert report["check"]["ok"] and set(report["check"]["outputs"]) == {"grad_q", "grad_k", "grad_v"}


@pytest.mark.parametrize(
    "problem",
    [
        "fwd bf16 b=2 h=2 s=40 d=64 layout=bhsd lse",
        "fwd fp32 b=3 h=2 s=40 d=64 varlen mask=causal lse",
        "fwd fp32 b=3 h=2 sq=40 sk=50 d=64 varlen lengths lse",
        "fwd fp32 b=3 h=2 s=40 d=64 lengths",
        "fwd fp32 h=2 s=40 d=64 ranges bits",
        "fwd fp32 b=2 h=2 s=40 d=64 bias=1h",
        "fwd bf16 h=4 s=40 d=64 bias=alibi sink",
        "fwd fp32 h=2 s=40 d=64 dropout=0.3 dropout_mask",
        "fwd fp8 b=2 h=2 s=40 d=64 descale=head",
        "bwd fp32 b=2 h=2 s=40 d=64 bias=b1 dbias sink",
        "bwd bf16 b=2 hq=4 hk=1 s=40 d=64 varlen dropout=0.2",
        "fwd bf16 b=6 hq=4 hk=2 sq=2 sk=50 d=64 paged=7 lengths left_padding mask=causal",
        "fwd fp32 b=6 hq=4 hk=2 sq=2 sk=50 d=64 paged=16 pages=40 table=sglang mask=window:9,0,sink=3 layout=bhsd",
        "fwd bf16 b=6 hq=4 hk=2 sq=2 sk=50 d=64 paged=16 kv_layout=vectorized kv=int8 descale=token lengths",
        "fwd fp16 b=3 hq=4 hk=2 sq=5 tq=9 sk=50 d=64 varlen cache=4 kv=fp8 descale=head lengths",
        "fwd fp16 b=5 hq=4 hk=2 sq=1 sk=50 d=64 cache=2 lengths",
        "fwd bf16 b=3 hq=4 hk=2 sq=7 tq=12 sk=40 d=64 varlen paged=8 lengths mask=causal lse",
        "fwd fp32 b=3 hq=4 hk=2 sq=7 tq=12 sk=40 d=64 varlen paged=8 table=sglang snew=7 tnew=12 rope=half rotary=32",
        "fwd bf16 b=6 hq=4 hk=1 sq=2 sk=50 d=40 dv=24 paged=7 lengths latent mask=causal",
        "fwd bf16 b=3 hq=4 hk=1 sq=2 sk=50 d=40 dv=24 cache=4 kv=fp8 descale=tensor lengths latent k_rope snew=2",
    ],
)
def test_makes_inputs_for_every_feature(regard_json, problem):
    # The generic kernels are always available; this tests that the command passes them all that they need.
    report = regard_json("run", problem, "--family=generic", "--repeat=0")
    assert report["check"]["ok"], report["check"]


@pytest.mark.parametrize("verb", ["run", "bench", "explain"])
@pytest.mark.parametrize(
    "problem",
    [
        "fwd fp32 h=1000000000 sq=0 sk=0 d=64",
        "fwd bf16 b=1000000000 sq=0 sk=0 d=64 lse",
        "bwd fp32 h=1000000000 sq=0 sk=0 d=64",
        "bwd fp32 b=1000000000 hq=8 hk=2 sq=0 sk=0 d=64",
        "fwd fp32 b=30000 h=30000 sq=0 sk=0 d=64 varlen",
        "fwd fp32 b=30000 h=30000 sq=0 sk=0 d=64 lengths",
    ],
)
def test_nothing_to_compute_takes_no_time(regard, verb, problem):
    # The command ends within seconds; its check once iterated over heads and sequences without rows for hours.
    done = regard(verb, problem, "--family=generic" if verb != "explain" else "")
    assert done.code == 0, done.err


def test_threads_target_and_family_are_the_callers(regard_json):
    plan = regard_json("run", FORWARD, "--threads=1 --target=cpu-generic --family=generic --repeat=0")["plan"]
    assert plan["threads"] == 1 and plan["target"] == "cpu-generic"
    assert "generic_forward" in plan["stages"][0]["kernel"]


def test_seed_decides_the_inputs(regard, tmp_path):
    for name, seed in [("a.npy", 1), ("b.npy", 1), ("c.npy", 2)]:
        assert regard("run fwd fp32 s=16 d=64 --repeat=0 --out", tmp_path / name, f"--seed={seed}").code == 0
    a, b, c = ((tmp_path / name).read_bytes() for name in ("a.npy", "b.npy", "c.npy"))
    assert a == b and a != c


def test_printed_problem_gives_the_same_sequences_again(regard_json):
    first = regard_json("run fwd fp32 varlen b=4 s=40 d=64 --repeat=0")
    again = regard_json("run", first["problem"], "--repeat=0")
    assert again["problem"] == first["problem"] and again["lengths_q"] == first["lengths_q"]


def test_lengths_are_the_users(regard_json):
    report = regard_json("run fwd fp32 varlen b=3 s=40 d=64 --lengths-q 5,0,17 --lengths-k 6,1,40 --repeat=0")
    assert report["lengths_q"] == [5, 0, 17] and report["lengths_k"] == [6, 1, 40]
    assert "tq=22 tk=47" in report["problem"] and report["check"]["ok"]


def test_of_many_lengths_a_few_are_shown(regard):
    shown = regard("run fwd fp32 varlen b=100000 s=1 d=8 --family=generic --no-check --repeat=0")
    (line,) = [line for line in shown.out.splitlines() if line.startswith("lengths")]
    assert line.count("(100000 in all)") == 2 and len(line) < 200, line
    shown = regard("run fwd fp32 varlen b=3 s=40 d=64 --lengths-q 5,0,17 --lengths-k 6,1,40 --repeat=0")
    assert "lengths   q 5,0,17   k 6,1,40\n" in shown.out


def test_check_and_timing_can_be_left_out(regard_json):
    report = regard_json("run", FORWARD, "--no-check --repeat=0")
    assert report["check"] is None and report["time"] is None


def test_a_switched_off_compiler_falls_back_and_says_so(regard, tmp_path):
    shown = regard("run fwd fp32 s=16 d=41", REGARD_JIT="off", REGARD_CACHE_DIR=str(tmp_path))
    assert shown.code == 0 and "fallback" in shown.out and "REGARD_JIT=off" in shown.out
