"""Attention of `aiter.ops`."""
