"""Benches run with small loads and report their keys; the figures have no meaning."""

from __future__ import annotations

import pytest

from streaming.bench import archiving, feed, hostile, owners, pipeline
from streaming.bench.pipeline import Load

FEW = Load("few", 20, 2_000, 1_000)


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.timeout(600)
def test_archiving() -> None:
    measured = archiving.measure((FEW,), turns=1)
    assert set(measured["ratios"]) == {"archiving_vs_monitor_few"}
    assert measured["figures"].keys() == {"archiving_few_frames_per_second", "monitor_few_frames_per_second"}
    assert min(measured["ratios"].values()) > 0


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.timeout(200)
def test_feed() -> None:
    """Its bytes are those of the topic."""
    measured = feed.measure(packets=30_000, rounds=1)
    assert set(measured["ratios"]) == {"feed_vs_track", "blocks_vs_records"}
    assert measured["ratios"]["feed_vs_track"] > 1
    assert measured["ratios"]["blocks_vs_records"] < 1
    figures = measured["figures"]
    assert 0 < figures["stored_bytes_per_frame"] < figures["stored_bytes_per_record_of_one_frame"]
    assert figures["topic_bytes_per_frame"] > 0


@pytest.mark.slow
def test_hostile() -> None:
    measured = hostile.measure(frames=200)
    assert measured["figures"].keys() == {f"{kind}_microseconds" for kind in hostile.KINDS}
    assert measured["ratios"].keys() == {
        f"{kind}_vs_ordinary" for kind in hostile.KINDS if kind != "ordinary"
    }
    assert min(measured["figures"].values()) > 0


@pytest.mark.slow
def test_owners() -> None:
    measured = owners.measure(entries=90, clients=300, stepped=60)
    assert measured["ratios"].keys() == {"owner_vs_finding", "owners_vs_batch"}
    figures = measured["figures"]
    assert 0 < figures["opening_microseconds"] < figures["finding_microseconds"]


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.timeout(900)
def test_pipeline() -> None:
    measured = pipeline.measure((FEW,), (Load("few", 20, 2_000, 2_000),), FEW)
    assert set(measured["ratios"]) == {"monitor_vs_bare_few", "cores_1_to_2"}
    assert min(measured["ratios"].values()) > 0
    batches = {name for name in measured["figures"] if name.startswith("batch_seconds")}
    assert batches == {
        "batch_seconds_few_connections_1k_frames",
        "batch_seconds_few_connections_2k_frames",
    }
