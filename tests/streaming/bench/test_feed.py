"""`bench feed` runs with a small capture, and its bytes are those of the topic."""

from __future__ import annotations

import pytest

from streaming.bench.feed import measure


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_small_capture_is_measured_from_end_to_end() -> None:
    measured = measure(packets=30_000, rounds=1)
    assert set(measured["ratios"]) == {"feed_vs_track", "blocks_vs_records"}
    assert measured["ratios"]["feed_vs_track"] > 1
    assert measured["ratios"]["blocks_vs_records"] < 1
    figures = measured["figures"]
    assert 0 < figures["stored_bytes_per_frame"] < figures["stored_bytes_per_record_of_one_frame"]
    assert figures["topic_bytes_per_frame"] > 0
