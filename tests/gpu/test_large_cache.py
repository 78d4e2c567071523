"""KV caches with more than 2^31 elements, and with pages whose number times their stride is above 2^32: the results are
those of a small cache with the same rows."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
import regard  # noqa: E402
import regard.torch  # noqa: E402
from here import FAMILIES  # noqa: E402
from planned import draw, solved  # noqa: E402

B, HQ, HK, D, PAGE, BLOCKS, NEW = 3, 8, 2, 128, 16, 40, 3
PAGES = 600_000  # of K and V side by side, 8192 numbers each
DENSE_ROWS = 1 << 22
DEVICE = "cuda"
# Lengths of which one ends within a page and one at the end of the table.
LENGTHS = (BLOCKS * PAGE - NEW, 301, 0)
TYPES = {"bf16": torch.bfloat16, "int8": torch.int8, "fp8": torch.float8_e4m3fn}


def memory(*shape, dtype):
    """Without values, as filling it would take longer than the test."""
    try:
        return torch.empty(*shape, dtype=dtype, device=DEVICE)
    except torch.OutOfMemoryError:
        pytest.skip("this GPU has not enough free memory")


def numbers(*shape, dtype, seed):
    x = draw(*shape, dtype=torch.float32, device=DEVICE, seed=seed)
    return (30 * x).to(dtype) if dtype == torch.int8 else x.to(dtype)


def close(found, right):
    torch.testing.assert_close(found.float(), right.float(), rtol=0.01, atol=0.01)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sq", [1, 40])
@pytest.mark.parametrize("kind", TYPES)
def test_pages(kind, sq, family):
    dtype = TYPES[kind]
    both = memory(PAGES, 2, PAGE, HK, D, dtype=dtype)
    # The last pages; some around number 2^16, and around 2^31 and 2^32 elements.
    around = [edge + step for edge in (1 << 16, 1 << 18, 1 << 19) for step in range(-20, 20) if edge + step < PAGES]
    used = torch.tensor([*range(PAGES - B * BLOCKS + len(around), PAGES), *around], device=DEVICE)
    order = used[torch.randperm(B * BLOCKS, generator=torch.Generator().manual_seed(1)).to(DEVICE)]
    small = [numbers(B * BLOCKS, PAGE, HK, D, dtype=dtype, seed=seed) for seed in (1, 2)]
    for side, values in enumerate(small):
        both[order, side] = values
    words = {"lengths_k": torch.tensor(LENGTHS, dtype=torch.int32, device=DEVICE), "causal": True, "family": family}
    if kind != "bf16":
        words |= {
            f"descale_{name}": torch.full((1,), factor, device=DEVICE) for name, factor in (("k", 0.03), ("v", 0.02))
        }
    q = draw(B, sq, HQ, D, device=DEVICE)
    new = {"k_new": draw(B, NEW, HK, D, device=DEVICE, seed=3), "v_new": draw(B, NEW, HK, D, device=DEVICE, seed=4)}
    tables = [x.to(torch.int32).reshape(B, BLOCKS) for x in (order, torch.arange(B * BLOCKS, device=DEVICE))]

    def call(k, v, table):
        return solved(lambda: regard.torch.attention(q, k, v, page_table=table, lse=True, **new, **words))

    found = call(both[:, 0], both[:, 1], tables[0])
    for one, other in zip(found, call(*small, tables[1])):
        close(one, other)
    for side, values in enumerate(small):
        assert torch.equal(both[order, side].view(torch.uint8), values.view(torch.uint8))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_dense_cache(family):
    k, v = (memory(3, DENSE_ROWS, HK, D, dtype=torch.bfloat16) for _ in range(2))
    rows = 3000
    for seed, cache in enumerate((k, v)):
        cache[2, :rows] = draw(rows, HK, D, device=DEVICE, seed=seed)
    q = draw(1, 1, HQ, D, device=DEVICE)
    words = {"lengths_k": torch.tensor([rows], dtype=torch.int32, device=DEVICE), "lse": True, "family": family}
    index = torch.tensor([2], dtype=torch.int32, device=DEVICE)
    found = solved(lambda: regard.torch.attention(q, k, v, cache_index=index, cache=3, **words))
    small = [x[2:, :rows].clone() for x in (k, v)]
    for one, other in zip(found, regard.torch.attention(q, *small, **words)):
        close(one, other)
