"""Forward on KV caches against the fp64 oracle, by each family that reads them."""

import itertools

import pytest

from here import Crowd, check_outputs, problem_rows, run_with_oracle

PAGES = (1, 2, 3, 7, 8, 16, 48, 64, 128, 480, 1024)
WORDS = (
    "b=5 hq=3 hk=1 sq=1 sk=700 lengths",
    "b=5 hq=8 hk=1 sq=3 sk=700 lengths mask=causal",
    "b=4 hq=6 hk=2 sq=20 sk=700 table=sglang mask=window:100,0,sink=4",
    "b=6 hq=8 hk=2 sq=200 tq=500 sk=700 varlen lengths mask=causal sink",
    "b=6 hq=32 hk=1 sq=60 tq=130 sk=700 varlen lengths left_padding softcap=20",
)
TYPES = (
    "kv=fp8 descale=tensor",
    "kv=fp8_e5m2 descale=head",
    "kv=int8 descale=token",
    "kv=int8 descale=page",
)
DENSE = (
    "b=5 hq=4 hk=2 sq=3 sk=700 cache=7 lengths mask=causal",
    "b=4 hq=3 hk=1 sq=1 sk=700 cache=3 left_padding",
    "b=6 hq=8 hk=2 sq=200 tq=500 sk=700 cache=9 varlen lengths mask=causal",
)


def problems():
    found = [f"fwd bf16 lse d=128 paged={page} {words}" for page, words in itertools.product(PAGES, WORDS)]
    found += [f"fwd bf16 lse d={d} paged={page} {WORDS[1]}" for d in (64, 80, 256) for page in (1, 16, 48)]
    found += [f"fwd {dtype} lse d=128 paged=16 {words}" for dtype in ("fp16", "fp32") for words in WORDS]
    found += [f"fwd bf16 lse d=128 {words}" for words in DENSE]
    found += [f"fwd bf16 lse d=128 paged=16 kv_layout=vectorized {WORDS[1]}"]
    for kind, dtype, page in itertools.product(TYPES, ("bf16", "fp16"), (1, 16)):
        found += [f"fwd {dtype} lse d=128 paged={page} {kind} {words}" for words in WORDS]
    return found


ROWS = problem_rows(problems())
crowd = Crowd(run_with_oracle)


@pytest.mark.parametrize(("target", "family", "problem"), ROWS)
def test_cache(target, family, problem, record_property):
    check_outputs(crowd.result(target, family, problem), family, record_property)
