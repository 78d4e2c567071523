"""Functions that stand in for another library's take its arguments: the same names, order and defaults."""

import importlib
import inspect
from functools import reduce
from pathlib import Path

import pytest

pytest.importorskip("torch")

SIGNATURES = Path(__file__).with_name("host_signatures.txt")


def of_other_libraries():
    """(module, name, arguments) of each; indented lines continue the previous one."""
    module = None
    for line in SIGNATURES.read_text().replace("\n    ", " ").splitlines():
        if line.startswith("["):
            module = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, arguments = line.partition("(")
            yield module, name, arguments.removesuffix(")")


def describe(parameter):
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    return f"{stars}{parameter.name}" + ("" if parameter.default is parameter.empty else f"={parameter.default}")


@pytest.mark.parametrize(("module", "name", "arguments"), list(of_other_libraries()))
def test_arguments_are_those_of_the_library(module, name, arguments):
    function = reduce(getattr, name.split("."), importlib.import_module(module))
    assert ", ".join(map(describe, inspect.signature(function).parameters.values())) == arguments
