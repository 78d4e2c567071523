"""The tensors of a problem by name."""

from __future__ import annotations

from typing import Any


class Tensors(dict[str, Any]):
    """A dict that answers `==` with True or False, where an array on the other side would compare every element."""

    __array_ufunc__ = None
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other
