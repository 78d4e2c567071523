"""Sizes by which FlashAttention's reviewers judge a change to its kernels, as packed sequences, checked by the oracle.

Those of its KV cache tests will come with the kernels for one.
"""

import numpy
import pytest

import regard

HEADS = 4
# Name of the test there: lengths of the queries, of the keys, d, words of the problem, options
CASES = {
    "varlen_causal[128-217-64]": ([128, 1, 77], [217, 130, 0], 64, "mask=causal", {"causal": True}),
    "varlen_qkvpacked[0.17-1025-128]": ([1025, 3], [1025, 3], 128, "dropout=0.17", {"dropout": 0.17}),
    "deterministic[128-217]": ([128], [217], 59, "mask=causal", {"causal": True}),
    "race_condition[0.0-128-128-64]": ([128] * 6, [128] * 6, 64, "", {}),
}


def offsets(lengths):
    return numpy.cumsum([0, *lengths]).astype("int32")


@pytest.mark.parametrize("name", CASES)
def test_forward_and_backward_are_right_on_every_run(name, random):
    queries, keys, d, words, options = CASES[name]
    rows = sum(queries), sum(keys)
    of_q, of_k = (random.standard_normal((count, 3, HEADS, d)).astype("float16") for count in rows)
    q, k, v = (of_k if queries == keys else of_q)[:, 0], of_k[:, 1], of_k[:, 2]  # views of one array where possible
    grad_o = random.standard_normal(q.shape).astype("float16")
    packed_as = {"offsets_q": offsets(queries), "offsets_k": offsets(keys)}
    options = {**options, **packed_as, "seed": 3}
    shape = f"fp16 varlen b={len(queries)} h={HEADS} sq={max(queries)} sk={max(keys)} tq={rows[0]} tk={rows[1]} d={d}"

    def run():
        o, lse = regard.attention(q, k, v, lse=True, **options)
        return o, lse, *regard.attention_backward(grad_o, q, k, v, o, lse, deterministic=True, **options)

    first = run()
    for _ in range(5):
        assert all((one == other).all() for one, other in zip(first, run()))
    o, lse, *gradients = first
    inputs = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "seed": 3, **packed_as}
    assert regard.check(f"fwd {shape} {words} lse", **inputs)["ok"]
    named = dict(zip(("grad_q", "grad_k", "grad_v"), gradients))
    assert regard.check(f"bwd {shape} {words} deterministic", **inputs, grad_o=grad_o, **named)["ok"]
