"""`bench archiving` runs with a small load and reports its keys; the figures have no meaning."""

from __future__ import annotations

import pytest

from streaming.bench.archiving import measure
from streaming.bench.pipeline import Load


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_small_load_is_measured_from_end_to_end() -> None:
    measured = measure((Load("few", 20, 2_000, 1_000),), turns=1)
    assert set(measured["ratios"]) == {"archiving_vs_monitor_few"}
    assert measured["figures"].keys() == {"archiving_few_frames_per_second", "monitor_few_frames_per_second"}
    assert min(measured["ratios"].values()) > 0
