"""regard run against the fp64 oracle, by each family that solves the problem."""

import pytest

from here import Crowd, check_outputs, problem_rows, run_with_oracle

DIMS = ("d=64", "d=128", "d=256", "d=192 dv=128", "d=96", "d=40", "d=72 dv=111", "d=8")
REST = (
    "b=2 hq=4 hk=2 s=300",
    "b=2 hq=4 hk=2 sq=513 sk=77 mask=causal",
    "b=1 hq=4 hk=1 sq=1 sk=1000 mask=causal",
    "b=2 hq=4 hk=2 sq=128 sk=1024 mask=causal_top_left",
    "b=2 h=2 s=400 row_max mask=window:30,3",
    "b=2 h=2 s=400 mask=window:100,-1",
    "b=1 h=2 s=400 mask=window:40,0,sink=5 softcap=20",
    "b=1 h=2 s=400 row_max softcap=3 scale=1",
    "b=2 h=2 sq=200 sk=0",
    "b=2 hq=4 hk=2 sq=0 sk=64",
    "b=8 hq=8 hk=2 sq=1 sk=8000 lengths",
    "b=3 hq=4 hk=2 s=200 varlen mask=causal",
    "b=3 hq=4 hk=2 sq=100 sk=200 lengths mask=causal sink",
    "b=3 hq=4 hk=2 s=200 varlen lengths bias=alibi",
    "b=2 h=2 s=200 bias=bh",
    "b=2 h=2 sq=100 sk=200 bias=bh softcap=3 scale=1",
    "b=2 h=2 sq=100 sk=200 bias=1h bias_type=fp32 mask=causal",
    "b=2 h=2 sq=100 sk=201 bias=bh bias_type=fp32 dropout=0.2 softcap=3 scale=1",
    "b=3 hq=4 hk=2 s=200 varlen lengths bias=alibi_b softcap=20 mask=causal",
    "b=2 h=2 s=200 dropout=0.2 mask=causal",
    "b=2 h=2 s=200 dropout=0.2 bias=bh mask=window:60,2",
    "b=2 h=2 s=200 bits ranges",
    "b=2 hq=4 hk=2 s=300 keep=doc[b,q]==doc[b,kv]&&kv<=p tensors=doc:int32[2]",
    "b=2 h=2 sq=200 sk=300 keep=abs(q//16-kv//16)<3&&abs(q%16-kv%16)<3",
    "b=3 hq=4 hk=2 s=200 varlen lengths keep=m[b,h,q//16,kv//16]||q==kv tensors=m:bool[4]",
    "b=2 hq=4 hk=2 sq=300 sk=333 keep=kv<=p||kv<past[b] tensors=past:int32[1]",
    "b=3 hq=4 hk=2 s=200 varlen lengths keep=kv<=p&&p-kv<w[q] tensors=w:int32[1]",
    "b=2 hq=8 hk=2 sq=3 sk=900 splits=3",
    "b=2 h=2 sq=200 sk=1500 row_max splits=4 mask=causal",
    "b=3 hq=8 hk=2 sq=20 sk=2000 splits=5 lengths sink mask=causal",
    "b=3 hq=4 hk=2 sq=40 sk=900 splits=3 varlen softcap=20 mask=window:200,3,sink=5",
    "b=1 hq=8 hk=1 sq=16 sk=6000",
    "b=2 h=3 s=300 layout=bhsd scale=-0.2",
)


# Rows or keys left over after whole tiles of 128.
TAILS = (1, 63, 64, 65, 127)
# Backward problems in addition to the forward problems that backward supports.
BACKWARD = (
    "b=2 h=2 sq=200 sk=300 bias=11 dbias",
    "b=2 h=2 sq=200 sk=300 bias=1h dbias mask=causal",
    "b=2 h=2 s=200 bias=b1 dbias deterministic",
    "b=2 h=2 sq=200 sk=301 bias=11 bias_type=fp32 dbias",
    "b=2 h=2 sq=200 sk=301 bias=bh bias_type=fp32 dbias mask=causal",
    "b=2 h=2 s=200 bias=bh dbias dropout=0.2 softcap=3 scale=1",
    "b=2 hq=8 hk=2 s=300 mask=causal sink deterministic",
    "b=2 hq=4 hk=2 s=400 mask=window:100,20,sink=5 deterministic",
    "b=3 hq=4 hk=2 s=200 varlen lengths mask=causal deterministic",
    "b=1 hq=64 hk=1 s=150 mask=causal",
    "b=1 hq=3 hk=1 sq=300 sk=5000",
    "b=1 hq=2 hk=1 sq=5000 sk=70 mask=causal_top_left",
)


def backward_problems():
    """Forward's problems without splits, and gradients; every head dimension with whole tiles and with every tail."""
    rest = [words.replace(" row_max", "") for words in REST if "splits" not in words] + list(BACKWARD)
    tails = [f"b=1 h=2 sq={256 + tail} sk={128 + other}" for tail, other in zip(TAILS, reversed(TAILS))]
    found = [f"bwd bf16 {dims} {words}" for dims in DIMS for words in rest + tails]
    found += [f"bwd fp16 d=128 {words}" for words in rest + tails] + [f"bwd fp32 d=64 {words}" for words in rest]
    found += [f"bwd {dtype} d=512 b=1 h=2 sq=150 sk=200 mask=causal" for dtype in ("bf16", "fp32")]
    # A few heads with many tiles, and more blocks than multiprocessors.
    found += [f"bwd bf16 d={d} b=1 h=2 s=2048 mask=causal" for d in (64, 128, 256)]
    found += [f"bwd bf16 d={d} b=9 hq=32 hk=8 s=300 mask=causal" for d in (64, 128, 256)]
    return found


def problems():
    found = [f"fwd bf16 lse {dims} {rest}" for dims in DIMS for rest in REST]
    found += [f"fwd fp16 lse d=128 {rest}" for rest in REST]
    found += [f"fwd fp32 lse d=64 {rest}" for rest in REST]
    found += [f"fwd bf16 lse d={d} b=1 h=2 s=2048 mask=causal" for d in (64, 128, 256)]
    # More blocks than multiprocessors, in clusters, under a window that hides nothing.
    found += ["fwd bf16 lse d=256 b=1 h=34 sq=500 sk=1100 mask=window:1100,-1"]
    # Batch heads in small groups and in a large one, also with grouped heads.
    found += ["fwd bf16 lse d=256 b=9 h=20 s=500 mask=causal", "fwd bf16 lse d=128 b=9 hq=32 hk=8 s=500 mask=causal"]
    return found + backward_problems()


ROWS = problem_rows(problems())
crowd = Crowd(run_with_oracle)


@pytest.mark.parametrize(("target", "family", "problem"), ROWS)
def test_problem(target, family, problem, record_property):
    check_outputs(crowd.result(target, family, problem), family, record_property)
