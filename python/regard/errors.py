"""The exceptions of Regard. Each message is one sentence: what was wrong, and what would work.

==================  =====================  ===========================================================
class               is also a              raised when
==================  =====================  ===========================================================
`InvalidError`      `ValueError`           the input is wrong: text, JSON, an array, a setting, a file
`RefusedError`      `NotImplementedError`  the input is valid and nothing here solves it
`NoKernelError`     `RuntimeError`         planned, but no kernel is available
`NoMemoryError`     `MemoryError`          an allocation failed
`InternalError`     `RuntimeError`         a defect of Regard
==================  =====================  ===========================================================

All derive from `RegardError`. The base class itself is raised only when a callback installed with `regard_interrupt_if`
from C cancels a compile. An argument that is not even the right kind of object is a plain `TypeError`.
"""

from . import _core


class RegardError(Exception):
    """Base of every exception that Regard raises itself."""


class InvalidError(RegardError, ValueError):
    """The input is wrong: text, JSON, an array, a setting or a file."""


class RefusedError(RegardError, NotImplementedError):
    """The input is valid and nothing here solves it; the message says what would."""


class NoKernelError(RegardError, RuntimeError):
    """A plan exists, but no kernel is available; the message lists where it was searched for."""


class NoMemoryError(RegardError, MemoryError):
    """An allocation failed."""


class InternalError(RegardError, RuntimeError):
    """A defect of Regard: please report the message."""


def _printable(sentence: str) -> str:
    return _core.printable(sentence)


_printable._dynamo_marked_constant = True  # type: ignore[attr-defined] # so that PyTorch's compiler shows the sentence


def invalid(sentence: str) -> InvalidError:
    """An error whose message quotes text of callers (names of classes, options, other errors), with control characters
    escaped."""
    return InvalidError(_printable(sentence))


def wrong_type(sentence: str) -> TypeError:
    """The same for an argument that is not even the right kind of object."""
    return TypeError(_printable(sentence))


#: The class of each status name of the C ABI; the extension raises from this table.
BY_STATUS = {
    "invalid": InvalidError,
    "refused": RefusedError,
    "no_kernel": NoKernelError,
    "no_memory": NoMemoryError,
    "internal": InternalError,
    "interrupted": RegardError,
}
