"""What bytes cost that are held, or sought for a frame: no more for each packet the more there are."""

from __future__ import annotations

import pytest

from decoders.frame.record import Kind
from decoders.wire.chunk import PIECE_COST
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.framing import PREFIX
from decoders.wire.ledger import Contradiction, Ledger, SkipReason
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.stream import RESENT_WITHIN, Stream
from decoders.wire.synthesis import SyntheticConnection
from tests.decoders.wire.columnar.equality import assert_equal, placed
from tests.decoders.wire.conversation import (
    CLIENT,
    SERVER,
    TO_BROKER,
    exchanges,
    feed_all,
    metadata,
    new_tracker,
    of_kind,
    prefixed,
)
from tests.decoders.wire.test_stream import bytes_and_gaps, push, segment

SIZE = 200
"""Bytes of a segment in which a frame seems to begin."""


def beginnings(segments: int) -> list[bytes]:
    """Segments in each of which a Metadata request seems to begin. All end with the last, and in vain.

    Each hides the next beginning from those before it, in the name of a topic.
    """
    sent = []
    for number in range(segments):
        left = (segments - number) * SIZE
        # No client ID, no tags, and more topics than there are bytes for.
        topics = bytes([left & 127 | 128, left >> 7 & 127 | 128, left >> 14])
        begun = prefixed(metadata(1))[PREFIX:12] + b"\xff\xff\0" + topics + b"\1"
        begun = (left - PREFIX).to_bytes(PREFIX) + begun
        sent.append((begun + b"\0" + b"\1\0" * SIZE)[: SIZE - 1] + bytes([len(begun) + 1]))
    return sent


def midway(segments: list[bytes]) -> list[Packet]:
    """Send segments on a connection that is joined midway."""
    connection = SyntheticConnection(CLIENT, SERVER, initial_sequences=(5_000, 9_000))
    return placed(packet for each in segments for packet in connection.sent(0, TO_BROKER, each))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the frames that are decoded to find a boundary."""
    sizes: list[int] = []
    is_request = FrameDetector.is_request

    def noted(self: FrameDetector, frame: bytes, *, cut: bool = False) -> bool:
        sizes.append(len(frame))
        return is_request(self, frame, cut=cut)

    monkeypatch.setattr(FrameDetector, "is_request", noted)
    return sizes


@pytest.mark.parametrize("segments", [10, 100])
def test_frames_that_seem_to_begin_in_every_segment_are_not_all_decoded(
    segments: int, decoded: list[int]
) -> None:
    packets = midway(beginnings(segments))
    records = assert_equal(packets, range(0, len(packets), 7))
    assert not of_kind(records, Kind.REQUEST)
    # Both trackers decode them.
    assert segments * SIZE < sum(decoded) <= 2 * 2 * segments * SIZE


@pytest.mark.parametrize("before", [1, 100])
def test_a_request_behind_them_is_found(before: int) -> None:
    requests = [metadata(number) for number in range(2, 5)]
    records = assert_equal(midway([*beginnings(before), *map(prefixed, requests)]))
    assert [each.frame for each in of_kind(records, Kind.REQUEST)] == requests


def test_a_request_within_one_that_seems_to_begin_is_found() -> None:
    """The bytes that a false beginning spans are decoded twice."""
    within = prefixed(metadata(2))
    size = (SIZE + len(within) - PREFIX).to_bytes(PREFIX)
    records = assert_equal(midway([size + beginnings(3)[0][PREFIX:], within]))
    assert [each.frame for each in of_kind(records, Kind.REQUEST)] == [metadata(2)]


def test_bytes_ahead_are_not_looked_at_for_each_acknowledgment(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are a millisecond apart, so that after ten seconds one is dropped each millisecond."""
    looks: list[int] = []
    drop_doubted = Stream._drop_doubted

    def noted(self: Stream, captured_at: int) -> None:
        looks.append(captured_at)
        drop_doubted(self, captured_at)

    monkeypatch.setattr(Stream, "_drop_doubted", noted)
    ledger = Ledger()
    stream = Stream(ledger, 0)
    for at in range(0, 2 * RESENT_WITHIN, RESENT_WITHIN // 1_000):
        push(stream, segment(10 + at // 1_000_000, b"x", at=at))
        stream.acknowledge(0, at)
    assert len(looks) == 10
    assert 1_000 <= 2_000 - ledger.skipped[SkipReason.AFTER_CLOSE] <= 1_100


def test_bytes_are_disputed_once() -> None:
    ledger = Ledger()
    stream = Stream(ledger, 0)
    for at in range(4, 8):
        push(stream, segment(at, b"x"))
    for payload in (b"yyyy", b"zzzz", b"xxxx"):
        push(stream, segment(4, payload))
    assert ledger.contradictions == {Contradiction.CONTENT: 1}
    assert ledger.skipped == {SkipReason.CONFLICTING: 4, SkipReason.DUPLICATE: 8}
    assert bytes_and_gaps(push(stream, segment(0, b"abcd"))) == [b"abcd", 1, 1, 1, 1]
    assert ledger.skipped == {SkipReason.CONFLICTING: 8, SkipReason.DUPLICATE: 8}


def in_pieces(number: int, pieces: int) -> list[Packet]:
    """A client whose requests follow a hole, byte by byte, each behind another hole."""
    client = SocketAddress(CLIENT.address, 40_000 + number)
    connection = SyntheticConnection(client, SERVER)
    packets = connection.opened(0)
    for direction, data in exchanges(1):
        packets += connection.sent(0, direction, data)
    connection.sent(0, TO_BROKER, b"lost")
    for _ in range(pieces):
        connection.sent(0, TO_BROKER, b"x")
        packets += connection.sent(0, TO_BROKER, b"y")
    return packets


def test_pieces_of_evicted_connections_are_not_passed_on() -> None:
    """Else the packet that evicts them would take as long as all that they hold."""
    packets = placed(packet for number in range(4) for packet in in_pieces(number, 100))
    most = 300 * (PIECE_COST + 1)
    records = assert_equal(packets, (300,), max_held=most)
    evicted = [each.connection for each in of_kind(records, Kind.CLOSED)]
    gaps = [each.connection for each in of_kind(records, Kind.GAP)]
    assert len(evicted) == 2
    assert not set(evicted) & set(gaps)
    # Those that the end of the capture closes are passed on.
    assert len(set(gaps)) == 2
    tracker = new_tracker(max_held=most)
    feed_all(tracker, packets)
    assert tracker.ledger.skipped[SkipReason.UNSYNCHRONISED] == 2 * 100
