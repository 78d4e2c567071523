"""Classes that other libraries call through `apply`, as they call autograd functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def applied(name: str, function: Callable[..., Any], arguments: str, ignored: str = "") -> type:
    """A class whose `apply` is `function`, which autograd knows how to differentiate.

    arguments: the positional parameters of `apply`, by the names that `function` has for them. is_grad_enabled says
    whether the call is recorded. ignored: parameters that `function` lacks, as they do not change the result.
    """
    names = arguments.split()

    def apply(*given: Any) -> Any:
        if len(given) > len(names):
            raise TypeError(f"{name}.apply takes at most {len(names)} arguments ({', '.join(names)}), not {len(given)}")
        named = {word: value for word, value in zip(names, given) if word not in ignored.split()}
        recorded = named.pop("is_grad_enabled", True)
        with torch.set_grad_enabled(torch.is_grad_enabled() and recorded):
            return function(**named)

    return type(name, (), {"__doc__": f"`apply` is {function.__name__}.", "apply": staticmethod(apply)})
