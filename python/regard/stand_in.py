"""Modules of this package under the names of another library, for programs that import that library themselves."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType


@dataclass(frozen=True)
class Release:
    """A release of the other library, whose interface this is: its name for package managers, and the names that it
    installs. `module` is the one that has __version__."""

    name: str
    version: str
    module: str
    top_level: tuple[str, ...]


class _Distribution(importlib.metadata.Distribution):
    """The metadata of a release for importlib.metadata, by which programs check for the library and its version."""

    def __init__(self, release: Release) -> None:
        self._texts = {
            "METADATA": f"Metadata-Version: 2.1\nName: {release.name}\nVersion: {release.version}\n",
            "top_level.txt": "".join(f"{name}\n" for name in release.top_level),
        }

    def read_text(self, filename: str) -> str | None:
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{path} is in no package: Regard stands in for it")


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_")


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of `package` under the other library's names, from `register` to `unregister`."""

    def __init__(self, package: str, modules: dict[str, str], releases: Sequence[Release]) -> None:
        """modules: the module of `package` for each name, relative to it."""
        self._package, self._modules, self._releases = package, modules, releases
        self._topmost = sorted({name.partition(".")[0] for name in modules})

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._modules:
            return None
        is_package = any(name.startswith(fullname + ".") for name in self._modules)
        return importlib.machinery.ModuleSpec(fullname, self, origin=__file__, is_package=is_package)

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        name = getattr(context, "name", None)
        asked = None if name is None else _normalized(name)
        return [_Distribution(release) for release in self._releases if asked in (None, _normalized(release.name))]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """A separate module, so that it has its own name and spec."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        ours = importlib.import_module(f"{self._package}{self._modules[module.__name__]}")
        module.__doc__ = ours.__doc__
        module.__file__ = ours.__file__
        vars(module).update((name, value) for name, value in vars(ours).items() if not name.startswith("__"))
        for release in self._releases:
            if release.module == module.__name__:
                vars(module)["__version__"] = release.version

    def _is_own(self, module: ModuleType) -> bool:
        return getattr(getattr(module, "__spec__", None), "loader", None) is self

    def refuse_imported(self) -> None:
        for name in self._topmost:
            module = sys.modules.get(name)
            if module is not None and not self._is_own(module):
                raise ImportError(
                    f"{name} is already imported, from {getattr(module, '__file__', 'somewhere')}: call "
                    f"{self._package}.register() before its first import"
                )

    def register(self) -> None:
        """Takes precedence over an installed library, and warns about it."""
        if self in sys.meta_path:
            return
        for name in self._topmost:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin:
                warnings.warn(
                    f"{name} is installed ({spec.origin}); until {self._package}.unregister() its name is Regard's",
                    stacklevel=3,
                )
        sys.meta_path.insert(0, self)

    def unregister(self) -> None:
        """The names are free again; modules already imported under them keep working."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name in self._modules:
            module = sys.modules.get(name)
            if module is not None and self._is_own(module):
                del sys.modules[name]
