"""The releases whose interfaces these are."""

VERSION = "2.8.4"  # flash_attn
VERSION_3 = "3.0.0"  # flash_attn_3
VERSION_4 = "4.0.0b27"  # flash-attn-4
