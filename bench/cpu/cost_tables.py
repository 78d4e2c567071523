"""Tables of Regard against Regard: features, the sweep over head dimensions, scaling over cores."""

from __future__ import annotations

from bench.cpu.goals import COST, EFFICIENCY, NEIGHBOURS, Goal
from bench.shared.markdown import MISSED, Line, gflops, paragraph, provenance, table

CLAIMS = {
    "feature": "Each feature beside the plain problem, d = 128, s = 2048",
    "causal": "Causal beside full",
    "window": "A window of 1024 keys beside full, s = 16384, per visible pair",
    "varlen": "Packed sequences of skewed lengths, two of them empty, beside one dense sequence, per visible pair",
    "gqa": "32 query heads on 8 key/value heads beside 32 on 32",
}
COLUMNS = [("fwd", "bf16"), ("fwd", "fp32"), ("bwd", "bf16"), ("bwd", "fp32")]
HEAD = [f"{'forward' if pass_ == 'fwd' else 'backward'}, {dtype}" for pass_, dtype in COLUMNS]


def _by_column(lines: list[Line], label: str, figure: str, goal: Goal) -> list[list[str]]:
    """One row per value of `label`, one column per pass and dtype."""
    found = {(line[label], *line["cell"].split()[:2]): line for line in lines}
    rows = []
    for name in dict.fromkeys(line[label] for line in lines):
        cells = [found.get((name, *column)) for column in COLUMNS]
        rows.append([name, *(goal.marked(line[figure]) if line else "–" for line in cells)])
    return rows


def _label(line: Line) -> str:
    """For a feature its case; for other claims the words after pass and dtype in the comparison's name."""
    return line["case"] if line["claim"] == "feature" else " ".join(line["item"].split()[2:])


def features(lines: list[Line]) -> list[str]:
    text = paragraph(f"{provenance(lines)} Time over the base's time; {MISSED} marks a missed goal.")
    for claim, title in CLAIMS.items():
        chosen = [{**x, "label": _label(x)} for x in lines if x["claim"] == claim and x["case"] != x["base"]]
        if chosen:
            rows = _by_column(chosen, "label", "cost", COST[claim])
            text += [*paragraph(f"{title}: goal {COST[claim]}."), *table(["", *HEAD], rows)]
    return text


def sweep(lines: list[Line]) -> list[str]:
    found = {(line["case"], *line["cell"].split()[:2]): line for line in lines}
    rows = []
    for name in dict.fromkeys(line["case"] for line in lines):
        row = [name.removeprefix("d=")]
        for column in COLUMNS:
            line = found.get((name, *column))
            row += [f"{gflops(line):.0f}", NEIGHBOURS.marked(line["cost"])] if line else ["–", "–"]
        rows.append(row)
    head = ["d"]
    for title in HEAD:
        head += [f"{title}, GFLOP/s", "÷ neighbour"]
    text = (
        f"{provenance(lines)} FLOPs as they are, unpadded; beside them the larger ratio to a neighbour per padded "
        f"FLOP: goal {NEIGHBOURS}."
    )
    return [*paragraph(text), *table(head, rows)]


def functions(lines: list[Line]) -> list[str]:
    rows = []
    for line in lines:
        flex = f"{line['of_flex']:.1f}" if "of_flex" in line else "–"
        numbers = [f"{line['visible']:.3f}", f"{line['ms']['mask']:.2f}", f"{line['of_plain']:.2f}"]
        rows.append([line["cell"], *numbers, flex])
    text = f"{provenance(lines)} 16 heads, d = 64."
    head = ["mask", "visible", "ms", "rate per visible pair ÷ plain", "FlexAttention's time ÷ ours"]
    return [*paragraph(text), *table(head, rows)]


def efficiency(lines: list[Line], field: str) -> str:
    """Parallel efficiency from one core (first line) to all (last line) by that field; "–" if it was not measured."""
    first, last = lines[0], lines[-1]
    return f"{last[field] / (last['threads'] * first[field]):.2f}" if field in last else "–"


def scaling(lines: list[Line]) -> list[str]:
    rows = []
    for item in dict.fromkeys(line["item"] for line in lines):
        counts = [line for line in lines if line["item"] == item]
        rows.append(
            [
                item,
                ", ".join(f"{line['threads']}: {gflops(line):.0f}" for line in counts),
                EFFICIENCY.marked(counts[-1]["efficiency"]),
                efficiency(counts, "gflops_arithmetic"),
                efficiency(counts, "gflops_apart"),
                f"{gflops(counts[-1]) / counts[-1]['gflops_apart']:.2f}" if "gflops_apart" in counts[-1] else "–",
            ]
        )
    text = (
        f"{provenance(lines)} s = 8192, d = 128, b·h = 2; efficiency of all cores over one: goal {EFFICIENCY}. Beside "
        "it that of multiplications in registers alone, and of as many processes with a thread and a head each, which "
        "share nothing, and our rate over theirs."
    )
    head = ["", "GFLOP/s by threads", "efficiency", "arithmetic alone", "processes apart", "÷ processes"]
    return [*paragraph(text), *table(head, rows)]
