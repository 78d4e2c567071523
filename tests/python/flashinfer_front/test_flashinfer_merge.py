"""Merged states, whose LSE has base 2."""

import math

import pytest

torch = pytest.importorskip("torch")
from flashinfer_cases import close  # noqa: E402

import regard.flashinfer as flashinfer  # noqa: E402
from cached import numbers  # noqa: E402

pytestmark = pytest.mark.no_compiler

TYPES = [torch.float32, torch.float16, torch.bfloat16]


def states(n, dtype=torch.float32):
    """v [tokens, n, heads, d] and s [tokens, n, heads]; of token 0 all are empty, of token 1 the first one is."""
    v, s = numbers(1, 5, n, 3, 8).to(dtype), 20 * numbers(2, 5, n, 3)
    s[0], s[1, 0] = -math.inf, -math.inf
    v[0], v[1, 0] = math.nan, math.nan
    return v, s


def expected(v, s):
    v, s = v.double(), s.double()
    lse = torch.logsumexp(s * math.log(2), 1)
    weights = (s * math.log(2) - lse[:, None]).exp().nan_to_num(0.0)[..., None]
    return torch.where(weights == 0, 0.0, weights * v).sum(1), lse / math.log(2)


def close_states(found, right, dtype):
    assert found[0].dtype == dtype and found[1].dtype == torch.float32
    close(found[0], right[0], 1e-5 if dtype == torch.float32 else 1e-2)
    close(found[1], right[1], 1e-5)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_many_states(n, dtype):
    v, s = states(n, dtype)
    close_states(flashinfer.merge_states(v, s), expected(v, s), dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_two_states(dtype):
    v, s = states(2, dtype)
    parts = v[:, 0], s[:, 0], v[:, 1], s[:, 1]
    before = [part.clone() for part in parts]
    close_states(flashinfer.merge_state(*parts), expected(v, s), dtype)
    for part, right in zip(parts, before):
        assert torch.equal(part.nan_to_num(7.0), right.nan_to_num(7.0))


@pytest.mark.parametrize("masked", [False, True])
def test_in_place(masked):
    v, s = states(2)
    mask = torch.tensor([True, True, False, True, False]) if masked else None
    merged, of_merged = expected(v, s)
    one, of_one = v[:, 0].contiguous(), s[:, 0].contiguous()
    before = one.clone(), of_one.clone()
    flashinfer.merge_state_in_place(one, of_one, v[:, 1], s[:, 1], mask)
    if mask is not None:
        assert torch.equal(one[~mask], before[0][~mask]) and torch.equal(of_one[~mask], before[1][~mask])
        merged[~mask], of_merged[~mask] = before[0][~mask].double(), before[1][~mask].double()
    close(one, merged, 1e-5)
    close(of_one, of_merged, 1e-5)
