"""Real captures, read whole and in part: wherever reading begins or ends, nobody else is accused."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from decoders.frame.record import Kind
from decoders.schema.registry import default_schemas
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import Packet
from decoders.wire.tracker import Tracker
from streaming.check.examination import Examination, examine
from streaming.demo.offences import PLANTED
from streaming.feeder.source import open_capture
from tests.captures import planted, real_clients
from tests.decoders.wire.conversation import balances

CAPTURES = pytest.mark.parametrize(
    "capture", [real_clients.CAPTURE, planted.CAPTURE], ids=["real clients", "planted"]
)
STEP = 2
"""Every so many packets a reading begins, or ends."""
COUNTING = "kip1313/instance-id-not-lifelong"
Told = set[tuple[str, str, str]]


@functools.cache
def packets(capture: Path) -> list[Packet]:
    with open_capture(capture) as read:
        return list(read)


def examined(kept: list[Packet], folder: Path) -> Examination:
    path = folder / "part.pcap"
    with path.open("wb") as stream:
        writer = PcapWriter(stream, kept[0].link_type)
        for packet in kept:
            writer.write(packet)
    return examine(path, default_schemas())


def told(examination: Examination) -> Told:
    """Who was found to do what. A rule that counts the connections of a client accuses none of them."""
    return {
        (finding.rule, finding.client, finding.broker)
        for finding in examination.findings
        if (finding.rule, finding.level) != (COUNTING, "information")
    }


@functools.cache
def whole(capture: Path) -> Examination:
    return examine(capture, default_schemas())


@pytest.mark.slow
@CAPTURES
def test_the_whole_capture_is_read_to_the_byte(capture: Path) -> None:
    examination = whole(capture)
    # The kernel sent a byte again here and there.
    assert set(+Counter(examination.ledger)) <= {"framed", "skipped-duplicate"}
    assert examination.packets == {"tcp": len(packets(capture))}
    assert examination.opaque == 0


def test_real_clients_violate_nothing() -> None:
    examination = whole(real_clients.CAPTURE)
    assert examination.undecodable == {}
    assert [each for each in examination.findings if each.level == "violation"] == []
    assert examination.frames > 150


def test_what_was_planted_is_found() -> None:
    found = {finding.rule for finding in whole(planted.CAPTURE).findings}
    assert found >= {rule for offence in PLANTED for rule in offence.rules}


def test_every_api_of_a_client_and_a_group_is_in_the_traffic_of_real_clients() -> None:
    tracker = Tracker(default_schemas(), ports=(), run=1)
    records = [record for packet in packets(real_clients.CAPTURE) for record in tracker.feed(packet)]
    names = default_schemas().api_names
    asked = {names[int.from_bytes(record.frame[:2])] for record in records if record.kind is Kind.REQUEST}
    assert asked >= {"ApiVersions", "Metadata", "Produce", "Fetch", "FindCoordinator", "OffsetCommit"}
    assert asked >= {"JoinGroup", "SyncGroup", "LeaveGroup", "ConsumerGroupHeartbeat"}


@pytest.mark.slow
@CAPTURES
def test_from_any_packet_on_no_finding_is_new(capture: Path, tmp_path: Path) -> None:
    for start in range(1, len(packets(capture)), STEP):
        assert told(examined(packets(capture)[start:], tmp_path)) <= told(whole(capture)), start


@pytest.mark.slow
@CAPTURES
def test_up_to_any_packet_no_finding_is_new(capture: Path, tmp_path: Path) -> None:
    for end in range(1, len(packets(capture)), STEP):
        assert told(examined(packets(capture)[:end], tmp_path)) <= told(whole(capture)), end


@pytest.mark.slow
@CAPTURES
@pytest.mark.parametrize("seed", range(30))
def test_with_packets_lost_no_finding_is_new_and_every_byte_is_booked(
    capture: Path, seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    rate = random.uniform(0, 0.2)
    kept = [packet for packet in packets(capture) if random.random() >= rate]
    assert told(examined(kept, tmp_path)) <= told(whole(capture))
    tracker = Tracker(default_schemas(), ports=(), run=1)
    for packet in kept:
        tracker.feed(packet)
        assert balances(tracker.ledger)
        assert all(balances(connection.ledger) for connection in tracker.connections)
    tracker.finish()
    assert tracker.ledger.captured == tracker.ledger.framed + tracker.ledger.skipped.total()
