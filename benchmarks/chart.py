"""A horizontal bar chart as SVG text, without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, STEP, BAR = 760, 170, 110, 48, 40, 22
OURS, OTHERS, INK, FAINT = "#1f77b4", "#a9b7c6", "#222222", "#777777"


def bars(title: str, rows: Sequence[tuple[str, float, float, float]]) -> str:
    """One bar for each (label, value, lowest, highest), the first one highlighted.

    The thin line on a bar spans the lowest to the highest value seen.
    """
    height = TOP + STEP * len(rows) + 12
    scale = (WIDTH - LEFT - RIGHT) / max(max(value, high) for _, value, _, high in rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="16" y="26" font-size="16" font-weight="bold" fill="{INK}">{escape(title)}</text>',
    ]
    for number, (label, value, low, high) in enumerate(rows):
        y = TOP + number * STEP
        middle = y + BAR / 2
        end = LEFT + max(value, high) * scale
        parts += [
            f'<text x="{LEFT - 10}" y="{middle + 5:.0f}" text-anchor="end" fill="{INK}">{escape(label)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{value * scale:.1f}" height="{BAR}" rx="2" '
            f'fill="{OTHERS if number else OURS}"/>',
            f'<line x1="{LEFT + low * scale:.1f}" y1="{middle}" x2="{LEFT + high * scale:.1f}" '
            f'y2="{middle}" stroke="{FAINT}" stroke-width="1.5"/>',
            f'<text x="{end + 8:.1f}" y="{middle + 5:.0f}" fill="{INK}">{value:,.0f}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
