"""regard.flashinfer on a GPU: its results equal those of the CPU, and captured graphs are replayed after other plans;
FlashInfer's own results, where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("python", "python/flashinfer_front")]
from flashinfer_cases import Pages, close  # noqa: E402

import regard.flashinfer as flashinfer  # noqa: E402
from cached import numbers  # noqa: E402
from planned import captured  # noqa: E402

HQ, HK, D, PAGE = 8, 2, 128, 16
LENGTHS, COUNTS = [70, 0, 16, 1000, 3, 129], [1, 2, 7, 0, 7, 40]
WORKSPACE = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
FORMS = ["tuple NHD", "one NHD", "tuple HND", "one HND", "interleaved NHD"]


def starts(counts):
    return torch.tensor([0, *counts]).cumsum(0).to(torch.int32)


def on_gpu(value):
    return tuple(x.cuda() for x in value) if isinstance(value, tuple) else value.cuda()


def cache_of(pages, form="tuple NHD", dtype=torch.bfloat16):
    """On the GPU, with the strides of the form."""
    if form.startswith("interleaved"):
        return torch.cat(on_gpu(tuple(pages.cache("tuple NHD", dtype))), dim=-1).split(D, dim=-1)
    return on_gpu(pages.cache(form, dtype))


def planned(module, pages, counts, form="tuple NHD", **options):
    """Decode without counts, else prefill."""
    types = {"q_data_type": torch.bfloat16}
    if counts is None:
        found = module.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, form[-3:])
        found.plan(*pages.lists, HQ, HK, D, PAGE, **types, **options)
    else:
        found = module.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, form[-3:])
        found.plan(starts(counts), *pages.lists, HQ, HK, D, PAGE, **types, **options)
    return found


def queries(counts, seed=7):
    return numbers(seed, len(LENGTHS) if counts is None else sum(counts), HQ, D).to(torch.bfloat16)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("counts", [None, COUNTS], ids=["decode", "prefill"])
@pytest.mark.parametrize("options", [{}, {"window_left": 33, "logits_soft_cap": 5.0, "sm_scale": 0.1}])
def test_against_fp64(form, counts, options):
    pages, q = Pages(LENGTHS, PAGE, HK, D), queries(counts)
    causal = {} if counts is None else {"causal": True}
    run = planned(flashinfer, pages, counts, form, **options, **causal)
    out, lse = run.run(q.cuda(), cache_of(pages, form), return_lse=True)
    names = {"window_left": "window", "logits_soft_cap": "softcap", "sm_scale": "scale"}
    masks = {
        names[name]: (value, 0 if causal else -1) if name == "window_left" else value for name, value in options.items()
    }
    right, of_right = pages.expected(q, counts or [1] * len(LENGTHS), **masks, **causal)
    close(out.cpu(), right, 3e-2)
    close(lse.cpu(), of_right, 2e-2)


def test_custom_masks():
    pages, q = Pages(LENGTHS, PAGE, HK, D), queries(COUNTS)
    chance = torch.Generator().manual_seed(3)
    masks = [torch.rand((n, length), generator=chance) < 0.6 for n, length in zip(COUNTS, LENGTHS)]
    flat = torch.cat([mask.flatten() for mask in masks]).cuda()
    out = planned(flashinfer, pages, COUNTS, custom_mask=flat).run(q.cuda(), cache_of(pages))
    close(out.cpu(), pages.expected(q, COUNTS, mask=masks)[0], 3e-2)


def test_appended_tokens():
    pages = Pages(LENGTHS, PAGE, HK, D)
    k, v, cache = numbers(1, sum(COUNTS) + 2, HK, D), numbers(2, sum(COUNTS) + 2, HK, D), pages.cache("one HND")
    counts = [min(pair) for pair in zip(COUNTS, LENGTHS)]
    results = []
    for device in ("cpu", "cuda"):
        indptr, indices, last = (x.to(device) for x in pages.lists)
        tokens = flashinfer.get_batch_indices_positions(
            starts(counts).to(device), flashinfer.get_seq_lens(indptr, last, PAGE), k.shape[0]
        )
        written = cache.to(device, copy=True)
        flashinfer.append_paged_kv_cache(k.to(device), v.to(device), *tokens, written, indices, indptr, last, "HND")
        results.append(written.cpu().nan_to_num(9.0))
    assert torch.equal(*results)


def test_merged_states():
    v, s = numbers(1, 50, 3, HQ, D), 20 * numbers(2, 50, 3, HQ)
    s[0], s[1, 0] = -torch.inf, -torch.inf
    for found, right in zip(flashinfer.merge_states(v.cuda(), s.cuda()), flashinfer.merge_states(v, s)):
        close(found.cpu(), right, 1e-5)
    parts = v[:, 0], s[:, 0], v[:, 1], s[:, 1]
    for found, right in zip(flashinfer.merge_state(*on_gpu(parts)), flashinfer.merge_state(*parts)):
        close(found.cpu(), right, 1e-5)


@pytest.mark.parametrize("counts", [None, [0, 18, 0, 0]], ids=["decode", "prefill"])
def test_graphs_are_replayed_after_other_plans(counts):
    def memory(n):
        return torch.zeros(n, dtype=torch.int32, device="cuda")

    decode, buffers = counts is None, (memory(5), memory(400), memory(4))
    if decode:
        run = flashinfer.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(WORKSPACE, *buffers)
    else:
        run = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, "NHD", True, memory(5), *buffers)
    rows = 4 if decode else sum(counts)
    q = torch.empty(rows, HQ, D, dtype=torch.bfloat16, device="cuda")
    cache = torch.zeros(200, 2, PAGE, HK, D, dtype=torch.bfloat16, device="cuda")
    for seed, (lengths, others) in enumerate(
        [
            ([5, 40, 0, 7], counts),
            ([1000, 17, 300, 5], [4, 5, 5, 4]),
            ([0, 0, 1, 16], [0, 0, 1, 17]),
            ([64, 2000, 1, 90], [1, 12, 0, 5]),
        ]
    ):
        pages = Pages(lengths, PAGE, HK, D, seed=seed)
        now = numbers(seed, rows, HQ, D).to(torch.bfloat16)
        fresh = cache_of(pages, "one NHD")
        q.copy_(now)
        cache[: fresh.shape[0]] = fresh
        if decode:
            run.plan(*pages.lists, HQ, HK, D, PAGE, q_data_type=torch.bfloat16)
        else:
            run.plan(starts(others), *pages.lists, HQ, HK, D, PAGE, causal=True, q_data_type=torch.bfloat16)
        if not seed:
            replay, (out, lse) = captured(lambda: run.run(q, cache, return_lse=True))
        replay()
        right, of_right = pages.expected(now, [1] * 4 if decode else others, causal=not decode)
        close(out.cpu(), right, 3e-2)
        close(lse.cpu(), of_right, 2e-2)


@pytest.mark.parametrize("counts", [None, COUNTS], ids=["decode", "prefill"])
def test_against_flashinfer(counts):
    theirs = pytest.importorskip("flashinfer")
    lengths = [max(length, 50) for length in LENGTHS]  # rows without keys are not written there
    pages, q = Pages(lengths, PAGE, HK, D), queries(counts).cuda()
    pages.rows.with_unused_rows(0.0)
    cache, causal = cache_of(pages), {} if counts is None else {"causal": True}
    found = [planned(module, pages, counts, **causal).run(q, cache, return_lse=True) for module in (flashinfer, theirs)]
    for ours, right in zip(*found):
        close(ours.cpu(), right.cpu(), 3e-2)
