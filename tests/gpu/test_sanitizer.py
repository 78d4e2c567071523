"""A small matrix under NVIDIA's compute-sanitizer."""

import pytest

from here import COMMAND, KIND, REFUSAL, Crowd, families_of, regard, run, sanitizer, sanitizers, targets

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PROBLEMS = (
    "fwd bf16 lse b=2 hq=4 hk=2 sq=130 sk=200 d=64 mask=causal",
    "fwd fp16 lse b=1 h=2 s=200 d=128 mask=window:60,3",
    "fwd bf16 lse b=3 hq=4 hk=2 s=150 d=96 varlen lengths mask=causal",
    "fwd bf16 b=1 h=2 sq=70 sk=131 d=256 softcap=20",
    "fwd bf16 b=1 h=2 sq=70 sk=131 d=40 softcap=20 bias=bh",
    "fwd fp16 lse b=1 h=2 sq=100 sk=200 d=256 mask=causal scale=60 dropout=0.2",
    "fwd fp16 lse b=2 h=2 sq=30 sk=300 d=64 lengths splits=3",
    "fwd fp16 b=1 h=2 sq=70 sk=200 d=40 dv=33 bits bias=bh dropout=0.2 dropout_mask",
    "fwd fp32 lse b=1 h=2 sq=70 sk=100 d=59 sink mask=causal",
    "fwd bf16 b=1 h=1 sq=70 sk=100 d=512",
    "fwd fp8 lse b=1 hq=4 hk=2 sq=20 sk=300 d=128",
    # Tables of exact length: -1 after the last page, and NaN in rows that no sequence has.
    "fwd bf16 lse b=5 hq=8 hk=1 sq=3 sk=300 d=64 paged=7 lengths mask=causal",
    "fwd bf16 lse b=4 hq=6 hk=2 sq=20 sk=300 d=128 paged=16 table=sglang mask=window:100,0,sink=4",
    "fwd bf16 lse b=4 hq=8 hk=2 sq=40 tq=90 sk=300 d=128 varlen lengths paged=16 kv=fp8 descale=head mask=causal",
    "fwd bf16 lse b=3 hq=4 hk=2 sq=2 sk=200 snew=2 d=64 lengths paged=16 rope=half rotary=32 mask=causal",
    "bwd bf16 b=2 hq=4 hk=2 sq=130 sk=200 d=64 mask=causal",
    "bwd bf16 b=1 h=2 sq=129 sk=193 d=128",
    "bwd fp16 b=1 h=2 s=200 d=128 mask=window:60,3 deterministic",
    "bwd bf16 b=3 hq=4 hk=2 s=150 d=96 varlen lengths mask=causal sink",
    "bwd bf16 b=2 h=1 sq=3000 tq=3001 sk=8 d=64 varlen",
    "bwd bf16 b=1 h=2 sq=70 sk=131 d=256 softcap=20",
    "bwd bf16 b=1 h=2 s=130 d=192 dv=128 mask=causal deterministic",
    "bwd bf16 b=2 h=2 sq=70 sk=131 d=40 bias=1h dbias dropout=0.2 deterministic",
    "bwd fp16 b=1 h=2 sq=70 sk=200 d=40 dv=33 bits bias=bh dbias softcap=20",
    "bwd fp32 b=1 h=2 sq=70 sk=100 d=59 sink mask=causal",
    "bwd bf16 b=1 h=1 sq=70 sk=100 d=512",
)
FOUND = 99  # exit code if the sanitizer finds something
# Hopper's backward copies with cp.async.bulk without a tensor map: LSE and D into shared memory, dQ out of it. Older
# versions do not see that a barrier waits for the bytes of such a load, and regard memory that such a store wrote as
# uninitialized (release notes of 2026.3, 2025.4 and 2026.1).
SINCE = {("racecheck", "sm90_backward"): (2026, 3), ("initcheck", "sm90_backward"): (2026, 1)}


def is_too_old(tool, family):
    return sanitizers()[sanitizer()] < SINCE.get((tool, family), ())


def check(tool, family, problem):
    if is_too_old(tool, family):
        return None
    where = (f"--target={targets()[0]}", f"--family={family}", "--repeat=0")
    if regard("run", problem, *where).stderr.startswith(REFUSAL):
        return None
    return run(sanitizer(), "--tool", tool, "--error-exitcode", str(FOUND), COMMAND, "run", problem, *where)


if KIND != "cuda":
    pytest.skip("compute-sanitizer is NVIDIA's", allow_module_level=True)
if sanitizer() is None:
    pytest.skip("compute-sanitizer is not installed", allow_module_level=True)
ROWS = [(tool, family, problem) for tool in TOOLS for problem in PROBLEMS for family in families_of(problem)]
crowd = Crowd(check)


@pytest.mark.parametrize(("tool", "family", "problem"), ROWS)
def test_clean(tool, family, problem):
    if is_too_old(tool, family):
        since = ".".join(map(str, SINCE[tool, family]))
        pytest.skip(f"{tool} before {since} is wrong about cp.async.bulk; pip install nvidia-cuda-sanitizer-api has it")
    done = crowd.result(tool, family, problem)
    if done is None:
        pytest.skip("refused by this family")
    assert done.returncode == 0, done.stdout[:3000] + done.stdout[-500:] + done.stderr[-1000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout or "0 hazards" in done.stdout, done.stdout[-1000:]
