"""`import flash_mla` finds this package."""

from __future__ import annotations

from ..stand_in import Release, StandIn

VERSION = "1.0.0"  # the release whose interface this is

_stand_in = StandIn(
    "regard.flash_mla",
    {"flash_mla": "", "flash_mla.flash_mla_interface": ".flash_mla_interface"},
    (Release("flash_mla", VERSION, "flash_mla", ("flash_mla",)),),
)


def register() -> None:
    """From now on `import flash_mla` and `flash_mla.flash_mla_interface` find this package.

    Takes precedence over an installed flash_mla and warns about it; if flash_mla is already imported, raises
    ImportError.
    """
    _stand_in.refuse_imported()
    _stand_in.register()


def unregister() -> None:
    """Undoes `register`: the names are free again; modules already imported under them keep working."""
    _stand_in.unregister()
