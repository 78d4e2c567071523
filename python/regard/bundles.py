"""Bundles: kernels that were built ahead of time, which calls take before they look into the cache or compile."""

from __future__ import annotations

import os
import warnings
from typing import Any

from . import _core


def add_bundle(path: str | os.PathLike[str]) -> None:
    """From now on kernels come from this bundle too, after those that the library has and the bundles before it.

    `regard build` makes bundles. A kernel that was not to be had before is looked for again.

    Raises InvalidError where the file is no bundle, and where REGARD_TRUSTED_KEYS wants another signature.
    """
    _core.add_bundle(os.fspath(path))


def _entry_points() -> Any:
    from importlib import metadata

    found: Any = metadata.entry_points()
    return found.select(group="regard.bundles") if hasattr(found, "select") else found.get("regard.bundles", ())


def add_installed() -> None:
    """Adds those of installed packages, which name their file's path as an entry point of the group regard.bundles.

    The first call that makes a plan comes here.
    """
    for point in sorted(_entry_points(), key=lambda point: str(point.name)):
        try:
            add_bundle(point.load())
        except Exception as error:  # whatever a package does: calls have their other places
            warnings.warn(f"regard: the bundle of the package {point.name} is not used: {error}", stacklevel=2)
