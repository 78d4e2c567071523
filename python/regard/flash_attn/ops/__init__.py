"""The attention part of flash_attn.ops."""
