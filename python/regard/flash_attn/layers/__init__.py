"""The attention part of flash_attn.layers."""
