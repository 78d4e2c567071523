"""Modules of PyTorch, as flash_attn.modules has them: attention alone."""
