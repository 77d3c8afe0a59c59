"""A chart is well-formed SVG, and its lines lie within its axes."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from streaming.bench.chart import chart

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(0, 1e9)
LINES = st.dictionaries(
    st.text("ab<&>\" '", max_size=5), st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1), min_size=1
)


@given(LINES)
def test_every_line_is_drawn_within_the_picture(lines: dict[str, list[tuple[float, float]]]) -> None:
    drawn = ElementTree.fromstring(chart("title", "x", "y", lines))
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    polylines = drawn.findall(f"{SVG}polyline")
    assert len(polylines) == len(lines)
    for polyline, points in zip(polylines, lines.values(), strict=True):
        places = [tuple(map(float, place.split(","))) for place in polyline.attrib["points"].split()]
        assert len(places) == len(points)
        assert all(0 <= x <= width and 0 <= y <= height for x, y in places)
    assert set(lines) <= {text.text or "" for text in drawn.findall(f"{SVG}text")}
