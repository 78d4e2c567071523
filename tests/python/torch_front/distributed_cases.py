"""Cases of regard.distributed, run by every process of a group: each compares with attention on one device.

A case takes a Setting and raises an error if its rank's results are not those of one device.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import io
import itertools
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import Tensor

import regard.distributed as shared
import regard.torch

ROOT = Path(__file__).resolve().parents[3]
HQ, HK = 8, 4
FORMS = {
    "ring": shared.ring_attention,
    "all_gather": shared.all_gather_attention,
    "all_to_all": shared.all_to_all_attention,
}


@dataclasses.dataclass
class Setting:
    device: str
    dtype: torch.dtype
    d: int
    dv: int

    def numbers(self, seed: int, *shape: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(shape, generator=generator).to(self.device, self.dtype)

    def qkv(self, seed: int, *rows: int) -> list[Tensor]:
        sizes = (HQ, self.d), (HK, self.d), (HK, self.dv)
        return [self.numbers(seed + i, *rows, *of_one) for i, of_one in enumerate(sizes)]

    def caches(self, sequences: int, rows: int, value: float = 0.0) -> list[Tensor]:
        shape = sequences, rows, HK, self.d
        return [torch.full(shape, value, device=self.device, dtype=self.dtype) for _ in "kv"]

    def ints(self, *values: Any) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self.device)

    def close(self, found: Tensor, expected: Tensor) -> None:
        tolerance = 3e-5 if self.dtype == torch.float32 else 2e-2
        scale = max(1.0, float(torch.where(expected.isfinite(), expected, 0).abs().amax())) if expected.numel() else 1.0
        torch.testing.assert_close(found.float(), expected.float(), rtol=tolerance, atol=tolerance * scale)


CASES: dict[str, Callable[[Setting], None]] = {}


def case(function: Callable[[Setting], None]) -> Callable[[Setting], None]:
    CASES[function.__name__] = function
    return function


def compare(setting: Setting, form: str, offsets: Tensor | None = None, **masks: Any) -> None:
    """Results and gradients, of a loss that depends on both results, of whole sequences and of this rank's part."""
    ranks = dist.get_world_size()
    s = 6 * ranks  # chunks of three tokens
    rows = (2, s) if offsets is None else (int(offsets[-1]),)
    whole = [
        setting.numbers(i, *rows, heads, d)
        for i, (heads, d) in enumerate(((HQ, setting.d), (HK, setting.d), (HK, setting.dv)))
    ]
    weights = setting.numbers(4, *rows, HQ, setting.dv), setting.numbers(5, *rows, HQ).float()
    words = {} if offsets is None else {"offsets_q": offsets, "offsets_k": offsets, "sq": 50, "sk": 50}
    part = {"offsets": offsets} if offsets is not None else {"dim": 1}

    def outcome(attend: Any, leaves: list[Tensor], weights: list[Tensor], options: dict[str, Any]) -> list[Tensor]:
        leaves = [x.clone().requires_grad_() for x in leaves]
        o, lse = attend(*leaves, lse=True, softcap=20.0, **options)
        lse = lse.transpose(-1, -2)
        loss = (o.float() * weights[0].float()).sum() + (torch.where(lse.isfinite(), lse, 0) * weights[1]).sum()
        return [o.detach(), lse.detach(), *torch.autograd.grad(loss, leaves)]

    expected = outcome(regard.torch.attention, whole, list(weights), {**words, **masks})
    mine = [shared.shard(x, **part) for x in (*whole, *weights)]
    given = {**masks, **({} if offsets is None else {"offsets": offsets, "longest": 50})}
    for one, other in zip(outcome(FORMS[form], mine[:3], mine[3:], given), expected):
        setting.close(one, shared.shard(other, **part))
        assert torch.equal(shared.unshard(shared.shard(other, **part), **part), other)


def packed_offsets(setting: Setting) -> Tensor:
    """Sequences of 2, 0 and 3 tokens in each chunk."""
    return setting.ints(0, 2, 2, 5) * 2 * dist.get_world_size()


def _add(form: str, packed: bool, name: str, **masks: Any) -> None:
    def run(setting: Setting) -> None:
        compare(setting, form, packed_offsets(setting) if packed else None, **masks)

    run.__name__ = f"{form} {'packed' if packed else 'dense'} {name}"
    case(run)


for form, packed in itertools.product(FORMS, (False, True)):
    _add(form, packed, "full")
    _add(form, packed, "causal", causal=True)
    if form != "ring":
        _add(form, packed, "window", window=(4, 0))
_add("all_to_all", False, "window on both sides", window=(5, 3))


@case
def sixteen_bits(setting: Setting) -> None:
    for form in FORMS:
        compare(dataclasses.replace(setting, dtype=torch.float16), form, causal=True)


@case
def an_odd_number_of_tokens_without_a_mask(setting: Setting) -> None:
    """Any rows may be anywhere, as rank r has those from 3 r on."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole = setting.qkv(1, 1, 3 * ranks)
    mine = [x[:, 3 * rank : 3 * rank + 3] for x in whole]
    expected = regard.torch.attention(*whole)[:, 3 * rank : 3 * rank + 3]
    for attend in FORMS.values():
        setting.close(attend(*mine), expected)


@case
def no_tokens(setting: Setting) -> None:
    for attend in FORMS.values():
        assert attend(*setting.qkv(1, 2, 0), causal=True).shape == (2, 0, HQ, setting.dv)


@case
def results_of_two_groups(setting: Setting) -> None:
    """Each half of the processes attends to a sequence of its own: results do not depend on the number of ranks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group(list(some)) for some in (range(ranks // 2), range(ranks // 2, ranks))]
    group = halves[rank >= ranks // 2]
    whole = [
        setting.numbers(10 * (rank >= ranks // 2) + i, 1, 4 * ranks, h, setting.d) for i, h in enumerate((HQ, HK, HK))
    ]
    mine = [shared.shard(x, group=group) for x in whole]
    expected = shared.shard(regard.torch.attention(*whole, causal=True), group=group)
    for attend in FORMS.values():
        setting.close(attend(*mine, causal=True, group=group), expected)


def dealt(setting: Setting, sq: int, paged: bool, lengths: list[int], **options: Any) -> None:
    """The cache is written token by token through `append`, then read."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    b, page, blocks = len(lengths), 2, 4
    most = page * blocks * ranks
    k, v = (setting.numbers(i, b, most, HK, setting.d) for i in (1, 2))
    sink = setting.numbers(7, HQ).float() if options.pop("sink", False) else None
    caches = [
        torch.full((3 + b * blocks, page, HK, setting.d), torch.nan, device=setting.device, dtype=setting.dtype)
    ] * 2
    caches = [x.clone() for x in caches]
    table = torch.randperm(b * blocks, generator=torch.Generator().manual_seed(rank)).reshape(b, blocks) + 3
    words = {"page_table": table.int().to(setting.device)}
    if not paged:
        caches, words = [x[3:].reshape(b, page * blocks, HK, setting.d) for x in caches], {}
    at = setting.ints(*lengths)
    some = torch.where(at > 3, at - 3, 0)  # the last three of each come in a second call
    for before, first, count in ((torch.zeros_like(at), 0, None), (some, None, 3)):
        for sequence in range(b):
            start = int(before[sequence]) if first is None else 0
            stop = int(some[sequence]) if count is None else int(at[sequence])
            new = [x[sequence : sequence + 1, start:stop] for x in (k, v)]
            if stop > start:
                starts = torch.full_like(at, -1)
                starts[sequence] = start
                new = [x.expand(b, -1, -1, -1) for x in new]
                shared.append(*caches, *new, starts, **words)
    q = setting.numbers(3, b, sq, HQ, setting.d)
    o, lse = shared.decode_attention(q, *caches, at, lse=True, sink=sink, **words, **options)
    for i, length in enumerate(lengths):
        more = {} if sink is None else {"sink": sink}
        keys, values = (x[i : i + 1, :length] for x in (k, v))
        for one, other in zip(
            (o[i], lse[i]), regard.torch.attention(q[i : i + 1], keys, values, lse=True, **options, **more)
        ):
            setting.close(one, other[0])


@case
def decode_on_pages(setting: Setting) -> None:
    """A sequence of one token is on one rank alone, and one of none on none."""
    dealt(setting, 1, True, [7, 1, 0, 8 * dist.get_world_size()])


@case
def decode_with_a_sink(setting: Setting) -> None:
    dealt(setting, 1, False, [7, 1, 0], sink=True, scale=0.2)


@case
def verification_of_three_tokens(setting: Setting) -> None:
    dealt(setting, 3, True, [9, 3, 30 % (8 * dist.get_world_size())], causal=True)


@case
def verification_with_a_window(setting: Setting) -> None:
    dealt(setting, 3, True, [9, 3, 14], window=(4, 0))
    dealt(setting, 2, False, [9, 3, 14], window=(3, 1))


@case
def tokens_without_a_row_are_not_written(setting: Setting) -> None:
    ranks = dist.get_world_size()
    k, v = setting.caches(2, 2)
    new = torch.ones(2, 1, HK, setting.d, device=setting.device, dtype=setting.dtype)
    shared.append(k, v, new, new, setting.ints(2 * ranks, -1))
    table = setting.ints([1], [-1])
    shared.append(k, v, new, new, setting.ints(2 * ranks, 0), page_table=table)
    assert not k.any() and not v.any()


@case
def rope_has_positions_in_whole_sequences(setting: Setting) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    new = setting.numbers(1, 2, 2 * ranks, HK, setting.d)
    cos, sin = (setting.numbers(i, 4 * ranks, setting.d // 2) for i in (2, 3))
    words = {"rope": "half", "rope_cos": cos, "rope_sin": sin}
    whole = setting.caches(2, 4 * ranks)
    regard.torch.append(*whole, new, new, lengths_k=setting.ints(3, 0), **words)
    mine = setting.caches(2, 4)
    shared.append(*mine, new, new, setting.ints(3, 0), **words)
    for one, other in zip(mine, whole):
        setting.close(one, other[:, rank::ranks])


@case
def the_page(setting: Setting) -> None:
    """docs/context-parallelism.md, and whether its first example has the results of one device."""
    if setting.device != "cpu":
        return
    page = (ROOT / "docs/context-parallelism.md").read_text()
    blocks = [x for x in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "jax" not in x]
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    with in_this_group():
        exec("\n".join(blocks), names)
    leaves = [names[name].clone().requires_grad_() for name in "qkv"]
    o = regard.torch.attention(*leaves, causal=True)
    o.square().sum().backward()
    setting.close(names["whole"], o)
    for mine, other in zip(names["mine"], leaves):
        setting.close(mine.grad, shared.shard(other.grad))


@case
def the_example(setting: Setting) -> None:
    """Training on a sequence that is dealt out, as one process does it."""
    if setting.device != "cpu":
        return
    sys.path.insert(0, str(ROOT / "examples/torch"))
    import long_context

    for form in FORMS:
        with in_this_group(), contextlib.redirect_stdout(io.StringIO()) as printed:
            long_context.main(["--steps=3", "--tokens=64", f"--form={form}"])
        if dist.get_rank() == 0:
            assert float(re.search(r"apart by (\S+) at most", printed.getvalue())[1]) < 1e-4


@contextlib.contextmanager
def in_this_group() -> Iterator[None]:
    """A program that makes a group of processes and ends it takes this one."""
    with mock.patch.object(dist, "init_process_group"), mock.patch.object(dist, "destroy_process_group"):
        yield


@case
def refusals(setting: Setting) -> None:
    """None of them sends anything."""
    q = setting.numbers(1, 1, 4, 6, setting.d)
    for name, attend in FORMS.items():
        refused(NotImplementedError, f"alibi is not an option of {name}_attention", attend, q, q, q, alibi=q)
        refused(ValueError, "this rank's tokens", attend, q[0], q[0], q[0])
        refused(ValueError, "they must have the same numbers of tokens", attend, q, q[:, :2], q)
        refused(TypeError, "k is of type int", attend, q, 1, q)
        refused(ValueError, "has 3 tokens of a sequence; causal attention needs two equal chunks", attend,
                q[:, :3], q[:, :3], q[:, :3], causal=True)  # fmt: skip
        offsets = torch.tensor([0, 3, 4 * dist.get_world_size()], dtype=torch.int32)
        refused(ValueError, "each sequence must have a multiple of", attend, q[0], q[0], q[0], offsets=offsets)
    heads = dist.get_world_size() + 1
    odd = setting.numbers(1, 1, 4, heads, setting.d)
    refused(NotImplementedError, f"q has {heads} heads, which 4 ranks cannot share: use ring_att",
            FORMS["all_to_all"], odd, odd, odd)  # fmt: skip
    refused(NotImplementedError, "a window of all_gather_attention ends", FORMS["all_gather"], q, q, q, window=(2, 3))
    refused(NotImplementedError, "window is not an option of ring_attention", FORMS["ring"], q, q, q, window=(2, 0))
    refused(ValueError, "x has 5 tokens; 4 ranks need a multiple of 8", shared.shard, torch.zeros(1, 5))
    for function in (shared.shard, shared.unshard):
        refused(ValueError, "dim is 5, and x has shape [1, 8]; give the axis of its tokens", function,
                torch.zeros(1, 8), dim=5)  # fmt: skip
        refused(TypeError, "dim is 'x'; it must be a whole number", function, torch.zeros(1, 8), dim="x")
    for wrong in ([0, 16, 8, 32], [8, 32]):
        offsets = torch.tensor(wrong, dtype=torch.int32)
        refused(ValueError, "they must begin with 0 and not decrease", shared.shard, torch.zeros(32), offsets=offsets)
    cache, new = torch.zeros(2, 8, 1, 4), torch.zeros(1, 1, 1, 4)
    append = functools.partial(shared.append, cache, cache.clone(), new, new, torch.zeros(1, dtype=torch.int32))
    pages = torch.zeros(1, 2, dtype=torch.int32)
    refused(ValueError, "give one of them", append, page_table=pages, cache_index=pages[0, :1])
    refused(ValueError, "it must be int32 [b, pages]", append, page_table=pages.float())
    refused(ValueError, "slots is not an option here", append, slots=pages[0])
    refused(NotImplementedError, "bias is not an option of decode_attention", shared.decode_attention, q, q, q,
            setting.ints(4), bias=q)  # fmt: skip


def refused(error: type[Exception], message: str, function: Any, *arguments: Any, **options: Any) -> None:
    message = message.replace("4 ranks", f"{dist.get_world_size()} ranks").replace(
        "of 8", f"of {2 * dist.get_world_size()}"
    )
    try:
        function(*arguments, **options)
    except error as found:
        assert message in str(found), str(found)
        return
    raise AssertionError(f"not refused: {message}")


def run_cases(rank: int, ranks: int, backend: str, address: str, queue: Any) -> None:
    """The body of a process: every case, and what is wrong with it, or None."""
    if backend == "nccl":
        setting = Setting(f"cuda:{rank}", torch.bfloat16, 128, 128)
        torch.cuda.set_device(rank)
    else:
        setting = Setting("cpu", torch.float32, 16, 24)
        torch.set_num_threads(1)
        os.environ["REGARD_THREADS"] = "1"
    soon = datetime.timedelta(seconds=60)  # if another rank failed
    dist.init_process_group(backend, init_method=address, rank=rank, world_size=ranks, timeout=soon)
    for name, function in CASES.items():
        try:
            function(setting)
        except Exception:
            queue.put((rank, name, traceback.format_exc()))
            raise  # all processes end, as messages for this one are under way
        queue.put((rank, name, None))
    dist.destroy_process_group()


def outcomes(ranks: int, backend: str, folder: Path) -> dict[str, dict[int, str | None]]:
    """What each rank found wrong with each case; all cases run in one group, as processes take long to start."""
    method = "spawn" if backend == "nccl" else "forkserver"  # imports PyTorch once; CUDA's runtime must not be forked
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["regard.distributed"])
    queue = context.SimpleQueue()
    arguments = ranks, backend, f"file://{folder / 'address'}", queue
    processes = multiprocessing.start_processes(run_cases, arguments, ranks, join=False, start_method=method)
    found: dict[str, dict[int, str | None]] = {}
    running = True
    while running or not queue.empty():
        try:
            running = running and not processes.join(timeout=0.05)
        except (multiprocessing.ProcessExitedException, multiprocessing.ProcessRaisedException):
            running = False
        while not queue.empty():
            rank, name, wrong = queue.get()
            found.setdefault(name, {})[rank] = wrong
    return found


def check(found: dict[str, dict[int, str | None]], name: str, ranks: int) -> None:
    of_case = found.get(name, {})
    for rank, wrong in of_case.items():
        assert wrong is None, f"rank {rank}: {wrong}"
    assert of_case.keys() == set(range(ranks)), "not run"
