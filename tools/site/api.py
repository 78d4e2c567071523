"""The pages of the API reference: Python's from docstrings, as `help()` shows them, and C's from the header."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

MODULES = (
    *("regard", "regard.options", "regard.torch", "regard.torch.transformers", "regard.jax", "regard.distributed"),
    *("regard.flash_attn", "regard.flash_mla", "regard.flashinfer", "regard.aiter"),
)
SECTION = re.compile(r"^/\* -+ (.*?) -+ \*/$", re.MULTILINE)
FUNCTION = r"REGARD_API[^;]*?\b(?P<function>regard_\w+)\([^;]*;(?: */\*.*?\*/)?"
TYPE = (
    r"typedef (?:enum|struct) (?P<type>regard_\w+)(?:[^{;]*\{.*?^\})?[^;]*;(?:\n#define \w+_INIT(?:[^\n]*\\\n)*[^\n]*)?"
)
DECLARATION = re.compile(f"^(?:{FUNCTION}|{TYPE})", re.MULTILINE | re.DOTALL)


def pages(root: Path) -> dict[str, str]:
    """Markdown by the name of its page; a module whose framework is not installed is left out."""
    found = {"api/c": of_header((root / "include/regard/regard.h").read_text())}
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        found[f"api/{name}"] = of_module(module)
    return found


def fence(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip()}\n```\n"


def of_module(module: object) -> str:
    parts = [f"# {module.__name__}\n", fence(inspect.getdoc(module) or "")]
    for name in sorted(getattr(module, "__all__", ())):
        thing = getattr(module, name)
        if callable(thing):
            parts.append(f"## {name}\n")
            if signature(thing):
                parts.append(fence(f"{name}{signature(thing)}", "python"))
            parts.append(fence(inspect.getdoc(thing) or ""))
            if inspect.isclass(thing):
                parts += [part for member in members(thing) for part in member]
    return "\n".join(parts)


def signature(thing: object) -> str:
    try:
        return str(inspect.signature(thing))
    except (TypeError, ValueError):  # of the extension: its docstring has it
        return ""


def members(cls: type) -> list[tuple[str, str]]:
    own = {name: member for name, member in vars(cls).items() if not name.startswith("_") and inspect.getdoc(member)}
    return [(f"### {cls.__name__}.{name}\n", fence(inspect.getdoc(member))) for name, member in own.items()]


def of_header(header: str) -> str:
    """A section of the header is a section of the page, with a heading for each type and function."""
    first, *rest = SECTION.split(header)
    parts = ["# C\n", fence(first[: first.index("*/") + 2], "c")]
    for title, text in zip(rest[::2], rest[1::2]):  # noqa: B905
        parts.append(f"## {title[0].upper()}{title[1:]}\n")
        end = 0
        for match in DECLARATION.finditer(text):
            parts += [f"### {match['function'] or match['type']}\n", fence(text[end : match.end()], "c")]
            end = match.end()
        if re.search(r"\w", text[end:]):
            parts.append(fence(text[end:], "c"))
    return "\n".join(parts)
