#!/usr/bin/env python3
"""Draws the tables of docs/function-gallery.md from tests/python/flex_functions.py, where each function stands as text
and as it is written for FlexAttention.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python"))

import flex_functions as functions  # noqa: E402
from regard.functions import LANGUAGE_TYPES  # noqa: E402
from regard.functions.torch_trace import Traces  # noqa: E402
from regard.functions.tree import Named, filled  # noqa: E402

PAGE = ROOT / "docs/function-gallery.md"
BEGIN, END = "<!-- generated from the code by tools/function_gallery.py -->", "<!-- end of the generated part -->"
SOURCE = Path(functions.__file__).read_text()
# Functions that make the tensors are not shown.
SHOWN = [
    node
    for node in ast.parse(SOURCE).body
    if isinstance(node, ast.FunctionDef) and node.name not in ("floats", "whole")
]


def words_of(purpose: str, function, text: str) -> str:
    """The words of a problem, with the names that the function's tensors have in its module."""
    names = {id(value): name for name, value in vars(functions).items() if isinstance(value, torch.Tensor)}
    tensors = [tensor for tensor, _, _ in Traces().of(purpose, function, torch.device("cpu")).tensors]
    named = [Named(names[id(tensor)], tensor.shape) for tensor in tensors]
    types = [LANGUAGE_TYPES[str(tensor.dtype).removeprefix("torch.")] for tensor in tensors]
    declared = ",".join(f"{name}:{kind}[{len(name.shape)}]" for name, kind in zip(named, types))
    return f"{purpose}={filled(text, named)}" + (f" tensors={declared}" if declared else "")


def entries(listed: str) -> dict[str, ast.expr]:
    """The Python function of each entry of KEEPS or SCORES, as an expression: a lambda, or a name."""
    for node in ast.parse(SOURCE).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == listed:
            return {key.value: value.elts[0] for key, value in zip(node.value.keys, node.value.values)}
    raise SystemExit(f"tests/python/flex_functions.py has no {listed}")


def code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def drawn() -> str:
    lines = []
    for purpose, listed in (("keep", "KEEPS"), ("score", "SCORES")):
        lines += ["| | words | for FlexAttention |", "|---|---|---|"]
        for name, expression in entries(listed).items():
            function, text = getattr(functions, listed)[name]
            lines.append(f"| {name} | {code(words_of(purpose, function, text))} | {code(ast.unparse(expression))} |")
        lines.append("")
    definitions = "\n\n".join(ast.get_source_segment(SOURCE, node) for node in SHOWN)
    return "\n".join([*lines, "```python", definitions, "```"])


def updated(page: str) -> str:
    """The page with its tables drawn again."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{drawn()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
