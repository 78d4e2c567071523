"""Features of a call, and the fp64 reference's results for them."""

from __future__ import annotations

import math

import numpy
import torch

import reference
import regard.torch

B, HQ, HK = 2, 4, 2
SHAPES = {  # sq, sk, d, dv
    "usual": (33, 47, 40, 40),
    "odd": (9, 70, 7, 7),
    "one row": (1, 40, 59, 59),
    "more rows than keys": (40, 13, 111, 111),
    "d of 1": (17, 17, 1, 1),
    "another dv": (20, 30, 16, 40),
}


def numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def whole(*values):
    return torch.tensor(values, dtype=torch.int32)


def bits_mask(sq, sk):
    return torch.rand(B, HQ, sq, sk, generator=torch.Generator().manual_seed(5)) < 0.6


def row_ranges(sq, sk):
    low = torch.arange(sq) % max(sk - 1, 1)
    return torch.stack([low, torch.full_like(low, sk - sk // 4)], -1).to(torch.int32)[None]


# name: the options, and the reference's arguments for the same, for sq and sk.
FEATURES = {
    "plain": lambda sq, sk: ({}, {}),
    "causal": lambda sq, sk: ({"causal": True}, {"causal": True}),
    "top left": lambda sq, sk: ({"causal": "top_left"}, {"causal": True, "top_left": True}),
    "window": lambda sq, sk: ({"window": (5, 2)}, {"window": (5, 2)}),
    "mask": lambda sq, sk: (
        {"mask": "window:4,0,sink=2"},
        {"window": (4, 0), "sink_tokens": 2},
    ),
    "scale": lambda sq, sk: ({"scale": 0.3}, {"scale": 0.3}),
    "softcap": lambda sq, sk: ({"softcap": 1.5, "causal": True}, {"softcap": 1.5, "causal": True}),
    "bias": lambda sq, sk: ({"bias": numbers(11, B, HQ, sq, sk)},) * 2,
    "bias for all": lambda sq, sk: ({"bias": numbers(12, 1, HQ, sq, sk)},) * 2,
    "bias of two dimensions": lambda sq, sk: ({"bias": numbers(13, sq, sk)},) * 2,
    "bias of keys": lambda sq, sk: ({"bias": numbers(14, B, 1, 1, sk), "causal": True},) * 2,
    "alibi": lambda sq, sk: ({"alibi": numbers(15, HQ).abs(), "causal": True},) * 2,
    "sink": lambda sq, sk: ({"sink": numbers(16, HQ), "window": (6, 0)},) * 2,
    "bits": lambda sq, sk: ({"bits": regard.pack_bits(bits_mask(sq, sk))}, {"mask": bits_mask(sq, sk)}),
    "ranges": lambda sq, sk: ({"ranges": row_ranges(sq, sk)},) * 2,
    "lengths": lambda sq, sk: (
        {"lengths_q": whole(sq, sq // 2), "lengths_k": whole(sk - sk // 3, sk), "causal": True},
        {"lengths": ((sq, sq // 2), (sk - sk // 3, sk)), "causal": True},
    ),
    "dropout": lambda sq, sk: ({"dropout": 0.3, "seed": 5, "offset": 9}, {"dropout": (0.3, 5, 9)}),
    "seed of a tensor": lambda sq, sk: (
        {"dropout": 0.3, "seed": torch.tensor([5, 9]), "causal": True},
        {"dropout": (0.3, 5, 9), "causal": True},
    ),
}


def inputs(shape, seed=1, dtype=torch.float32):
    """q, k, v and grad_o, [b, s, h, d]."""
    sq, sk, d, dv = SHAPES[shape]
    sizes = (B, sq, HQ, d), (B, sk, HK, d), (B, sk, HK, dv), (B, sq, HQ, dv)
    return [numbers(seed + i, *size).to(dtype) for i, size in enumerate(sizes)]


def oracle_options(sq, sk, said):
    """The reference's options."""
    said = dict(said)
    masks = {
        name: said.pop(name) for name in ("causal", "window", "top_left", "sink_tokens", "lengths") if name in said
    }
    if "ranges" in said:
        masks["ranges"] = said.pop("ranges").numpy()
    visible = reference.visible(B, HQ, sq, sk, **masks)
    if "mask" in said:
        visible &= said.pop("mask").numpy()
    if "alibi" in said:
        said["bias"] = reference.alibi(said.pop("alibi").detach().double().numpy(), B, sq, sk)
    elif "bias" in said:
        said["bias"] = numpy.broadcast_to(said["bias"].detach().double().numpy(), (B, HQ, sq, sk))
    if "sink" in said:
        said["sink"] = said["sink"].detach().double().numpy()
    if "dropout" in said:
        p, seed, offset = said.pop("dropout")
        said["kept"] = reference.kept(p, seed, offset, B, HQ, sq, sk)
        said["keep_probability"] = (math.floor((1 - p) * 255) + 1) / 256
    return reference.Options(visible, **said)


def across(tensor):
    """[b, s, h, d] as fp64 [b, h, s, d] of NumPy, and back."""
    return tensor.detach().double().numpy().swapaxes(1, 2)


def expected(tensors, options):
    """o and the gradients of q, k, v, [b, s, h, d], then of the scores and of the sink; lse."""
    q, k, v, grad_o = (across(x) for x in tensors)
    o, lse = reference.attention(q, k, v, options)
    *grads, grad_scores, grad_sink = reference.gradients(grad_o, q, k, v, options)
    back = [torch.from_numpy(x.swapaxes(1, 2).copy()) for x in (o, *grads)]
    return back, torch.from_numpy(grad_scores), grad_sink, torch.from_numpy(lse)
