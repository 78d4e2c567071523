"""flash_attn.layers: what of it belongs to attention."""
