"""The table of bench/gpu/functions.py."""

from __future__ import annotations

from bench.shared.markdown import Line, paragraph, table

COLUMNS = ("regard", "bits", "plain", "flex")


def functions(lines: list[Line]) -> list[str]:
    rows = [
        [
            line["cell"],
            f"{line['tiles']:.3f}",
            *(f"{line['ms'][name]:.3f}" if name in line["ms"] else "–" for name in COLUMNS),
            *(f"{line[key]:.2f}" if key in line else "–" for key in ("over_plain", "over_flex")),
        ]
        for line in lines
    ]
    first = lines[0]
    text = (
        f"{first['machine']}, {first['date']}, commit {first['commit']}. bf16, 16 heads, a cold second-level cache "
        "before each call, alternating calls; ms. Each call of ours makes its mask; FlexAttention's block mask is made "
        "before. `bits` is the same mask as bits from the caller, without a map of tiles; `plain` is attention without "
        "a function. ÷ plain compares rates in the tiles of 128 x 128 in which a row sees a key; ÷ Flex is "
        "FlexAttention's time over ours."
    )
    head = ["", "tiles", "Regard", "bits", "plain", "Flex", "÷ plain", "÷ Flex"]
    return [*paragraph(text), *table(head, rows)]
