"""The fast path reads TLS: it makes the records of the scalar tracker, and takes most packets."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Flag, Kind
from decoders.tls.key_log import KeyLog
from decoders.tls.outcome import TlsOutcome
from decoders.tls.records import ContentType
from decoders.tls.session import Side
from decoders.wire.columnar import tls_ahead
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.ledger import SkipReason
from decoders.wire.segment import Packet, Segment, SocketAddress
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.columnar.equality import interleaved, packets_between, placed
from tests.decoders.wire.columnar.forging import ACK, FAR, like
from tests.decoders.wire.conversation import (
    CLIENT,
    EVENTS,
    TO_BROKER,
    TO_CLIENT,
    exchanges,
    frames_in,
    new_columnar_tracker,
    response,
    to_client,
)
from tests.decoders.wire.encrypted import MILLISECOND, NAMES, SIDES, both, encrypted, packets, plainly, suites
from tests.examples import examples

segments = st.sampled_from([33, 100, 1460, 60_000])
sizes = st.sampled_from([30, 200, 1 << 14])
windows = st.sampled_from([1, 2, 7, 30])
randoms = st.integers(0, 1_000_000_000).map(Random)
cuts = st.lists(st.integers(0, 1_000), max_size=4)
ACKNOWLEDGMENT = slice(42, 46)
"""Of a TCP header behind those of Ethernet and IPv4."""


def conversations(random: Random, count: int, segment: int, size: int) -> tuple[list[Packet], str]:
    """Return the packets of connections over TLS and in plaintext, and a key log of the former."""
    sent, keys = [], ""
    for number in range(count):
        events = [*EVENTS[: random.randrange(4, len(EVENTS))], *exchanges(random.randrange(9))[2:]]
        if random.random() < 0.8:
            writer = TlsWriter(*random.choice(SUITES), seed=number)
            updates = random.random() < 0.3 and writer.suite.is_tls_1_3
            events = encrypted(events, writer, size, padding=random.choice([0, 9]), updates=updates)
            keys += writer.key_log if random.random() < 0.9 else ""
        client = SocketAddress(CLIENT.address, 41_000 + number)
        close = random.random() < 0.7
        sent.append(packets_between(events, client, interval=MILLISECOND, segment=segment, close=close))
    return interleaved(sent, random), keys


@examples(60)
@given(randoms, st.integers(1, 8), segments, sizes, windows, cuts)
def test_many_connections_at_once(  # noqa: PLR0917 - drawn
    random: Random, count: int, segment: int, size: int, window: int, cut: list[int]
) -> None:
    sent, keys = conversations(random, count, segment, size)
    both(sent, keys, cut, window=window)


@examples(60)
@given(randoms, st.floats(0, 0.1), segments, sizes, windows, cuts)
def test_lost_repeated_and_swapped_packets(  # noqa: PLR0917 - drawn
    random: Random, rate: float, segment: int, size: int, window: int, cut: list[int]
) -> None:
    sent, keys = conversations(random, 3, segment, size)
    for _ in range(random.randrange(9)):
        at = random.randrange(len(sent) - 1)
        sent[at], sent[at + 1] = sent[at + 1], sent[at]
    kept = [each for each in sent for _ in range(random.choice([1, 1, 1, 2])) if random.random() >= rate]
    both(placed(kept), keys, cut, window=window)


@examples(60)
@given(randoms, st.sampled_from([20, 300, 1 << 30]), st.sampled_from([1, 500]), segments, windows, cuts)
def test_bytes_ahead_of_those_that_come_next(  # noqa: PLR0917 - drawn
    random: Random, distance: int, slower: int, segment: int, window: int, cut: list[int]
) -> None:
    sent, keys = conversations(random, 2, segment, 200)
    begin = sent[0].captured_at
    sent = [each._replace(captured_at=begin + slower * (each.captured_at - begin)) for each in sent]
    for at in sorted((random.randrange(len(sent)) for _ in range(4)), reverse=True):
        sent.insert(at, like(sent[at], flags=ACK, sequence=distance, payload=b"x"))
    both(placed(sent), keys, cut, window=window)


def test_bytes_ahead_keep_no_connection_on_the_slow_path(
    slow_path: list[Segment], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TlsWriter(*SUITES[3])
    sent = packets(encrypted(exchanges(300), writer), segment=50)
    sent.insert(100, like(sent[100], flags=ACK, sequence=FAR, payload=b"x"))
    key_log = KeyLog()
    key_log.add(writer.key_log)
    monkeypatch.setattr(tls_ahead, "MIN_WINDOW", 16)
    new_columnar_tracker(key_log=key_log).feed(PacketBatch.of(placed(sent)))
    assert len(slow_path) < 80 < len(sent) // 20


@examples(30)
@given(randoms, st.sampled_from([2_000, 20_000, 200_000]), segments, windows, cuts)
def test_bounded_memory(random: Random, max_held: int, segment: int, window: int, cut: list[int]) -> None:
    sent, keys = conversations(random, 4, segment, 1 << 14)
    both(sent, keys, cut, window=window, max_held=max_held, max_connections=3)


@examples(30)
@given(suites, segments, windows, cuts)
def test_unusual_records_between_others(
    suite: tuple[int, int], segment: int, window: int, cut: list[int]
) -> None:
    """Alerts, empty records, key updates, and a record whose type nobody knows."""
    writer = TlsWriter(*suite)
    wire = encrypted(exchanges(8), writer)
    for number in range(8):
        kind = [ContentType.ALERT, ContentType.APPLICATION_DATA, ContentType.HANDSHAKE, 99][number % 4]
        content = b"" if kind == ContentType.APPLICATION_DATA else b"\1\0"
        wire.append((TO_BROKER, writer.record(Side.CLIENT, kind, content)))
        if writer.suite.is_tls_1_3:
            wire.append((TO_CLIENT, writer.key_update(Side.SERVER)))
        for direction, data in exchanges(1):
            wire.append((direction, writer.data(SIDES[direction], data)))
    _, ledger = both(packets(wire, segment=segment), writer.key_log, cut, window=window)
    assert ledger.tls[TlsOutcome.READ] == 1


@pytest.mark.parametrize("suite", SUITES, ids=NAMES)
def test_frames_of_many_records_and_records_of_many_segments(suite: tuple[int, int]) -> None:
    topics = [{"name": f"a-topic-with-a-long-name-{number}"} for number in range(3_000)]
    large = response("Metadata", 9, 1, brokers=[], topics=topics)
    assert len(large) > 4 * (1 << 14)
    events = [*exchanges(3)[:3], *to_client(large), *exchanges(3)[2:]]
    writer = TlsWriter(*suite)
    records, _ = both(packets(encrypted(events, writer), segment=1448), writer.key_log, [40], window=6)
    assert list(frames_in(records)) == list(frames_in(plainly(events)))


def test_an_excluded_client_over_tls() -> None:
    writer = TlsWriter(*SUITES[3])
    sent = packets(encrypted(exchanges(9), writer), segment=100)
    _, ledger = both(sent, writer.key_log, window=3, excludes_client="client".__eq__)
    assert ledger.skipped[SkipReason.EXCLUDED]


def test_most_packets_of_tls_take_the_fast_path(
    slow_path: list[Segment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the handshakes, the packets of the first window, and the ends."""
    writer = TlsWriter(*SUITES[3])
    sent = packets(encrypted(exchanges(300), writer), segment=50)
    key_log = KeyLog()
    key_log.add(writer.key_log)
    monkeypatch.setattr(tls_ahead, "MIN_WINDOW", 16)
    tracker = new_columnar_tracker(key_log=key_log)
    frames = len(tracker.feed(PacketBatch.of(sent)).frames.sequences)
    assert frames == 602
    assert len(sent) > 1_800
    assert len(slow_path) < 40


@pytest.mark.parametrize(("missing", "flag"), [(0, Flag.INFORMED), (1, Flag.NONE)])
def test_a_response_counts_as_read_once_its_whole_record_is_acknowledged(missing: int, flag: Flag) -> None:
    """The last bytes of a record are its tag: who lacks one of them has read nothing of it."""
    writer = TlsWriter(*SUITES[3])
    sent = packets(encrypted(exchanges(1), writer), close=False)
    *before, _alone, request, _, _, _ = sent
    acknowledgment = int.from_bytes(request.data[ACKNOWLEDGMENT]) - missing
    data = bytearray(request.data)
    data[ACKNOWLEDGMENT] = acknowledgment.to_bytes(4)
    records, _ = both([*before, request._replace(data=bytes(data))], writer.key_log, window=2)
    assert [each.flags for each in records if each.kind is Kind.REQUEST] == [Flag.NONE, flag]
