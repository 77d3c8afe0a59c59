"""`bench pipeline` runs with a small load and reports its keys; the figures have no meaning."""

from __future__ import annotations

import pytest

from streaming.bench.pipeline import Load, measure


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_small_load_is_measured_from_end_to_end() -> None:
    load = Load("few", 20, 2_000, 1_000)
    measured = measure((load,), (Load("few", 20, 2_000, 2_000),), load)
    assert set(measured["ratios"]) == {"monitor_vs_bare_few", "cores_1_to_2"}
    assert min(measured["ratios"].values()) > 0
    batches = {name for name in measured["figures"] if name.startswith("batch_seconds")}
    assert batches == {
        "batch_seconds_few_connections_1k_frames",
        "batch_seconds_few_connections_2k_frames",
    }
