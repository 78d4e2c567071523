"""Attention of sequences that are sharded across the devices of a mesh axis (context parallelism), inside shard_map."""

from .exchanged import all_to_all_attention
from .gathered import all_gather_attention
from .ring import ring_attention
from .shards import deal, undeal

__all__ = ["all_gather_attention", "all_to_all_attention", "deal", "ring_attention", "undeal"]
