"""No function of a front end silently drops an argument: each one changes the result, is harmless, or is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch


@dataclass
class Audit:
    """A function, its first arguments, and another value for each other argument, sorted by its effect.

    changes: gives another result. harmless: gives the same one, except for the order of sums. refused: raises an error
    that names the argument.
    neutral: the first values of arguments that have no default.
    """

    function: Callable[..., Any]
    inputs: dict[str, Any]
    changes: dict[str, Any]
    harmless: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, Any] = field(default_factory=dict)
    neutral: dict[str, Any] = field(default_factory=dict)

    def results(self, **arguments: Any) -> list[torch.Tensor]:
        torch.manual_seed(0)
        found = self.function(**{**self.inputs, **self.neutral, **arguments})
        return [tensor for tensor in (found if isinstance(found, tuple) else (found,)) if tensor is not None]

    def check(self, argument: str) -> None:
        if argument in self.refused:
            with pytest.raises((ValueError, NotImplementedError, RuntimeError), match=argument):
                self.results(**{argument: self.refused[argument]})
            return
        before = self.results()
        value = (self.changes | self.harmless)[argument]
        after = self.results(**{argument: value})
        equal = len(before) == len(after) and all(map(_equal, before, after))
        assert equal == (argument in self.harmless)


WRONG = ["text", 3, 2.5, torch.zeros(2, 2), (1, 2), object(), {}, torch.zeros(2).to_sparse(), print, -5, None]


def check_wrong_values(call: Callable[..., Any], argument: str) -> None:
    """Either a value has a meaning, or there is one sentence, which says what is wrong."""
    for wrong in WRONG:
        try:
            call(**{argument: wrong})
        except (ValueError, TypeError, NotImplementedError) as error:
            said = str(error)
            meant = (argument, "needs", "must be", "plan again", "is missing")
            assert "\n" not in said and any(word in said for word in meant), (argument, wrong, said)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-5, atol=1e-5)


def cases(audits: dict[str, Audit]) -> list[Any]:
    """(name, argument) of every argument that is in some table."""
    return [
        (name, argument)
        for name, audit in audits.items()
        for argument in (*audit.changes, *audit.harmless, *audit.refused)
    ]


def undecided(audit: Audit) -> set[str]:
    """Arguments that are in no table, and names in tables that are not arguments."""
    decided = {*audit.inputs, *audit.changes, *audit.harmless, *audit.refused}
    return decided ^ set(inspect.signature(audit.function).parameters)
