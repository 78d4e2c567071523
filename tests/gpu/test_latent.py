"""Latent attention against the fp64 oracle: V is the first columns of K, whose last columns may be a tensor apart."""

import itertools

import pytest

from here import Crowd, check_outputs, problem_rows, run_with_oracle

HEADS, QUERIES, PAGES = (1, 16, 64, 128), (1, 2, 4), (1, 7, 16, 64, 128)
WIDE = "lse d=576 dv=512 latent"


def problems():
    found = [
        f"fwd bf16 {WIDE} b=9 hq={heads} hk=1 sq={queries} sk=700 paged=64 lengths mask=causal"
        for heads, queries in itertools.product(HEADS, QUERIES)
    ]
    for parts in ("", " k_rope"):
        found += [
            f"fwd bf16 {WIDE}{parts} b=9 hq=16 hk=1 sq=2 sk=700 paged={page} lengths mask=causal" for page in PAGES
        ]
        found += [
            f"fwd fp16 {WIDE}{parts} b=5 hq=8 hk=1 sq=200 tq=500 sk=700 varlen paged=16 table=sglang mask=causal sink",
            f"fwd bf16 {WIDE}{parts} b=4 hq=16 hk=1 sq=1 sk=9000 cache=5 lengths splits=8",
            f"fwd bf16 {WIDE}{parts} b=4 hq=16 hk=1 sq=1 sk=9000 paged=64 lengths batch_invariant",
            f"fwd bf16 {WIDE}{parts} b=2 hq=8 hk=1 sq=70 sk=300 mask=window:100,0,sink=4",
            f"fwd bf16 {WIDE}{parts} b=4 hq=16 hk=1 sq=2 sk=700 paged=64 kv=int8 descale=tensor lengths mask=causal",
            f"fwd bf16 {WIDE}{parts} b=4 hq=16 hk=1 sq=2 sk=700 paged=64 kv=fp8 descale=head lengths mask=causal",
            f"fwd bf16 {WIDE}{parts} b=4 hq=16 hk=1 sq=2 sk=700 paged=64 lengths snew=2 rope=half rotary=64",
            f"fwd bf16 lse d=96 dv=64 latent{parts} b=5 hq=8 hk=1 sq=3 sk=700 paged=16 lengths mask=causal",
            f"fwd fp16 lse d=41 dv=23 latent{parts} b=5 hq=8 hk=1 sq=3 sk=700 paged=7 lengths left_padding",
        ]
    return found


ROWS = problem_rows(problems())
crowd = Crowd(run_with_oracle)


@pytest.mark.parametrize(("target", "family", "problem"), ROWS)
def test_latent(target, family, problem, record_property):
    check_outputs(crowd.result(target, family, problem), family, record_property)
