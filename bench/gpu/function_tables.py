"""The table of bench/gpu/functions.py."""

from __future__ import annotations

from bench.shared.markdown import Line, paragraph, table

COLUMNS = ("regard", "given", "plain", "flex")


def _ratio(line: Line, key: str) -> str:
    return f"{line[key]:.2f}" if key in line else "–"


def functions(lines: list[Line]) -> list[str]:
    rows = [
        [
            line["cell"],
            f"{line['tiles']:.3f}",
            *(f"{line['ms'][name]:.3f}" if name in line["ms"] else "–" for name in COLUMNS),
            *(_ratio(line, key) for key in ("over_plain", "over_plain_given", "over_flex", "over_flex_given")),
        ]
        for line in lines
    ]
    first = lines[0]
    text = (
        f"{first['machine']}, {first['date']}, commit {first['commit']}. bf16, 16 heads, a cold second-level cache "
        "before each call, alternating calls; ms. `given` is our call with a mask made beforehand, as FlexAttention's "
        "block mask is; `plain` is attention without a function. ÷ plain compares rates in the tiles of 128 x 128 in "
        "which a row sees a key; ÷ Flex is FlexAttention's time over ours."
    )
    head = ["", "tiles", "Regard", "given", "plain", "Flex", "÷ plain", "given", "÷ Flex", "given"]
    return [*paragraph(text), *table(head, rows)]
