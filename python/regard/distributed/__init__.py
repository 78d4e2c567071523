"""Attention whose sequences are sharded across several processes (context parallelism), over torch.distributed.

    import torch.distributed as dist, regard.distributed as shared
    q, k, v = (shared.shard(x) for x in (q, k, v))              # this rank's tokens, [b, s / ranks, h, d]
    o = shared.ring_attention(q, k, v, causal=True)             # this rank's results, with gradients

`ring_attention` passes keys and values from rank to rank, `all_gather_attention` gathers them, `all_to_all_attention`
shards heads instead of tokens; their results are the same within rounding, on any number of ranks.
`append` and `decode_attention` are for a KV cache that is sharded token by token.

Every process of the group makes the same call. Tensors on a CPU need the backend gloo, those on GPUs NCCL.
"""

from ..hosts import require

require("regard.distributed", "torch")

from .dealt_cache import append, decode_attention  # noqa: E402
from .exchanged import all_to_all_attention  # noqa: E402
from .gathered import all_gather_attention  # noqa: E402
from .ring import ring_attention  # noqa: E402
from .shards import shard, unshard  # noqa: E402

del require

__all__ = [
    "all_gather_attention",
    "all_to_all_attention",
    "append",
    "decode_attention",
    "ring_attention",
    "shard",
    "unshard",
]
