"""The attention part of flash_attn.ops.triton, using PyTorch's own operators."""
