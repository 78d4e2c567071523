"""The gradient of learned sinks if each sequence has its own, as AITER's backward operators take them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..errors import invalid
from ..flash_attn.varlen import places


def refuse_half_of(sink: Tensor | None, d_sink: Tensor | None) -> None:
    if sink is None and d_sink is not None:
        raise invalid("d_sink is given and sink is not: give both, or neither")


def add_gradient(
    d_sink: Tensor, sink: Tensor, dout: Tensor, out: Tensor, lse: Tensor, sequences: dict[str, Any]
) -> None:
    """Adds to d_sink [hq] the gradient from rows [b, sq, hq, dv] or [tokens, hq, dv] and sinks [hq] or [b, hq]: a
    sink's share of a row, exp(sink - lse), times -rowsum(dout out)."""
    heads = out.shape[-2]
    varlen = "offsets_q" in sequences
    batch = sequences["offsets_q"].shape[0] - 1 if varlen else out.shape[0]
    if sink.shape not in ((heads,), (batch, heads)) or d_sink.shape != (heads,):
        raise invalid(
            f"sink has shape {list(sink.shape)} and d_sink {list(d_sink.shape)}; they must be [{batch}, {heads}] or "
            f"[{heads}], and [{heads}]"
        )
    logits = sink.float().expand(batch, heads)
    logarithms = lse.transpose(-1, -2)  # heads last, as in the rows
    counts = logarithms != -math.inf
    if varlen:
        sequence, place = places(sequences["offsets_q"], out.shape[0])
        logits = logits[sequence]
        lengths = sequences.get("lengths_q", sequences["offsets_q"].diff())
        counts = counts & (place < lengths[sequence])[:, None]
    else:
        logits = logits[:, None]
    share = torch.where(counts, (logits - logarithms).exp(), 0.0)
    rows = torch.where(counts, (dout.float() * out.float()).sum(-1), 0.0)
    d_sink.sub_((share * rows).flatten(0, -2).sum(0))
