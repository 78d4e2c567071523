"""Into how many parts the keys of a sequence are split where its length is not known to the host."""

from __future__ import annotations

from typing import Any

import torch

ROWS_OF_BLOCK = 64  # query rows that read keys together, where there are few


def splits_of_unknown_lengths(device: torch.device, sequences: int, queries: int, hq: int, hk: int) -> dict[str, Any]:
    """As many parts as give each multiprocessor of a GPU two blocks; on a CPU, which knows the lengths, nothing."""
    if device.type != "cuda":
        return {}
    blocks = max(sequences * hk * -(-queries * (hq // hk) // ROWS_OF_BLOCK), 1)
    units = torch.cuda.get_device_properties(device).multi_processor_count
    return {"splits": max(2 * units // blocks, 1)}
