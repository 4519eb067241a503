"""Curves of speed against size as SVG, both axes logarithmic, a panel for each table."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 330, 70, 40, 250, 40
COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8e5ea2", "#c77b0a", "#2a9d8f", "#6b4f2a", "#888888")
DASHES = {"gemmd": "", "CuPy": "6 3", "Triton": "2 3"}


def ticks(low, high):
    """The powers of ten and their halves of a logarithmic axis that lie within its ends."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]


def panel(title, unit, sizes, curves, offset):
    """One panel, `offset` pixels down. curves: {name: [value or None, one for each size]}."""
    values = [v for curve in curves.values() for v in curve if v]
    low, high = min(values) / 1.3, max(values) * 1.3

    def x(size):
        span = math.log(sizes[-1] / sizes[0]) or 1
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(size / sizes[0]) / span

    def y(value):
        share = math.log(value / low) / math.log(high / low)
        return offset + TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)

    lines = [f'<text x="{LEFT}" y="{offset + 22}" class="title">{escape(title)}</text>']
    for value in ticks(low, high):
        lines.append(
            f'<path class="grid" d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" class="tick">{value:g}</text>'
        )
    for size in sizes:
        lines.append(
            f'<text x="{x(size):.1f}" y="{offset + HEIGHT - BOTTOM + 18}" class="size">{size}</text>'
        )
    lines.append(
        f'<text class="size" transform="translate(16 {offset + HEIGHT / 2}) rotate(-90)">'
        f"{escape(unit)}</text>"
    )
    ends = sorted(curves, key=lambda name: -(curves[name][-1] or 0))
    for number, name in enumerate(ends):
        colour = COLOURS[number % len(COLOURS)]
        dash = DASHES.get(name.split(" ")[0], "8 3 2 3")
        points = [(x(s), y(v)) for s, v in zip(sizes, curves[name]) if v]
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
        line = offset + TOP + 8 + 18 * number
        lines.append(
            f'<path class="curve" stroke="{colour}" stroke-dasharray="{dash}" d="M{path}"/>'
            f'<path class="curve" stroke="{colour}" stroke-dasharray="{dash}" '
            f'd="M{WIDTH - RIGHT + 12} {line - 4}h28"/>'
            f'<text x="{WIDTH - RIGHT + 46}" y="{line}">{escape(name)}</text>'
        )
    return lines


def svg(panels):
    """panels: a list of (title, unit, sizes, curves) with at least one value each."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(panels)}" '
        f'width="{WIDTH}" height="{HEIGHT * len(panels)}">',
        "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:14px}"
        ".tick{text-anchor:end}.size{text-anchor:middle}.grid{stroke:#ddd;fill:none}"
        ".curve{fill:none;stroke-width:2}</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, each in enumerate(panels):
        lines += panel(*each, HEIGHT * number)
    return "\n".join([*lines, "</svg>", ""])
