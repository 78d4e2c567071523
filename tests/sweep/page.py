"""docs/results/transformers.md: which models were swept, which are refused, and which could not be made."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers

from regard.torch.transformers.arguments import HARMLESS

from .conditions import CONDITIONS
from .special import DIFFERENT

PAGE = Path(__file__).parents[2] / "docs/results/transformers.md"
MEANING = {
    "plain": "without padding",
    "left": "left padding",
    "right": "right padding",
    "gaps": "padding between tokens",
    "packed": "packed sequences, whose `position_ids` restart at 0",
    "chunks": "a prompt in two parts, then one token, with a growing cache and left padding",
    "static": "the same with a fixed-size cache; without gradients",
    "kept": "`logits_to_keep=3`",
    "both sides": "`config.is_causal = False`",
}
assert MEANING.keys() == CONDITIONS.keys()
Results = list[dict[str, Any]]


def outcomes(results: Results, *kinds: str) -> Iterator[tuple[str, str, Any]]:
    """Class, condition and result, for results of these kinds."""
    for result in results:
        for condition, outcome in result.get("found", {}).items():
            (kind, value), *_ = outcome.items()
            if kind in kinds:
                yield result["class"], condition, value


def complaints(results: Results, known: str) -> list[str]:
    """Wrong results, and classes that are refused or left out although the page, `known`, does not name them."""
    wrong = [
        f"{name}, {condition}: {f'{value:.1g} times the allowed error' if isinstance(value, float) else value}"
        for name, condition, value in outcomes(results, "wrong", "failed")
        if condition not in DIFFERENT.get(name, {})
    ]
    refused = [
        f"{name}, {condition}, is refused, and the page does not say so: {sentence}"
        for name, condition, sentence in outcomes(results, "refused")
        if f"`{name}`" not in known
    ]
    left_out = [
        f"{result['class'] or result['module']} is left out, and the page does not say so: {result['why']}"
        for result in results
        if "why" in result and f"`{result['class'] or result['module']}`" not in known
    ]
    return [*wrong, *refused, *left_out]


def summary(results: Results) -> str:
    made = [result for result in results if "found" in result]
    calling = [result for result in made if result["calls"]]
    runs = sum(1 for _ in outcomes(calling, "equal"))
    return (
        f"transformers {transformers.__version__}: {len(results)} model classes, of which {len(made)} were made "
        f"and ran, and {len(calling)} call attention functions: equal in {runs} runs"
    )


def write(results: Results) -> None:
    results = sorted(results, key=lambda result: (result["module"], result["class"]))
    PAGE.write_text("\n".join(lines(results)) + "\n")


def lines(results: Results) -> Iterator[str]:
    yield "# transformers: results"
    yield ""
    yield "Written by `./dev test --whole`; do not edit by hand. What is compared, and how:"
    yield "[transformers.md](../transformers.md#the-sweep)."
    yield ""
    yield from wrapped(summary(results) + ".")
    yield ""
    yield "| condition | what it is | equal | refused | different | not run |"
    yield "|---|---|---|---|---|---|"
    calling = [result for result in results if result.get("calls")]
    for name, meaning in MEANING.items():
        count = [sum(x[1] == name for x in outcomes(calling, *kinds)) for kinds in COLUMNS]
        yield f"| {name} | {meaning} | " + " | ".join(map(str, count)) + " |"
    yield ""
    yield from wrapped(
        "Not run: the model has no such input, or fails with its own attention too. Different: see below."
    )
    yield from section("Different, and why", different(results))
    yield from section("Refused", grouped([(sentence, name) for name, _, sentence in outcomes(results, "refused")]))
    silent = [
        ("no attention, or its own implementation", x["class"]) for x in results if "found" in x and not x["calls"]
    ]
    yield from section("Calls no attention function", grouped(silent))
    left_out = [(result["why"], result["class"] or result["module"]) for result in results if "why" in result]
    yield from section("Could not be made, or fails with eager attention too", grouped(left_out))
    yield from section("Arguments that are known to be harmless", [f"`{x}`: {why}" for x, why in HARMLESS.items()])


COLUMNS = (("equal",), ("refused",), ("wrong", "failed"), ("not run",))


def different(results: Results) -> list[str]:
    return [
        f"`{name}`, {condition}: {DIFFERENT.get(name, {}).get(condition, value)}"
        for name, condition, value in outcomes(results, "wrong", "failed")
    ]


def grouped(reasons: list[tuple[str, str]]) -> list[str]:
    classes: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for reason, name in reasons:
        classes[reason][name] = None
    most_first = sorted(classes.items(), key=lambda group: -len(group[1]))
    return [f"{plain(reason)}: " + ", ".join(f"`{name}`" for name in names) for reason, names in most_first]


def plain(reason: str) -> str:
    """As plain prose, without links, addresses or code."""
    for mark, instead in (
        ("`", "'"),
        ("[", "("),
        ("]", ")"),
        ("<", "("),
        (">", ")"),
        ("://", ":"),
        ("*", "\\*"),
        ("_", "\\_"),
    ):
        reason = reason.replace(mark, instead)
    return textwrap.shorten(reason, 200, placeholder=" …")


def section(title: str, items: list[str]) -> Iterator[str]:
    if items:
        yield from ("", f"## {title}")
        for item in items:
            yield from wrapped(f"- {item}", "  ")


def wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
