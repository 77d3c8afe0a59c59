"""TLS with a key log: the frames of a connection are those that it has in plaintext, in both trackers."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Direction, Flag, Kind, Record
from decoders.tls.outcome import TlsOutcome
from decoders.tls.records import ContentType
from decoders.wire.ledger import SkipReason
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.columnar.equality import packets_between, placed
from tests.decoders.wire.conversation import (
    EVENTS,
    TO_BROKER,
    TO_CLIENT,
    BitFlip,
    Event,
    bit_flips,
    exchanges,
    flipped,
    frames_in,
    of_kind,
)
from tests.decoders.wire.encrypted import (
    MILLISECOND,
    NAMES,
    PLAIN,
    SIDES,
    both,
    cuts,
    encrypted,
    overhead,
    packets,
    plainly,
    said,
    suites,
)
from tests.examples import examples

CLOSE_NOTIFY, USER_CANCELED = b"\x01\0", b"\x01\x5a"


@examples(60)
@given(suites, st.integers(1, 300), st.integers(20, 3000), st.booleans(), cuts)
def test_any_segmentation_gives_the_records_of_plaintext(
    suite: tuple[int, int], segment: int, size: int, updates: bool, cut: list[int]
) -> None:
    writer = TlsWriter(*suite)
    wire = encrypted(EVENTS, writer, size, updates=updates and writer.suite.is_tls_1_3)
    records, ledger = both(packets(wire, segment=segment), writer.key_log, cut)
    assert said(records) == said(plainly(EVENTS))
    assert ledger.framed == PLAIN
    assert ledger.captured == PLAIN + overhead(ledger)
    assert ledger.tls == {TlsOutcome.READ: 1}


def test_frames_have_the_times_and_places_of_the_segments_that_carried_them() -> None:
    writer = TlsWriter(*SUITES[3])
    wire = encrypted(EVENTS, writer, size=50)
    sent = packets(wire, segment=40)
    records, _ = both(sent, writer.key_log)
    positions = {packet.position: packet.captured_at for packet in sent}
    frames = [each for each in records if each.frame]
    assert all(positions[each.position] == each.captured_at for each in frames)
    assert len({each.position for each in frames}) > len(frames) // 2


@pytest.mark.parametrize("suite", SUITES, ids=NAMES)
def test_padding_is_overhead(suite: tuple[int, int]) -> None:
    writer = TlsWriter(*suite)
    records, ledger = both(packets(encrypted(EVENTS, writer, padding=90)), writer.key_log)
    assert said(records) == said(plainly(EVENTS))
    assert ledger.captured == ledger.framed + overhead(ledger)


def test_an_unsupported_suite_is_said_and_skipped() -> None:
    writer = TlsWriter(*SUITES[0])
    wire = encrypted(EVENTS, writer)
    cbc = 0xC013
    wire[1] = TO_CLIENT, wire[1][1].replace(b"\0\xc0\x2f\0", b"\0" + cbc.to_bytes(2) + b"\0")
    _, ledger = both(packets(wire), writer.key_log)
    assert ledger.tls == {TlsOutcome.UNSUPPORTED_SUITE: 1}
    assert ledger.skipped[SkipReason.ENCRYPTED] == ledger.captured - overhead(ledger)


def test_a_connection_that_is_joined_midway_is_encrypted() -> None:
    writer = TlsWriter(*SUITES[3])
    sent = packets(encrypted(EVENTS, writer))
    records, ledger = both(sent[12:], writer.key_log)
    assert ledger.tls == {TlsOutcome.NO_HANDSHAKE: 1}
    assert ledger.skipped == {SkipReason.ENCRYPTED: ledger.captured}
    assert not list(frames_in(records))
    assert not of_kind(records, Kind.NOT_KAFKA)


@examples(60)
@given(suites, st.integers(0, 10_000), st.integers(0, 2000), st.integers(1, 255))
def test_a_tampered_record_never_decrypts(suite: tuple[int, int], index: int, place: int, bits: int) -> None:
    writer = TlsWriter(*suite)
    wire = encrypted(EVENTS, writer)
    index = 4 + index % (len(wire) - 4)
    direction, data = wire[index]
    changed = bytearray(data)
    changed[place % len(data)] ^= bits
    wire[index] = direction, bytes(changed)
    records, ledger = both(packets(wire), writer.key_log)
    truth = list(frames_in(plainly(EVENTS)))
    found = list(frames_in(each for each in records if each.kind is not Kind.NOT_KAFKA))
    # What is found is true and in order. Behind a header that was changed, reading may go on.
    left = iter(truth)
    assert all(frame in left for frame in found)
    assert len(found) < len(truth)
    # The first record of a client that does not open passes for one of the handshake: what the server
    # sends next then precedes any request, and is not Kafka.
    assert ledger.skipped[SkipReason.ENCRYPTED] or ledger.skipped[SkipReason.OPAQUE]
    assert not of_kind(records, Kind.INVALID_SIZE)


@examples(100)
@given(
    suites,
    st.lists(st.integers(0, 400), min_size=1, max_size=6),
    st.integers(60, 600),
    st.integers(30, 900),
    st.integers(0, 5),
)
def test_lost_packets_accuse_nobody(
    suite: tuple[int, int], lost: list[int], segment: int, size: int, shuffles: int
) -> None:
    writer = TlsWriter(*suite)
    sent = packets(encrypted(exchanges(12), writer, size), segment=segment)
    dropped = {each % len(sent) for each in lost}
    random = Random(shuffles)
    left = [packet for index, packet in enumerate(sent) if index not in dropped]
    for _ in range(shuffles):
        place = random.randrange(len(left) - 1)
        left[place : place + 2] = [left[place + 1]._replace(captured_at=left[place].captured_at), left[place]]
        left.insert(place, left[place])
    records, _ = both(left, writer.key_log, [len(left) // 2])
    truth = set(frames_in(plainly(exchanges(12))))
    whole = [each for each in records if each.frame and len(each.frame) == each.true_length]
    assert {(each.direction, each.frame) for each in whole if each.kind is not Kind.NOT_KAFKA} <= truth
    assert not of_kind(records, Kind.INVALID_SIZE)


@examples(100)
@given(suites, bit_flips, cuts)
def test_no_damage_ends_a_tracker(suite: tuple[int, int], flips: list[BitFlip], cut: list[int]) -> None:
    writer = TlsWriter(*suite)
    both(flipped(packets(encrypted(EVENTS, writer, 300), segment=200), flips), writer.key_log, cut)


def test_bytes_that_were_passed_over_before_a_connection_is_given_up_are_counted() -> None:
    """Behind lost bytes the client sends what looks like records, more of them than are tried."""
    writer = TlsWriter(*SUITES[3])
    seeming = bytes([ContentType.APPLICATION_DATA, 3, 3, 0, 32]) + bytes(32)
    wire = [*encrypted(exchanges(3), writer), (TO_BROKER, bytes(3_000)), (TO_BROKER, 99 * seeming)]
    *sent, _lost, acknowledged, garbage, last = packets(wire, close=False)
    _, ledger = both([*sent, acknowledged, garbage, last], writer.key_log)
    assert ledger.tls == {TlsOutcome.READ: 1, TlsOutcome.LOST_RECORD_NUMBERS: 1}
    assert ledger.skipped[SkipReason.ENCRYPTED] == 99 * len(seeming)


@pytest.mark.parametrize("suite", SUITES, ids=NAMES)
@pytest.mark.parametrize("updates", [False, True])
def test_frames_are_read_again_after_a_loss(suite: tuple[int, int], updates: bool) -> None:
    writer = TlsWriter(*suite)
    events = exchanges(300)
    wire = encrypted(events, writer, updates=updates and writer.suite.is_tls_1_3)
    sent = packets(wire)
    # A request and its response are five packets: data and an acknowledgment each, and none of the handshake.
    without = sent[:40] + sent[44:]
    records, ledger = both(without, writer.key_log)
    assert ledger.tls == {TlsOutcome.READ: 1}
    assert ledger.lost
    assert of_kind(records, Kind.GAP)
    found, truth = list(frames_in(records)), list(frames_in(plainly(events)))
    assert len(truth) - 6 < len(found) < len(truth)
    assert found[-500:] == truth[-500:]


def test_other_protocols_within_tls_are_named() -> None:
    writer = TlsWriter(*SUITES[3])
    events: list[Event] = [
        (TO_BROKER, b"GET / HTTP/1.1\r\n\r\n"),
        (TO_CLIENT, b"HTTP/1.1 200 OK\r\n\r\n"),
    ] * 3
    records, ledger = both(packets(encrypted(events, writer)), writer.key_log)
    (foreign,) = of_kind(records, Kind.NOT_KAFKA)
    assert foreign.frame == b"GET "
    assert dict(ledger.opaque) == {"HTTP": 1}
    assert ledger.tls == {TlsOutcome.READ: 1}


def test_plaintext_is_the_same_with_a_key_log_and_without() -> None:
    records, ledger = both(packets(EVENTS), "", range(0, 60, 7))
    assert records == plainly(EVENTS)
    assert ledger.captured == ledger.framed


def test_a_client_hello_that_no_server_answers_accuses_nobody() -> None:
    """Even if it is the first connection to its port: later ones may be decrypted, and be Kafka."""
    hello = TlsWriter(*SUITES[3]).handshake()[0][1]
    records, ledger = both(packets([(TO_BROKER, hello)]), "")
    (foreign,) = of_kind(records, Kind.NOT_KAFKA)
    assert Flag.RESPONDED in foreign.flags
    assert foreign.frame == hello[:4]
    assert ledger.tls == {TlsOutcome.NO_HANDSHAKE: 1}


@pytest.mark.parametrize("size", [1, 2, 5, 6, 20])
def test_a_client_hello_may_come_in_pieces(size: int) -> None:
    writer = TlsWriter(*SUITES[3])
    (direction, hello), *rest = encrypted(EVENTS, writer)
    pieces: list[Event] = [(direction, hello[at : at + size]) for at in range(0, len(hello), size)]
    records, _ = both(packets([*pieces, *rest], interval=MILLISECOND // 10), writer.key_log)
    assert list(frames_in(records)) == list(frames_in(plainly(EVENTS)))


def closed_by(records: list[Record]) -> Direction:
    """The direction of the only record CLOSED."""
    (closed,) = of_kind(records, Kind.CLOSED)
    return closed.direction


@pytest.mark.parametrize("suite", SUITES, ids=NAMES)
def test_who_says_close_notify_first_has_closed_first(suite: tuple[int, int]) -> None:
    """The broker's alert makes its client send a FIN before the broker does."""
    for direction in (TO_CLIENT, TO_BROKER):
        writer = TlsWriter(*suite)
        wire = encrypted(EVENTS, writer)
        wire.append((direction, writer.record(SIDES[direction], ContentType.ALERT, CLOSE_NOTIFY)))
        for known_from in (0, len(wire)):
            records, ledger = both(packets(wire), writer.key_log, known_from=known_from)
            assert closed_by(records) == direction
            assert said(records) == said(plainly(EVENTS))
            assert ledger.framed == PLAIN


@pytest.mark.parametrize("suite", SUITES, ids=NAMES)
def test_a_close_notify_behind_the_fin_of_the_other_side_closes_nothing_first(
    suite: tuple[int, int],
) -> None:
    """A client that gives up sends a FIN, and the broker responds with its alert."""
    writer = TlsWriter(*suite)
    wire = encrypted(EVENTS, writer)
    wire.append((TO_CLIENT, writer.record(SIDES[TO_CLIENT], ContentType.ALERT, CLOSE_NOTIFY)))
    *before, alert, acknowledged, fin, own_fin, last = packets_between(wire, interval=MILLISECOND)
    for known_from in (0, len(wire)):
        sent = placed([*before, fin, alert, acknowledged, own_fin, last])
        records, _ = both(sent, writer.key_log, known_from=known_from)
        assert closed_by(records) == TO_BROKER


@pytest.mark.parametrize("suite", SUITES, ids=NAMES)
def test_other_alerts_close_nothing(suite: tuple[int, int]) -> None:
    writer = TlsWriter(*suite)
    wire = encrypted(EVENTS, writer)
    wire.append((TO_CLIENT, writer.record(SIDES[TO_CLIENT], ContentType.ALERT, USER_CANCELED)))
    records, _ = both(packets(wire), writer.key_log)
    assert closed_by(records) == TO_BROKER
