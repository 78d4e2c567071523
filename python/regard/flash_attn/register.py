"""`import flash_attn` finds this package."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import warnings
from typing import TYPE_CHECKING, Any

from . import flavour as flavours
from . import operators_v3 as operators
from .version import VERSION, VERSION_3

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

# The module of this package behind each name of theirs.
_OWN = {
    "flash_attn": "",
    "flash_attn.bert_padding": ".bert_padding",
    "flash_attn.flash_attn_interface": ".flash_attn_interface",
    "flash_attn.layers": ".layers",
    "flash_attn.layers.rotary": ".layers.rotary",
    "flash_attn.ops": ".ops",
    "flash_attn.ops.triton": ".ops.triton",
    "flash_attn.ops.triton.rotary": ".ops.triton.rotary",
    "flash_attn_2_cuda": ".extension",
    "flash_attn_interface": ".v3",
    "flash_attn_3": ".v3",
    "flash_attn_3._C": ".operators_v3",
    "flash_attn_3.flash_attn_interface": ".v3",
}
_VERSIONS = {"flash_attn": VERSION, "flash_attn_3": VERSION_3}
_TOPMOST = {name.partition(".")[0] for name in _OWN}


class _Loader(importlib.abc.Loader):
    """Makes a module of its own with the names of ours, so that theirs has a name and a spec as any module has."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        ours = importlib.import_module(f"{__package__}{_OWN[module.__name__]}")
        module.__doc__ = ours.__doc__
        module.__file__ = ours.__file__
        vars(module).update((name, value) for name, value in vars(ours).items() if not name.startswith("__"))
        if module.__name__ in _VERSIONS:
            vars(module)["__version__"] = _VERSIONS[module.__name__]


class _Distribution(importlib.metadata.Distribution):
    """What importlib.metadata says of a package; programs ask it whether flash_attn is there, and how new it is."""

    def __init__(self, name: str) -> None:
        self._texts = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {_VERSIONS[name]}\n",
            "top_level.txt": f"{name}\n",
        }

    def read_text(self, filename: str) -> str | None:
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{path} is in no package: regard.flash_attn stands in for it")


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _OWN:
            return None
        is_package = any(name.startswith(fullname + ".") for name in _OWN)
        return importlib.machinery.ModuleSpec(fullname, _Loader(), origin=__file__, is_package=is_package)

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        name = getattr(context, "name", None)
        wanted = None if name is None else name.lower().replace("-", "_")
        return [_Distribution(name) for name in _VERSIONS if wanted in (None, name)]


_finder = _Finder()


def _is_own(module: ModuleType) -> bool:
    return isinstance(getattr(getattr(module, "__spec__", None), "loader", None), _Loader)


def _refuse_imported() -> None:
    for name in sorted(_TOPMOST):
        module = sys.modules.get(name)
        if module is not None and not _is_own(module):
            raise ImportError(
                f"{name} is imported already, from {getattr(module, '__file__', 'somewhere')}: call "
                "regard.flash_attn.register() before the first import of it"
            )


def _tell_installed() -> None:
    for name in sorted(_TOPMOST):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            warnings.warn(
                f"{name} is installed ({spec.origin}); until regard.flash_attn.unregister() its name gives Regard's",
                stacklevel=3,
            )


def register(flavour: str = "cuda") -> None:
    """From now on `import flash_attn`, its submodules and `import flash_attn_interface` find this package, and
    torch.ops.flash_attn_3 has its operators.

    flavour: which library's habits a program counts on, "cuda" or "ck". They differ in S_dmask (signed probabilities,
    or random bytes that say what was dropped) and in the LSE of rows that see no key (+inf, or -inf).

    Wins over an installed flash_attn, which is told by a warning; one that is imported already is an ImportError.
    """
    _refuse_imported()
    operators.refuse_others()
    flavours.choose(flavour)
    operators.define()
    if _finder not in sys.meta_path:
        _tell_installed()
        sys.meta_path.insert(0, _finder)


def unregister() -> None:
    """Undoes `register`: the names are free again, and what was imported under them goes on working.

    Operators of torch.ops.flash_attn_3 no longer run. Their schemas stay, so that FlashAttention-3's own extension
    cannot be loaded in the same process.
    """
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in _OWN:
        module = sys.modules.get(name)
        if module is not None and _is_own(module):
            del sys.modules[name]
    operators.undefine()
    flavours.choose("cuda")
