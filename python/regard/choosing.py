"""What decides which kernels compute a problem, before the cost model does."""

from __future__ import annotations

import os
from collections.abc import Callable

from . import _core, call
from ._core import Problem


def choose_by(function: Callable[[Problem, str, dict[str, float]], str | None] | None) -> None:
    """From now on `function` chooses the kernels of each new plan, in all threads of the process; None removes it.

    function(problem, target, candidates): candidates are the ones that the rules accept, by their names in `explain`,
    first the one that would be used without it, with the cost model's estimates in seconds. It returns one of the
    names, or None for the first. The call raises what the function raises. An unknown name gives a warning, and the
    first candidate is used; with REGARD_STRICT the problem is refused.

    It is not called where `family` names the kernels, for a problem that is batch_invariant, and for Plan objects that
    exist. It must not make plans itself.

    Raises TypeError for what is no function.
    """
    _core.choose_by(function)
    call.forget()


def use_tuning(path: str | os.PathLike[str] | None) -> None:
    """From now on new plans follow the tuning records of this file, not those of REGARD_TUNING; None: no records.

    `regard tune` writes such files (docs/tuning.md). A record counts on its device, with its number of threads and
    with the kernels that were measured; `explain` names the record that is used, or says why others are not.

    Raises InvalidError if the file cannot be read or has something else in it.
    """
    _core.use_tuning(None if path is None else os.fspath(path))
    call.forget()
