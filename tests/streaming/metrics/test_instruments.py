"""Equal observations counted together have the same result as one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from streaming.metrics.instruments import BulkHistogram

BOUNDS = (0.5, 1, 3)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 2.0, 64.0]), st.integers(0, 50))))
def test_counted_together_or_one_by_one_the_page_is_the_same(seen: list[tuple[float, int]]) -> None:
    one_by_one, together = CollectorRegistry(), CollectorRegistry()
    histogram = Histogram("delay_seconds", "A delay.", unit="seconds", buckets=BOUNDS, registry=one_by_one)
    bulk = BulkHistogram("delay_seconds", "A delay.", BOUNDS, "seconds")
    together.register(bulk)
    for value, count in seen:
        bulk.observe(value, count)
        for _ in range(count):
            histogram.observe(value)
    pages = [generate_latest(registry).decode().splitlines() for registry in (one_by_one, together)]
    created = "delay_seconds_created"
    assert [[line for line in page if created not in line] for page in pages][1] == [
        line for line in pages[0] if created not in line
    ]
