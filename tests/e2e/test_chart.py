"""A chart is well-formed SVG, and its lines lie within its axes."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.chart import chart, round_ticks

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(0, 1e9)
LINES = st.dictionaries(
    st.text("ab<&>\" '", max_size=5), st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1), min_size=1
)


@given(LINES)
def test_every_line_is_within_the_image(lines: dict[str, list[tuple[float, float]]]) -> None:
    drawn = ElementTree.fromstring(chart("title", "x", "y", lines))
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    polylines = drawn.findall(f"{SVG}polyline")
    assert len(polylines) == len(lines)
    for polyline, points in zip(polylines, lines.values(), strict=True):
        positions = [tuple(map(float, position.split(","))) for position in polyline.attrib["points"].split()]
        assert len(positions) == len(points)
        assert all(0 <= x <= width and 0 <= y <= height for x, y in positions)
    assert set(lines) <= {text.text or "" for text in drawn.findall(f"{SVG}text")}


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (2.885, [0, 0.5, 1, 1.5, 2, 2.5, 3]),
        (1000, [0, 200, 400, 600, 800, 1000]),
        (60, [*range(0, 70, 10)]),
        (0, [0, 1]),
    ],
)
def test_the_ticks_are_round(most: float, ticks: list[float]) -> None:
    assert round_ticks(most) == ticks


@given(NUMBERS)
def test_the_ticks_cover_the_lines_and_are_few(most: float) -> None:
    ticks = round_ticks(most)
    assert ticks[0] == 0 and ticks[-1] >= most * (1 - 1e-9)
    assert 2 <= len(ticks) <= 8
