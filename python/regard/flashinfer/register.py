"""`import flashinfer` finds this package."""

from __future__ import annotations

from ..stand_in import Release, StandIn

VERSION = "0.6.18"  # the release whose interface this is

_MODULES = ("cascade", "decode", "mla", "page", "prefill")

_stand_in = StandIn(
    "regard.flashinfer",
    {"flashinfer": "", **{f"flashinfer.{module}": f".{module}" for module in _MODULES}},
    (Release("flashinfer-python", VERSION, "flashinfer", ("flashinfer",)),),
)


def register() -> None:
    """From now on `import flashinfer` and its modules cascade, decode, mla, page and prefill find this package.

    The rest of FlashInfer is not provided: importing it raises ImportError. Takes precedence over an installed
    flashinfer and warns about it; if flashinfer is already imported, raises ImportError.
    """
    _stand_in.refuse_imported()
    _stand_in.register()


def unregister() -> None:
    """Undoes `register`: the names are free again; modules already imported under them keep working."""
    _stand_in.unregister()
