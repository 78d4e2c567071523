"""`import flash_attn` finds this package."""

from __future__ import annotations

from ..stand_in import Release, StandIn
from . import flavour as flavours
from . import operators_v3 as operators
from .version import VERSION, VERSION_3, VERSION_4

_stand_in = StandIn(
    "regard.flash_attn",
    {
        "flash_attn": "",
        "flash_attn.bert_padding": ".bert_padding",
        "flash_attn.cute": ".cute",
        "flash_attn.cute.interface": ".cute.interface",
        "flash_attn.flash_attn_interface": ".flash_attn_interface",
        "flash_attn.layers": ".layers",
        "flash_attn.layers.rotary": ".layers.rotary",
        "flash_attn.modules": ".modules",
        "flash_attn.modules.mha": ".modules.mha",
        "flash_attn.ops": ".ops",
        "flash_attn.ops.triton": ".ops.triton",
        "flash_attn.ops.triton.rotary": ".ops.triton.rotary",
        "flash_attn_2_cuda": ".extension",
        "flash_attn_interface": ".v3",
        "flash_attn_3": ".v3",
        "flash_attn_3._C": ".operators_v3",
        "flash_attn_3.flash_attn_interface": ".v3",
    },
    (
        Release("flash_attn", VERSION, "flash_attn", ("flash_attn", "flash_attn_2_cuda")),
        Release("flash_attn_3", VERSION_3, "flash_attn_3", ("flash_attn_3", "flash_attn_interface")),
        Release("flash-attn-4", VERSION_4, "flash_attn.cute", ("flash_attn",)),
    ),
)


def register(flavour: str = "cuda") -> None:
    """From now on `import flash_attn`, its submodules and `import flash_attn_interface` find this package, and
    torch.ops.flash_attn_3 has its operators.

    flavour: which library's conventions a program relies on, "cuda" or "ck". They differ in S_dmask (signed
    probabilities, or random bytes that say what was dropped) and in the LSE of rows that see no key (+inf, or -inf).

    Takes precedence over an installed flash_attn and warns about it; if it is already imported, raises ImportError.
    """
    _stand_in.refuse_imported()
    operators.refuse_others()
    flavours.choose(flavour)
    operators.define()
    _stand_in.register()


def unregister() -> None:
    """Undoes `register`: the names are free again; modules already imported under them keep working.

    Operators of torch.ops.flash_attn_3 no longer run. Their schemas stay, so that FlashAttention-3's own extension
    cannot be loaded in the same process.
    """
    _stand_in.unregister()
    operators.undefine()
    flavours.choose("cuda")
