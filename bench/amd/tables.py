"""The table of what bounds the kernels for AMD GPUs."""

from __future__ import annotations

from bench.shared.markdown import MISSED, Line, paragraph, table

BOUNDS = {"gfx942 fwd d128": 0.98, "gfx942 fwd d64": 0.72, "gfx950 fwd d128": 0.88, "gfx950 fwd d64": 0.47}
WAVES = 2  # of a SIMD, forward with d of 128 at most


def _at_least(goal: float, figure: float, digits: int) -> str:
    text = f"{figure:.{digits}f}"
    return f"{text} {MISSED}" if float(text) < goal else text


def _row(line: Line) -> list[str]:
    used, slots = line["resources"], line["slots"]
    target, direction, d = line["cell"].split()
    waves = WAVES if direction == "fwd" and int(d[1:]) <= 128 else 0
    tile = [f"{word.partition('=')[2]}" for word in line["kernel"].split() if word.startswith(("block_q=", "block_k="))]
    return [
        line["cell"],
        " × ".join(tile),
        str(used["registers"] - used["accumulators"]),
        str(used["accumulators"]),
        str(used["scalar_registers"]),
        f"{used['shared_bytes'] / 1024:.1f}",
        str(used["stack_bytes"]),
        _at_least(waves, used["waves"], 1),
        f"{slots['matrix']:.0f}",
        f"{slots['valu']}",
        f"{slots['lds']:.0f}",
        f"{line['conflicts']:.2f}",
        max(slots, key=lambda name: slots[name]),
        _at_least(BOUNDS.get(line["cell"], 0), line["bound"], 2),
    ]


def bounds(lines: list[Line]) -> list[str]:
    goals = ", ".join(f"{goal:g} of {cell}" for cell, goal in BOUNDS.items())
    head = [
        "kernel",
        "tile",
        "VGPR",
        "AGPR",
        "SGPR",
        "LDS KB",
        "scratch",
        "waves",
        "matrix",
        "VALU",
        "LDS",
        "conflicts",
    ]
    head += ["largest", "bound"]
    return [
        *paragraph(
            f"{lines[0]['compiler']}, {lines[0]['date']}, commit {lines[0]['commit']}: plain kernels in bf16. Goals: a "
            f"bound of {goals}; in forward {WAVES} waves of a SIMD where d is 128 at most."
        ),
        *table(head, [_row(line) for line in lines]),
    ]
