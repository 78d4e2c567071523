"""A GPU drops the same weights as a CPU, bit for bit; with PyTorch."""

from __future__ import annotations

import numpy
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
import regard  # noqa: E402
from here import BACKWARD_FAMILIES, KIND  # noqa: E402

B, HQ, HK, SQ = 3, 6, 2, 300
# Seed and offset: all 64 bits of both matter.
DRAWS = [(0, 0), (11, 3 * 2**32), (2**63 + 1, 2**32 + 7), (2**64 - 1, 2**64 - 1)]


def inputs(d, rows_q=(B, SQ), rows_k=None, hq=HQ, hk=HK):
    """Inputs with equal weights in a row and one column of O per key: where it is 0 the weight was dropped."""
    rows_k = rows_k or (B, d)
    q, k = torch.zeros(*rows_q, hq, d), torch.zeros(*rows_k, hk, d)
    v = torch.eye(d).repeat(rows_k[-1] // d, 1)[:, None].expand(*rows_k, hk, d)
    return [x.to(torch.bfloat16).contiguous() for x in (q, k, v)]


def on_gpu(value):
    return value.cuda() if isinstance(value, torch.Tensor) else value


def both(given, **options):
    """O and the mask from the GPU, and the CPU's mask."""
    options |= {"dropout": 0.3, "dropout_mask": True}
    of_gpu = {name: on_gpu(value) for name, value in options.items()}
    o, kept = regard.attention(*map(on_gpu, given), target=KIND, **of_gpu)
    return o.cpu(), kept.cpu(), regard.attention(*given, **options)[1]


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize(("seed", "offset"), DRAWS)
def test_masks_are_the_cpus(seed, offset, d):
    in_memory = torch.from_numpy(numpy.array([seed, offset], "uint64").view("int64"))
    for options in ({"seed": seed, "offset": offset}, {"seed": in_memory}):
        o, kept, expected = both(inputs(d), **options)
        assert torch.equal(kept, expected)
        assert torch.equal(o.transpose(1, 2) != 0, expected.bool())


def test_a_head_has_its_mask_however_many_there_are():
    _, kept, _ = both(inputs(64), seed=5, offset=2**32)
    for b, hq, hk in ((1, 1, 1), (2, 3, 1), (3, 4, 4)):
        _, fewer, _ = both(inputs(64, (b, SQ), (b, 64), hq, hk), seed=5, offset=2**32)
        assert torch.equal(fewer, kept[:b, :hq])


def test_packed_sequences_have_the_masks_of_dense_ones():
    rows, d = [33, 0, SQ, 5], 64
    offsets = [torch.tensor([0, *torch.tensor(x).cumsum(0)], dtype=torch.int32) for x in (rows, [d] * len(rows))]
    given = inputs(d, (sum(rows),), (d * len(rows),))
    o, kept, expected = both(given, seed=7, offset=8, offsets_q=offsets[0], offsets_k=offsets[1], sq=SQ, sk=d)
    assert torch.equal(kept, expected)
    assert torch.equal(o.transpose(0, 1) != 0, expected.bool())
    _, dense, _ = both(inputs(d, (len(rows), SQ), (len(rows), d)), seed=7, offset=8)
    for i, count in enumerate(rows):
        assert torch.equal(kept[:, offsets[0][i] : offsets[0][i] + count], dense[i, :, :count])


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("family", BACKWARD_FAMILIES)
@pytest.mark.parametrize(("seed", "offset"), DRAWS)
def test_backward_drops_what_forward_drops(seed, offset, family, d):
    """Each row of dO has its own column: dV of a key is 0 in it if the row dropped the key."""
    q, k, v = (x.cuda() for x in inputs(d, (B, d), (B, 256), HQ, HQ))
    grad_o = torch.eye(d, device="cuda", dtype=torch.bfloat16)[None, :, None].expand(B, d, HQ, d).contiguous()
    in_memory = torch.from_numpy(numpy.array([seed, offset], "uint64").view("int64")).cuda()
    for drawn in ({"seed": seed, "offset": offset}, {"seed": in_memory}):
        options = {"dropout": 0.3, "target": KIND, **drawn}
        o, lse, kept = regard.attention(q, k, v, lse=True, dropout_mask=True, **options)
        try:
            _, _, grad_v = regard.attention_backward(grad_o, q, k, v, o, lse, family=family, **options)
        except regard.RefusedError as refusal:
            pytest.skip(str(refusal)[-300:])
        assert torch.equal(grad_v.permute(0, 2, 3, 1) != 0, kept.bool())
