"""Planned problems with their own PyTorch tensors, which can run repeatedly without copies."""

from __future__ import annotations

import pytest
import torch

import regard
from here import KIND


def draw(*shape, dtype=torch.bfloat16, device="cuda", seed=0):
    generator = torch.Generator(device).manual_seed(seed + len(shape) + sum(shape))
    return torch.randn(*shape, dtype=torch.float32, device=device, generator=generator).to(dtype)


def same(a, b):
    """Whether all bits are equal, also those of NaNs."""
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def solved(make):
    """Skips the test if the family does not solve its problem."""
    try:
        return make()
    except regard.RefusedError as refusal:
        pytest.skip(str(refusal)[-300:])


class Planned:
    """A planned forward problem."""

    def __init__(self, words, b, hq, hk, sq, sk, d, family=None, device="cuda", target=KIND):
        self.problem = f"fwd bf16 lse b={b} hq={hq} hk={hk} sq={sq} sk={sk} d={d} {words}"
        self.q, self.k, self.v = (draw(b, s, h, d, device=device) for s, h in ((sq, hq), (sk, hk), (sk, hk)))
        self.o, self.lse = torch.empty_like(self.q), torch.empty(b, hq, sq, device=device)
        with torch.cuda.device(self.q.device):
            self.plan = regard.plan(self.problem, target=target, family=family)
        self.workspace = workspace_of(self.plan, device)

    def __call__(self):
        stream = torch.cuda.current_stream(self.q.device)
        self.plan.run(
            q=self.q, k=self.k, v=self.v, o=self.o, lse=self.lse, workspace=self.workspace, stream=stream.cuda_stream
        )
        return self.o, self.lse

    def fresh(self):
        """Copies of the outputs of one run into poisoned memory."""
        self.o.fill_(float("nan"))
        self.lse.fill_(float("nan"))
        o, lse = self()
        return o.clone(), lse.clone()


class PlannedBackward:
    """A planned backward problem, with O and LSE from Regard's forward."""

    def __init__(self, words, b, hq, hk, sq, sk, d, family=None, device="cuda", deterministic=False):
        self.problem = f"bwd bf16 b={b} hq={hq} hk={hk} sq={sq} sk={sk} d={d} {words}"
        if deterministic:
            self.problem += " deterministic"
        with torch.cuda.device(device):
            self.plan = regard.plan(self.problem, target=KIND, family=family)
            self.forward = Planned(words, b, hq, hk, sq, sk, d, device=device)
        self.grad_o = draw(b, sq, hq, d, device=device, seed=7)
        of = self.forward
        self.gradients = {f"grad_{name}": torch.empty_like(x) for name, x in (("q", of.q), ("k", of.k), ("v", of.v))}
        self.workspace = workspace_of(self.plan, device)
        self.start_over()

    def start_over(self):
        """Computes O and LSE anew, after the inputs have changed."""
        self.forward()

    def __call__(self):
        of = self.forward
        given = {"q": of.q, "k": of.k, "v": of.v, "o": of.o, "lse": of.lse, "grad_o": self.grad_o}
        stream = torch.cuda.current_stream(of.q.device).cuda_stream
        self.plan.run(**given, **self.gradients, workspace=self.workspace, stream=stream)
        return tuple(self.gradients.values())

    def poison(self):
        for gradient in self.gradients.values():
            gradient.fill_(float("nan"))
        self.workspace.fill_(255)

    def fresh(self):
        """Copies of the gradients of one run into poisoned memory, with a poisoned workspace."""
        self.poison()
        return tuple(gradient.clone() for gradient in self())


def workspace_of(plan, device):
    return torch.empty(max(plan.workspace_bytes, 1), dtype=torch.uint8, device=device)


def captured(step):
    """A function that replays the step, and the results that it writes."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    return graph.replay, results
