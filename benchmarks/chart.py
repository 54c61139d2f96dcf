"""A horizontal bar chart as SVG text, without a plotting library."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, STEP, BAR = 760, 170, 110, 48, 40, 22
OURS, OTHERS, INK, FAINT = "#1f77b4", "#a9b7c6", "#222222", "#777777"


Row = tuple[str, float, float, float]
"""Label, value, lowest and highest value seen: the thin line on the bar spans those."""


def bars(title: str, rows: Sequence[Row]) -> str:
    """One bar for each row, the first one highlighted."""
    return panels([(title, rows)], {rows[0][0]})


def panels(charts: Sequence[tuple[str, Sequence[Row]]], ours: Collection[str]) -> str:
    """Charts one below the other, each with its own scale; bars with these labels are highlighted."""
    parts: list[str] = []
    top = 0
    for title, rows in charts:
        scale = (WIDTH - LEFT - RIGHT) / max(max(value, high) for _, value, _, high in rows)
        parts.append(
            f'<text x="16" y="{top + 26}" font-size="16" font-weight="bold" fill="{INK}">'
            f"{escape(title)}</text>"
        )
        for number, row in enumerate(rows):
            parts += _bar(row, top + TOP + number * STEP, scale, OURS if row[0] in ours else OTHERS)
        top += TOP + STEP * len(rows) + 12
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" '
            f'viewBox="0 0 {WIDTH} {top}" font-family="sans-serif" font-size="13">',
            f'<rect width="{WIDTH}" height="{top}" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _bar(row: Row, y: int, scale: float, color: str) -> list[str]:
    label, value, low, high = row
    middle = y + BAR / 2
    end = LEFT + max(value, high) * scale
    text = f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return [
        f'<text x="{LEFT - 10}" y="{middle + 5:.0f}" text-anchor="end" fill="{INK}">{escape(label)}</text>',
        f'<rect x="{LEFT}" y="{y}" width="{value * scale:.1f}" height="{BAR}" rx="2" fill="{color}"/>',
        f'<line x1="{LEFT + low * scale:.1f}" y1="{middle}" x2="{LEFT + high * scale:.1f}" '
        f'y2="{middle}" stroke="{FAINT}" stroke-width="1.5"/>',
        f'<text x="{end + 8:.1f}" y="{middle + 5:.0f}" fill="{INK}">{text}</text>',
    ]
