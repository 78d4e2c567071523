"""Bundles: kernels built ahead of time, which calls try before the cache and the compiler."""

from __future__ import annotations

import os
import pathlib
import threading
import warnings
from typing import Any

from . import _core, call
from .errors import RegardError

_GROUP = "regard.bundles"
_this_thread = threading.local()


def add_bundle(path: str | os.PathLike[str]) -> None:
    """From now on kernels are also taken from this bundle, after the built-in ones and bundles added earlier.

    path: the file. `regard build` makes bundles. A kernel that was not found before is searched for again, and new
    plans follow the tuning records in the bundle.

    Raises InvalidError if the file is not a bundle, or if no key of REGARD_TRUSTED_KEYS signed it; RefusedError if no
    keys are trusted and the file or its folder is world-writable.
    """
    _core.add_bundle(os.fspath(path))
    call.forget()


def _text_of(error: BaseException) -> str:
    return str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"


def _warn(what: str, error: BaseException, hint: str = "") -> None:
    warnings.warn(f"regard: {_core.printable(f'{what}: {_text_of(error)}{hint}')}", stacklevel=2)


def _name_of(distribution: Any) -> str:
    try:
        return str(distribution.metadata["Name"])
    except Exception:
        return "without a name"


def _installed() -> dict[tuple[str, str], Any]:
    """The entry points of installed packages by name and value. One unreadable package does not hide the others."""
    from importlib import metadata

    points: dict[tuple[str, str], Any] = {}
    try:
        for distribution in metadata.distributions():
            try:
                if _GROUP not in (distribution.read_text("entry_points.txt") or ""):
                    continue
                for point in distribution.entry_points:
                    if point.group == _GROUP:
                        points.setdefault((point.name, point.value), point)
            except Exception as error:
                _warn(f"the entry points of the package {_name_of(distribution)} cannot be read", error)
    except Exception as error:
        _warn("not all installed packages can be searched for bundles", error)
    return points


def _add(point: Any) -> None:
    path, hint = "", ""
    try:
        path = os.fspath(point.load())
        if not os.path.exists(path) and any(folder.is_file() for folder in pathlib.Path(path).parents):
            hint = "; it is inside an archive: unpack the package, as pip does"
        _core.add_package_bundle(path)
    except (Exception, SystemExit) as error:  # whatever a package raises: calls have other places to search
        _warn(f"the bundle of the package {point.name} is not used", error, hint)


def add_installed() -> bool:
    """Adds the bundles of installed packages, which give the file's path as an entry point of group regard.bundles.

    Runs at the first call that makes a plan. Returns False if this thread is already inside: a package made such a
    call while it was being imported.
    """
    if getattr(_this_thread, "looks", False):
        return False
    _this_thread.looks = True
    try:
        for _, point in sorted(_installed().items()):
            _add(point)
    finally:
        _this_thread.looks = False
    return True
