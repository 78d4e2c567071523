"""flash_attn.ops.triton: what of it belongs to attention, by PyTorch's own operators."""
