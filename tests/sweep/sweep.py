"""The results of one model class under every condition."""

from __future__ import annotations

from typing import Any

import torch

from regard.errors import RefusedError

from . import compare
from .conditions import CONDITIONS, NotApplicable, output
from .inputs import candidates, made
from .models import model_of

SEEDS = (0, 1, 2)  # rounding may change a choice of experts or keys, but hardly under two of them


def words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def swept(kind: type) -> dict[str, Any]:
    """{"why": …} if the model cannot be made or does not run with its own attention.

    Otherwise the result of each condition ("found"), how often attention was called ("calls"), and with which
    "arguments". A condition gives {"equal": error}, {"wrong": error}, {"refused": sentence}, {"failed": error} or
    {"not run": why}.
    """
    try:
        model = model_of(kind)
    except TimeoutError:
        raise
    except Exception as error:
        return {"why": f"cannot be made: {words(error)}"}
    try:
        makers = makers_of(model)
    except TimeoutError:
        raise
    except Exception as error:
        return {"why": f"does not run: {words(error)}"}
    compare.calls.clear()
    found = {name: under(model, name, makers) for name in CONDITIONS}
    return {"found": found, "calls": compare.calls.pop("attention", 0), "arguments": sorted(compare.calls)}


def makers_of(model: torch.nn.Module) -> dict[str, Any]:
    """Uses the first inputs that the model accepts with its own attention."""
    model.set_attn_implementation("eager")
    first: Exception | None = None
    for makers in candidates(model):
        try:
            with torch.no_grad():
                output(model(**made(model, makers)))
            return makers
        except TimeoutError:
            raise
        except Exception as error:
            first = first or error
    raise first or LookupError("it has no inputs")


def under(model: torch.nn.Module, name: str, makers: dict[str, Any]) -> dict[str, Any]:
    """Equal under the first seed, or under two of three."""
    errors = []
    for seed in SEEDS:
        try:
            torch.manual_seed(seed)
            inputs = made(model, makers)
            theirs = compare.result_of(model, "eager", CONDITIONS[name], inputs)
        except TimeoutError:
            raise
        except NotApplicable as why:
            return {"not run": str(why)}
        except Exception as error:
            return {"not run": words(error)}
        try:
            ours = compare.result_of(model, "regard", CONDITIONS[name], inputs)
        except TimeoutError:
            raise
        except RefusedError as error:
            return {"refused": str(error)}
        except Exception as error:
            return {"failed": words(error)}
        errors.append(compare.distance(ours, theirs))
        if len(errors) == 1 and errors[0] <= 1:
            return {"equal": errors[0]}
    middle = sorted(errors)[1]
    return {"equal" if middle <= 1 else "wrong": middle}
