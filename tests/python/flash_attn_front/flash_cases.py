"""Calls of flash_attn, the fp64 reference of each, and the error of a plain PyTorch computation in its own type."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy
import torch

import reference


@dataclass
class Case:
    sq: int
    sk: int
    d: int
    hq: int = 4
    hk: int = 2
    b: int = 2
    dtype: torch.dtype = torch.float16
    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    alibi: bool = False

    def numbers(self, seed=0):
        """q, k, v and grad_o, [b, s, h, d]."""
        chance = torch.Generator().manual_seed(seed)
        sizes = [(self.sq, self.hq), (self.sk, self.hk), (self.sk, self.hk), (self.sq, self.hq)]
        tensors = [torch.randn(self.b, *size, self.d, generator=chance) for size in sizes]
        if self.softcap:
            tensors[0] *= self.softcap  # so that the cap has an effect
        return [tensor.to(self.dtype) for tensor in tensors]

    def slopes(self):
        return 0.3 * torch.rand(self.b, self.hq, generator=torch.Generator().manual_seed(9)) if self.alibi else None

    def arguments(self):
        return {
            "causal": self.causal,
            "window_size": self.window,
            "softcap": self.softcap,
            "alibi_slopes": self.slopes(),
        }

    def visible(self):
        return reference.visible(self.b, self.hq, self.sq, self.sk, causal=self.causal, window=self.window)

    def bias(self):
        return reference.alibi(self.slopes().double().numpy(), self.b, self.sq, self.sk) if self.alibi else None

    def options(self, kept=None, dropout=0.0):
        return reference.Options(
            self.visible(), softcap=self.softcap, bias=self.bias(), kept=kept, keep_probability=1 - dropout
        )


def across(tensor):
    return tensor.detach().double().numpy().swapaxes(1, 2)


def expected(tensors, options):
    """o and the gradients of q, k and v, [b, s, h, d] in fp64, and lse [b, h, s]."""
    q, k, v, grad_o = map(across, tensors)
    o, lse = reference.attention(q, k, v, options)
    results = [o, *reference.gradients(grad_o, q, k, v, options)[:3]]
    return [torch.from_numpy(result.swapaxes(1, 2).copy()) for result in results], torch.from_numpy(lse)


def by_torch(tensors, options):
    """The same with PyTorch's operators in the type of the inputs."""
    q, k, v, grad_o = (tensor.detach() for tensor in tensors)
    q, k, v = (tensor.requires_grad_() for tensor in (q, k, v))
    group = q.shape[2] // k.shape[2]
    keys, values = (tensor.repeat_interleave(group, dim=2) for tensor in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, keys / math.sqrt(q.shape[-1]))
    if options.softcap:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    if options.bias is not None:
        scores = scores + torch.from_numpy(options.bias).to(q.dtype)
    visible = torch.from_numpy(options.visible)
    weights = scores.masked_fill(~visible, -math.inf).softmax(-1).masked_fill(~visible, 0)
    if options.kept is not None:
        weights = weights.masked_fill(~torch.from_numpy(options.kept), 0) / options.keep_probability
    o = torch.einsum("bhqk,bkhd->bqhd", weights, values)
    return [o, *torch.autograd.grad(o, (q, k, v), grad_o)]


def close(results, tensors, options, of_out=2.0, of_gradients=3.0):
    """The criterion of flash_attn's own tests: the error is at most a few times that of PyTorch's operators."""
    correct, lse = expected(tensors, options)
    plain = by_torch(tensors, options)
    names = ("out", "dq", "dk", "dv")
    for name, result, right, other in zip(names, results, correct, plain):
        assert result.dtype == tensors[0].dtype and result.shape == right.shape, name
        allowed = (of_out if name == "out" else of_gradients) * largest(other - right) + 1e-5
        assert largest(result - right) <= allowed, name
    return lse


def largest(difference):
    return difference.detach().abs().max().item() if difference.numel() else 0.0


def leaves(*tensors):
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


def kept_of(s_dmask, case):
    """The dropout mask that the signs of the CUDA flavour's S_dmask show."""
    return numpy.asarray(~torch.signbit(s_dmask[..., : case.sq, : case.sk]))
