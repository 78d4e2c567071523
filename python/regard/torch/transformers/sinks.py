"""A separate learned sink for each query, where the kernels take only one for each head."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from .mask import Mask


def with_sink_as_key(
    key: Tensor, value: Tensor, mask: Mask | Tensor | None, bias: Tensor | None, sinks: Tensor
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Adds a key of zeros, which every query sees, whose score is the sink and whose value is 0.

    key: [b, hk, kv, d]; value: [b, hk, kv, dv]; bias: [1|b, 1|hq, 1|q, kv]; sinks: [b, hq, q, 1]. In the results, kv is
    one larger.
    """
    if isinstance(mask, Mask):
        mask = mask.booleans()
    if mask is not None:
        mask = pad(mask, (0, 1), value=mask.dtype == torch.bool)
    of_keys = sinks.new_zeros(()) if bias is None else bias
    of_keys = of_keys.expand(*sinks.shape[:-1], key.shape[2])
    return pad(key, (0, 0, 0, 1)), pad(value, (0, 0, 0, 1)), mask, torch.cat([of_keys, sinks], -1)
