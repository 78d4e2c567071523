"""The attention modules of flash_attn.modules."""
