"""FlashMLA's decode attention with its functions and arguments, computed by Regard.

from regard.flash_mla import flash_mla_with_kvcache, get_mla_metadata

regard.flash_mla.register()                            # or: whatever imports flash_mla gets Regard
from flash_mla import flash_mla_with_kvcache
"""

from ..hosts import require

require("regard.flash_mla", "torch")

from . import flash_mla_interface  # noqa: E402
from .flash_mla_interface import *  # noqa: E402, F403
from .register import register, unregister  # noqa: E402

del require

__all__ = [*flash_mla_interface.__all__, "register", "unregister"]
