"""flash_attn.ops: what of it belongs to attention."""
