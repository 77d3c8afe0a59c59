"""The bench runs, and its capture is what it says."""

from __future__ import annotations

import io

import pytest

from decoders.frame.record import Closing, Kind, Pairing
from decoders.tls.key_log import KeyLog
from decoders.wire.pcap import PcapReader
from streaming.bench import wire
from streaming.bench.synthetic_capture import (
    SHORT_CONNECTION,
    EncryptedCapture,
    ShortConnections,
    SyntheticCapture,
)
from streaming.user_error import UserError
from tests.decoders.wire.conversation import SCHEMAS, feed_all, new_tracker
from tests.decoders.wire.encrypted import overhead


@pytest.mark.parametrize("kind", [SyntheticCapture, EncryptedCapture])
def test_the_capture_is_one_conversation_a_client(kind: type[SyntheticCapture]) -> None:
    capture, key_log = kind(clients=3), KeyLog()
    key_log.add(EncryptedCapture.key_log)
    file = io.BytesIO()
    for block in capture.blocks():
        file.write(block)
        if capture.packets > 1_500:
            break
    file.seek(0)
    packets = list(PcapReader(file))
    assert len(packets) == capture.packets
    tracker = new_tracker(key_log=key_log)
    records = feed_all(tracker, packets)
    assert len({record.connection for record in records}) == 3
    assert {record.kind for record in records} == {Kind.OPENED, Kind.REQUEST, Kind.RESPONSE}
    assert {record.pairing for record in records if record.kind is Kind.RESPONSE} == {Pairing.MATCHED}
    assert {record.closing for record in records} == {Closing.NONE}
    assert tracker.ledger.captured == tracker.ledger.framed + overhead(tracker.ledger)
    assert bool(overhead(tracker.ledger)) == (kind is EncryptedCapture)
    assert [packet.captured_at for packet in packets] == sorted(packet.captured_at for packet in packets)
    assert SCHEMAS.api(records[-1].paired_api_key) is not None


def test_short_connections_are_whole_and_have_as_many_packets_as_they_say() -> None:
    capture = ShortConnections(clients=3)
    blocks, file = capture.blocks(), io.BytesIO()
    file.write(next(blocks))
    while capture.packets < 4 * 3 * SHORT_CONNECTION:
        file.write(next(blocks))
    file.seek(0)
    tracker = new_tracker()
    records = feed_all(tracker, list(PcapReader(file)))
    assert len({record.connection for record in records}) == 4 * 3
    assert [record.closing for record in records if record.kind is Kind.CLOSED] == [Closing.FIN] * 4 * 3
    assert [record.pairing for record in records if record.kind is Kind.RESPONSE] == [
        Pairing.MATCHED
    ] * 4 * 4 * 3
    assert tracker.ledger.captured == tracker.ledger.framed > 0


@pytest.mark.slow
def test_the_bench_reports_its_ratios() -> None:
    measured = wire.measure(packets=20_000, rounds=1, long_capture=20_000_000)
    assert measured["name"] == "wire"
    assert set(measured["ratios"]) == {
        "frames_vs_dpkt",
        "frames_vs_libpcap",
        "tls_vs_plain",
        "short_connections_vs_steady",
        "memory_latter_vs_former_half",
    }
    assert measured["figures"]["frames"] > 1_000
    assert all(value > 0 for value in (measured["figures"] | measured["ratios"]).values())


def test_a_missing_peer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="package tcpdump"):
        wire.measure()
