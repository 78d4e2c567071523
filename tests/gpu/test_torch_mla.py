"""Latent attention by the names of FlashMLA, FlashInfer and AITER on a GPU: results equal those of fp64, and captured
graphs are replayed with other lengths; FlashMLA's and FlashInfer's own results, where they are installed."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "python")]
import regard.flash_mla as flash_mla  # noqa: E402
import regard.flashinfer as flashinfer  # noqa: E402
from cached import numbers  # noqa: E402
from latent_cases import LatentPages, close, starts  # noqa: E402
from planned import captured  # noqa: E402
from regard.aiter import mla  # noqa: E402

D, DV, SCALE = 576, 512, 192**-0.5
LENGTHS, COUNTS = [70, 0, 64, 1000, 3, 129], [1, 2, 4, 0, 3, 2]
WORKSPACE = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
TYPES = (torch.bfloat16, torch.float16)


def latent(lengths, page, dtype=torch.bfloat16, **options):
    pages = LatentPages(lengths, page, D, DV, **options)
    pages.k = pages.k.to(dtype)
    return pages


def queries(rows, heads, dtype=torch.bfloat16, seed=7):
    return numbers(seed, rows, heads, D).to(dtype)


def memory(*sizes):
    return [torch.zeros(n, dtype=torch.int32, device="cuda") for n in sizes]


def planned(module, pages, counts, heads, wrapper=None, dtype=torch.bfloat16):
    found = module.BatchMLAPagedAttentionWrapper(WORKSPACE) if wrapper is None else wrapper
    lists = [x.cuda() for x in (starts(counts), pages.indptr, pages.indices, pages.lengths)]
    found.plan(*lists, heads, DV, D - DV, pages.page, True, SCALE, dtype, dtype)
    return found


def parts(rows):
    return rows[..., :DV], rows[..., DV:]


def run(wrapper, q, cache):
    return wrapper.run(*parts(q), *parts(cache[:, :, 0]), return_lse=True)


def fill(memory, values):
    memory[: len(values)] = values.cuda()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("heads", [1, 16, 128])
@pytest.mark.parametrize("page", [1, 16, 64])
def test_flashinfer(page, heads, dtype):
    pages, q = latent(LENGTHS, page, dtype), queries(sum(COUNTS), heads, dtype)
    out, lse = run(planned(flashinfer, pages, COUNTS, heads, dtype=dtype), q.cuda(), pages.k.cuda())
    right, of_right = pages.expected(q, COUNTS, causal=True, scale=SCALE)
    close(out.cpu(), right, 3e-2)
    close(lse.cpu() * math.log(2), of_right, 2e-2)


@pytest.mark.parametrize("heads", [16, 128])
@pytest.mark.parametrize("page", [1, 64])
def test_aiter(page, heads):
    pages, q = latent(LENGTHS, page), queries(sum(COUNTS), heads)
    o = torch.empty(sum(COUNTS), heads, DV, dtype=torch.bfloat16, device="cuda")
    lists = [x.cuda() for x in (starts(COUNTS), pages.indptr, pages.indices, pages.last_page_len)]
    _, lse = mla.mla_decode_fwd(q.cuda(), pages.k.cuda(), o, *lists, 4, page, sm_scale=SCALE, return_lse=True)
    right, of_right = pages.expected(q, COUNTS, causal=True, scale=SCALE)
    close(o.cpu(), right, 3e-2)
    close(lse.cpu(), of_right, 2e-2)


@pytest.mark.parametrize(("heads", "count"), [(1, 2), (64, 1), (128, 4)])
@pytest.mark.parametrize("page", [7, 64])
def test_flash_mla(page, heads, count):
    pages, q = latent(LENGTHS, page, beyond=2147480000), queries(len(LENGTHS) * count, heads)
    tensors = [x.cuda() for x in (q.unflatten(0, (-1, count)), pages.k, pages.table, pages.lengths)]
    given = DV, *flash_mla.get_mla_metadata()
    out, lse = flash_mla.flash_mla_with_kvcache(*tensors, *given, softmax_scale=SCALE, causal=True)
    right, of_right = pages.expected(q, [count] * len(LENGTHS), causal=True, scale=SCALE)
    close(out.cpu().flatten(0, 1), right, 3e-2)
    of_right = of_right.masked_fill(of_right == -math.inf, math.inf)
    close(lse.cpu().transpose(1, 2).flatten(0, 1), of_right, 2e-2)


CHANGES = [[5, 40, 0, 7], [1000, 17, 300, 5], [0, 0, 1, 64], [65, 2000, 1, 90]]


@pytest.mark.parametrize("front", ["flashinfer", "aiter", "flash_mla"])
def test_graphs_are_replayed_with_other_lengths(front):
    heads, page = 16, 16
    q = torch.empty(4, heads, D, dtype=torch.bfloat16, device="cuda")
    cache = torch.zeros(200, page, 1, D, dtype=torch.bfloat16, device="cuda")
    buffers = memory(5, 5, 200, 4)
    indptr_q, indptr, indices, last = buffers
    table, lengths = torch.zeros(4, 130, dtype=torch.int32, device="cuda"), memory(4)[0]
    wrapper = flashinfer.BatchMLAPagedAttentionWrapper(WORKSPACE, True, *buffers) if front == "flashinfer" else None
    o = torch.empty(4, heads, DV, dtype=torch.bfloat16, device="cuda")

    def call():
        if front == "flashinfer":
            return run(wrapper, q, cache)[0]
        if front == "aiter":
            return mla.mla_decode_fwd(q, cache, o, indptr_q, indptr, indices, last, 1, page, sm_scale=SCALE)[0]
        metadata = flash_mla.get_mla_metadata()
        return flash_mla.flash_mla_with_kvcache(q[:, None], cache, table, lengths, DV, *metadata, SCALE)[0][:, 0]

    for seed, now in enumerate(CHANGES):
        pages, rows = latent(now, page, seed=seed), queries(4, heads, seed=seed)
        q.copy_(rows)
        cache[: pages.k.shape[0]] = pages.k.cuda()
        if front == "flashinfer":
            planned(flashinfer, pages, [1] * 4, heads, wrapper)
        else:
            lists = starts([1] * 4), pages.indptr, pages.indices, pages.last_page_len, pages.lengths
            for one, values in zip((*buffers, lengths), lists):
                fill(one, values)
            table[:, : pages.table.shape[1]] = pages.table.cuda()
        if not seed:
            replay, out = captured(call)
        replay()
        close(out.cpu(), pages.expected(rows, [1] * 4, scale=SCALE)[0], 3e-2)


def test_against_flashinfer():
    theirs = pytest.importorskip("flashinfer")
    lengths = [max(length, 50) for length in LENGTHS]
    pages = latent(lengths, 64)
    q, cache = queries(sum(COUNTS), 16).cuda(), pages.k.nan_to_num(0.0).cuda()
    found = [run(planned(module, pages, COUNTS, 16), q, cache) for module in (flashinfer, theirs)]
    for ours, right in zip(*found):
        close(ours.cpu(), right.cpu(), 3e-2)


def test_against_flash_mla():
    theirs = pytest.importorskip("flash_mla")
    pages = latent(LENGTHS, 64, beyond=2147480000)
    q = queries(2 * len(LENGTHS), 128).unflatten(0, (-1, 2))
    tensors = [x.cuda() for x in (q, pages.k, pages.table, pages.lengths)]
    found = [
        module.flash_mla_with_kvcache(*tensors, DV, *module.get_mla_metadata(), softmax_scale=SCALE, causal=True)
        for module in (flash_mla, theirs)
    ]
    for ours, right in zip(*found):
        close(ours.cpu(), right.cpu(), 3e-2)
