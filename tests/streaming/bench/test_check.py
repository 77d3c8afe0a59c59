"""`bench check` runs, and its capture breaks no rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from streaming.bench import check
from streaming.bench.check import CONNECTIONS, write_capture
from streaming.bench.synthetic_capture import BROKER_PORT
from streaming.check.examination import examine
from streaming.user_error import UserError


def test_the_capture_is_complete_and_breaks_no_rule(tmp_path: Path) -> None:
    made = write_capture(tmp_path / "a.pcap", 5_000)
    examination = examine(tmp_path / "a.pcap", default_schemas(), [BROKER_PORT])
    assert (examination.frames, examination.connections) == (made, CONNECTIONS)
    assert made >= 5_000
    assert (examination.findings, examination.undecodable) == ([], {})
    assert {fate for fate, size in examination.ledger.items() if size} == {"framed"}


@pytest.mark.slow
def test_the_bench_reports_its_ratio() -> None:
    measured = check.measure(frames=3_000, rounds=1)
    assert measured["name"] == "check"
    assert set(measured["ratios"]) == {"check_vs_tshark"}
    assert measured["figures"]["frames"] >= 3_000


def test_a_missing_tshark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="package tshark"):
        check.measure()
