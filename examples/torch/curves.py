"""Loss curves as a picture (SVG)."""

from __future__ import annotations

import math
from html import escape

WIDTH, HEIGHT, LEFT, TOP, BELOW = 640, 320, 50, 40, 60
TICK = 0.5  # of loss
COLORS, PEN = ["#f0b429", "#30638e"], [7, 2]  # the first is wide, so that it shows under an equal second one


def picture(title: str, losses: dict[str, list[float]]) -> str:
    """Two named curves over the steps."""
    steps = max(map(len, losses.values()))
    top = math.ceil(max(map(max, losses.values())) / TICK) * TICK

    def place(step: int, loss: float) -> str:
        return f"{LEFT + WIDTH * step / max(steps - 1, 1):.1f} {TOP + HEIGHT * (1 - loss / top):.1f}"

    def text(x: float, y: float, words: str, anchor: str = "start") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'

    width, height = LEFT + WIDTH + 20, TOP + HEIGHT + BELOW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
        '  font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(LEFT, 24, title),
    ]
    for tick in range(round(top / TICK) + 1):
        y = TOP + HEIGHT * (1 - tick * TICK / top)
        parts.append(f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="#dddddd"/>')
        parts.append(text(LEFT - 8, y + 4, f"{tick * TICK:.1f}", "end"))
    between = max(steps // 6, 1)
    for step in range(between, steps + 1, between):
        parts.append(text(LEFT + WIDTH * (step - 1) / max(steps - 1, 1), TOP + HEIGHT + 20, str(step), "middle"))
    at = LEFT
    for (name, curve), color, pen in zip(losses.items(), COLORS, PEN):
        line = "L".join(place(step, loss) for step, loss in enumerate(curve))
        parts.append(f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="{pen}" stroke-linejoin="round"/>')
        parts.append(f'<path d="M{at} {height - 16}h24" stroke="{color}" stroke-width="{pen}"/>')
        parts.append(text(at + 32, height - 12, name))
        at += 60 + 8 * len(name)
    parts.append(text(LEFT + WIDTH, height - 12, "loss over steps", "end"))
    return "\n".join([*parts, "</svg>"]) + "\n"
