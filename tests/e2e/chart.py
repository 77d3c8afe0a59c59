"""A line chart as SVG, for the documentation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 760, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 190, 40, 45
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
_MOST_TICKS = 7
_MOST_DOTS = 12
"""Lines of at most this many points have a dot at each."""


def chart(title: str, x_name: str, y_name: str, lines: Mapping[str, Points]) -> str:
    """Draw lines by name. Both axes begin at zero and end at a round number."""
    x_ticks = round_ticks(max(x for points in lines.values() for x, _ in points))
    y_ticks = round_ticks(max(y for points in lines.values() for _, y in points))
    x_most, y_most = x_ticks[-1], y_ticks[-1]
    drawn = [*_axes(title, x_name, y_name, x_ticks, y_ticks)]
    for number, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        positions = [(_x(x, x_most), _y(y, y_most)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in positions)
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        dots = positions if len(positions) <= _MOST_DOTS else []
        drawn.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in dots)
        drawn.append(_text(_WIDTH - _RIGHT + 12, _TOP + 18 * number + 8, name, colour))
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    background = f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
    return "\n".join([head, background, *drawn, "</svg>", ""])


def round_ticks(most: float) -> list[float]:
    """Return the multiples of a round number, from zero to `most` or the next one."""
    # A tenth of the smallest floats is zero.
    unit = (10.0 ** (math.floor(math.log10(most)) - 1) or most) if most else 1.0
    step = next(unit * digits for digits in (1, 2, 5, 10, 20) if most <= unit * digits * (_MOST_TICKS - 1))
    return [step * number for number in range(max(1, math.ceil(most / step)) + 1)]


def _axes(
    title: str, x_name: str, y_name: str, x_ticks: Sequence[float], y_ticks: Sequence[float]
) -> list[str]:
    x_most, y_most = x_ticks[-1], y_ticks[-1]
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    return [
        _text(_LEFT, 20, title, "black"),
        _text(right - 60, _HEIGHT - 8, x_name, "black"),
        _text(6, _TOP - 10, y_name, "black"),
        *(_line(_LEFT, _y(tick, y_most), right, _y(tick, y_most)) for tick in y_ticks),
        *(_text(6, _y(tick, y_most) + 4, f"{tick:,.4g}", "black") for tick in y_ticks),
        *(_text(_x(tick, x_most) - 8, bottom + 18, f"{tick:,.4g}", "black") for tick in x_ticks),
    ]


def _x(value: float, most: float) -> float:
    return _LEFT + value / most * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, most: float) -> float:
    return _HEIGHT - _BOTTOM - value / most * (_HEIGHT - _TOP - _BOTTOM)


def _line(x: float, y: float, other_x: float, other_y: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{other_x:.1f}" y2="{other_y:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{escape(text)}</text>'
