"""An examination gives what the bytes of a file say, for any size of the window."""

from __future__ import annotations

from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from expectations.judging.terms import Terms
from streaming.check.examination import Examination, examine
from tests.exchange import ID_A, ID_B, SECOND, Exchange
from tests.streaming.captures import packets_of, violating, write_capture, write_packets

NOT_REPEATED = "kip35/negotiation-not-repeated"


def long_conversation() -> Exchange:
    """Rules of every family have something to say."""
    exchange = violating()
    exchange.records.pop()
    for number in range(40):
        exchange.request("Metadata", 14, instance_id=ID_B if number % 3 else ID_A)
        if number % 10 == 0:
            exchange.request("Metadata", 12, frame=bytes.fromhex("0003000c00000009ffff00ff"))
            exchange.gap()
    exchange.close()
    return exchange


def told(examination: Examination) -> object:
    findings = {finding.id: (finding.likeness(), finding.message) for finding in examination.findings}
    counts = (examination.frames, examination.connections, examination.undecodable)
    return findings, examination.coverage, counts


@pytest.mark.parametrize("window", [1, 3, 17])
def test_the_size_of_the_window_changes_nothing(tmp_path: Path, window: int) -> None:
    path = write_capture(tmp_path / "long.pcap", long_conversation())
    whole = examine(path, default_schemas())
    assert len(whole.findings) >= 3
    assert told(examine(path, default_schemas(), window=window)) == told(whole)


def test_a_file_gives_the_findings_of_the_exchange_it_carries(tmp_path: Path) -> None:
    """From packets as from records: rule, 4-tuple, occurrences and context."""
    examination = examine(write_capture(tmp_path / "a.pcap", violating()), default_schemas())
    expected = violating().judge().findings
    assert sorted(finding.likeness() for finding in examination.findings) == sorted(
        finding.likeness() for finding in expected
    )


def test_every_frame_is_counted_and_every_byte_booked(tmp_path: Path) -> None:
    exchange = long_conversation()
    examination = examine(write_capture(tmp_path / "a.pcap", exchange), default_schemas())
    frames = [record.frame for record in exchange.records if record.frame]
    assert examination.frames == len(frames)
    assert examination.ledger["framed"] == sum(4 + len(frame) for frame in frames)
    assert examination.ledger["lost"] == 4 * 100
    assert sum(examination.undecodable.values()) == 4
    assert examination.connections == 1


@pytest.mark.parametrize(("first_asks", "found"), [(True, [NOT_REPEATED]), (False, [])])
def test_hundreds_of_connections_under_one_client_id_are_judged(
    tmp_path: Path, first_asks: bool, found: list[str]
) -> None:
    """The last of them does not ask for versions. It accuses nobody if the first did not either."""
    packets = []
    for number in range(200):
        exchange = Exchange(client=f"10.0.0.1:{2_000 + number}", at=number * 10 * SECOND)
        if 0 < number < 199 or (number == 0 and first_asks):
            exchange.negotiate(client_id="app")
        exchange.request("Metadata", 12, client_id="app")
        exchange.close()
        packets += packets_of(exchange)
    examination = examine(write_packets(tmp_path / "suite.pcap", packets), default_schemas())
    assert [finding.rule for finding in examination.findings] == found
    assert not any("forgotten" in row.reasons for row in examination.coverage)


def test_a_listener_is_named_as_configured(tmp_path: Path) -> None:
    path = write_capture(tmp_path / "a.pcap", violating())
    examination = examine(path, default_schemas(), terms=Terms(listeners={"10.0.0.2:9092": "WATCHED"}))
    assert {finding.listener for finding in examination.findings} == {"WATCHED"}
    assert {finding.broker for finding in examination.findings} == {"10.0.0.2:9092"}
