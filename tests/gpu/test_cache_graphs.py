"""A captured CUDA graph of a step on a KV cache, replayed with other tokens, lengths, page tables and slots."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
import regard  # noqa: E402
import regard.torch  # noqa: E402
from here import FAMILIES  # noqa: E402
from planned import captured, draw, same, solved  # noqa: E402

B, HQ, HK, D, PAGE, BLOCKS, NEW = 6, 8, 2, 128, 16, 128, 2
ROWS = PAGE * BLOCKS
DEVICE = "cuda"


class Inputs:
    """What a step reads and writes, always in the same memory. lengths: before the new tokens; after: with them."""

    def __init__(self):
        self.q, self.k_new, self.v_new = (draw(B, NEW, heads, D, device=DEVICE) for heads in (HQ, HK, HK))
        self.k, self.v = (draw(B * BLOCKS + 3, PAGE, HK, D, device=DEVICE, seed=seed) for seed in (1, 2))
        self.cos, self.sin = (draw(ROWS, D // 2, dtype=torch.float32, device=DEVICE, seed=seed) for seed in (3, 4))
        self.table = torch.zeros(B, BLOCKS, dtype=torch.int32, device=DEVICE)
        self.lengths, self.after = (torch.zeros(B, dtype=torch.int32, device=DEVICE) for _ in range(2))
        self.slots = torch.zeros(B * NEW, dtype=torch.int64, device=DEVICE)

    def draw(self, seed):
        """New values; a sequence without tokens, an empty one and a full one; NaN in every row that none has."""
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.randint(0, ROWS - NEW + 1, (B,), generator=generator)
        for place, length in enumerate((-1, 0, ROWS - NEW)):
            lengths[(seed + place) % B] = length
        after = torch.where(lengths < 0, lengths, lengths + NEW)
        pages = self.k.shape[0]
        table = torch.randperm(pages, generator=generator)[: B * BLOCKS].reshape(B, BLOCKS)
        rows = torch.arange(ROWS)
        slots = table.repeat_interleave(PAGE, 1) * PAGE + rows % PAGE  # of each row of each sequence
        unused = torch.ones(pages * PAGE, dtype=torch.bool)
        unused[slots[rows < lengths[:, None]]] = False
        for seeds, cache in enumerate((self.k, self.v)):
            cache.copy_(draw(*cache.shape, device=DEVICE, seed=10 * seed + seeds))
            cache.view(pages * PAGE, HK, D)[unused.to(DEVICE)] = float("nan")
        for seeds, x in enumerate((self.q, self.k_new, self.v_new)):
            x.copy_(draw(*x.shape, device=DEVICE, seed=10 * seed + 5 + seeds))
        first = lengths.clamp(min=0)[:, None] + torch.arange(NEW)
        self.slots.copy_(torch.where(lengths[:, None] < 0, -1, slots.gather(1, first)).flatten())
        used = torch.arange(BLOCKS) * PAGE < after[:, None]
        self.table.copy_(torch.where(used, table, -1))
        self.lengths.copy_(lengths)
        self.after.copy_(after)


def decode(given, **options):
    return regard.torch.attention(
        *(given.q, given.k, given.v), page_table=given.table, lengths_k=given.lengths, causal=True, lse=True, **options
    )


def append_first(given, **options):
    new = {"k_new": given.k_new, "v_new": given.v_new, "rope": "half", "rope_cos": given.cos, "rope_sin": given.sin}
    return decode(given, **new, **options)


def append_at_slots(given, **options):
    new = given.k_new.flatten(0, 1), given.v_new.flatten(0, 1)
    regard.torch.append(given.k, given.v, *new, slots=given.slots, paged=PAGE)
    return regard.torch.attention(
        *(given.q, given.k, given.v), page_table=given.table, lengths_k=given.after, causal=True, lse=True, **options
    )


def rotated(x, positions, given):
    """The rows of a sequence [s, h, d], each of whose halves has the first or the second number of the pairs."""
    cos, sin = (table[positions].double()[:, None] for table in (given.cos, given.sin))
    a, b = x.double().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


def expected(given, step):
    """O, LSE, and both caches after the step, in fp64 and one sequence after the other."""
    caches, results = [given.k.double(), given.v.double()], []
    for sequence, (length, after) in enumerate(zip(given.lengths.tolist(), given.after.tolist())):
        q, new = given.q[sequence].double(), [given.k_new[sequence].double(), given.v_new[sequence].double()]
        rows = torch.arange(max(0, length if step is decode else after), device=DEVICE)
        at = given.table[sequence, rows // PAGE].long(), rows % PAGE
        if step is append_first and length >= 0:
            q, new[0] = (rotated(x, rows[length:], given) for x in (q, new[0]))
        for cache, tokens in zip(caches, new):
            if step is not decode and length >= 0:
                cache[at[0][length:], at[1][length:]] = tokens
        k, v = (cache[at].repeat_interleave(HQ // HK, 1) for cache in caches)
        scores = torch.einsum("qhd,khd->hqk", q, k) / D**0.5
        diagonal = torch.arange(NEW, device=DEVICE)[:, None] + len(rows) - NEW
        scores = scores.masked_fill(rows > diagonal, -torch.inf)
        p = torch.softmax(scores, -1).nan_to_num(0)
        results.append((torch.einsum("hqk,khd->qhd", p, v), torch.logsumexp(scores, -1)))
    o, lse = (torch.stack(some) for some in zip(*results))
    return o, lse, *caches


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("step", [decode, append_first, append_at_slots])
def test_20_replays(step, family):
    given = Inputs()
    given.draw(0)
    options = {"family": family}
    solved(lambda: step(given, **options))
    replay, results = captured(lambda: step(given, **options))
    for seed in range(1, 21):
        given.draw(seed)
        right = expected(given, step)
        before = given.k.clone(), given.v.clone()
        eager = [x.clone() for x in (*step(given, **options), given.k, given.v)]
        for cache, old in zip((given.k, given.v), before):
            cache.copy_(old)
        for x in results:
            x.fill_(float("nan"))
        replay()
        for name, found, other in zip(("o", "lse", "k", "v"), (*results, given.k, given.v), eager):
            assert same(found, other), f"{name} of replay {seed} differs from that of a call"
        for found, exact in zip(eager, right):
            torch.testing.assert_close(found.double(), exact, rtol=0.02, atol=0.02, equal_nan=True)
