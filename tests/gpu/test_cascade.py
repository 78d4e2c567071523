"""cascade_attention on a GPU: next to one call on all pages of each sequence, and replayed with other lengths."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
import regard.torch  # noqa: E402
from here import FAMILIES  # noqa: E402
from planned import captured, draw, same, solved  # noqa: E402

B, HQ, HK, D, PAGE, PREFIX, OWN = 6, 8, 2, 128, 16, 20, 12
DEVICE = "cuda"


def ints(values):
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


@pytest.mark.parametrize("sq", [1, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_replays(family, sq):
    pages = PREFIX + B * OWN
    order = torch.randperm(pages, generator=torch.Generator().manual_seed(1)).to(torch.int32).to(DEVICE)
    prefix, table = order[:PREFIX].contiguous(), order[PREFIX:].reshape(B, OWN).contiguous()
    q, k, v = draw(B, sq, HQ, D), draw(pages, PAGE, HK, D, seed=1), draw(pages, PAGE, HK, D, seed=2)
    lengths, length = ints([7] * B), ints([PAGE])
    options = {"causal": True, "lse": True, "family": family}

    def step():
        words = {"page_table": table, "lengths_k": lengths, "prefix_table": prefix, "prefix_length": length}
        return regard.torch.cascade_attention(q, k, v, **words, **options)

    solved(step)
    replay, results = captured(step)
    for seed, count in enumerate((0, PREFIX, 1, 7)):
        q.copy_(draw(B, sq, HQ, D, seed=seed))
        most = PAGE * OWN
        lengths.copy_(ints([sq, sq + 1, most, most // 2 + seed, 3 * PAGE, 100]))
        length.fill_(count * PAGE)
        for x in results:
            x.fill_(float("nan"))
        replay()
        assert all(same(one, other) for one, other in zip(results, step()))
        whole = torch.cat((prefix[:count].expand(B, -1), table), 1).contiguous()
        words = {"page_table": whole, "lengths_k": lengths + count * PAGE}
        for one, other in zip(results, regard.torch.attention(q, k, v, **words, **options)):
            torch.testing.assert_close(one.float(), other.float(), rtol=0.02, atol=0.02)
