"""`import aiter` finds this package."""

from __future__ import annotations

from ..stand_in import Release, StandIn

VERSION = "0.1.20"  # the release whose interface this is

_stand_in = StandIn(
    "regard.aiter",
    {"aiter": "", "aiter.mla": ".mla", "aiter.ops": ".ops", "aiter.ops.mha": ".ops.mha"},
    (Release("amd-aiter", VERSION, "aiter", ("aiter",)),),
)


def register() -> None:
    """From now on `import aiter`, `aiter.ops.mha` and `aiter.mla` find this package.

    The rest of AITER is not provided: importing it raises ImportError. Takes precedence over an installed aiter and
    warns about it; if aiter is already imported, raises ImportError.
    """
    _stand_in.refuse_imported()
    _stand_in.register()


def unregister() -> None:
    """Undoes `register`: the names are free again; modules already imported under them keep working."""
    _stand_in.unregister()
