"""Keys of TLS that come late, not at all, or with the session that a ticket resumes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Flag, Kind, Record
from decoders.tls.key_log import KeyLog
from decoders.tls.outcome import TlsOutcome
from decoders.wire.connection import Connection
from decoders.wire.decryption import MAX_KEY_HELD, MAX_KEY_WAIT
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.segment import Packet, SocketAddress
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.columnar.equality import packets_between, placed
from tests.decoders.wire.conversation import (
    CLIENT,
    EVENTS,
    SECOND,
    TO_BROKER,
    TO_CLIENT,
    Event,
    assert_balanced,
    exchanges,
    feed_all,
    frames_in,
    new_tracker,
    of_kind,
    prefixed,
)
from tests.decoders.wire.encrypted import (
    MILLISECOND,
    NAMES,
    PLAIN,
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


@examples(30)
@given(suites, st.integers(0, 60), cuts)
def test_a_key_may_come_after_its_packets(suite: tuple[int, int], known_from: int, cut: list[int]) -> None:
    writer = TlsWriter(*suite)
    sent = packets(encrypted(EVENTS, writer, 400), segment=300)
    records, ledger = both(sent, writer.key_log, cut, known_from=min(known_from, len(sent) - 5))
    assert said(records) == said(plainly(EVENTS))
    assert ledger.tls == {TlsOutcome.READ: 1}


@pytest.mark.parametrize("suite", SUITES, ids=NAMES)
def test_without_a_key_all_is_encrypted_and_nobody_is_accused(suite: tuple[int, int]) -> None:
    writer, other = TlsWriter(*suite), TlsWriter(*suite, seed=1)
    records, ledger = both(packets(encrypted(EVENTS, writer)), other.key_log)
    hellos = sum(len(data) for _, data in writer.handshake()[:2])
    assert not ledger.framed
    change_cipher_spec = 6
    assert 0 < overhead(ledger) <= hellos + change_cipher_spec
    assert ledger.skipped[SkipReason.ENCRYPTED] == ledger.captured - overhead(ledger)
    assert ledger.tls == {TlsOutcome.NO_KEY: 1}
    assert dict(ledger.opaque) == {"TLS": 1}
    (foreign,) = of_kind(records, Kind.NOT_KAFKA)
    assert Flag.RESPONDED in foreign.flags


def test_a_wait_for_a_key_is_bounded_in_bytes() -> None:
    writer = TlsWriter(*SUITES[3])
    large: list[Event] = [(TO_BROKER, prefixed(bytes(1 << 16)))] * 64
    tracker = new_tracker(key_log=KeyLog())
    held = 0
    for packet in packets(encrypted(large, writer), close=False):
        tracker.feed(packet)
        held = max(held, tracker.held)
    assert MAX_KEY_HELD // 2 < held < MAX_KEY_HELD + (1 << 17)
    assert tracker.held == 0
    assert tracker.ledger.tls == {TlsOutcome.NO_KEY: 1}
    tracker.finish()
    assert_balanced(tracker.ledger)


def test_a_wait_for_a_key_is_bounded_in_time() -> None:
    writer = TlsWriter(*SUITES[3])
    sent = packets(encrypted(exchanges(9), writer), interval=MAX_KEY_WAIT // 8, close=False)
    records, ledger = both(sent, writer.key_log, known_from=len(sent) - 1)
    assert ledger.tls == {TlsOutcome.NO_KEY: 1}
    assert not list(frames_in(records))


def waiting(number: int, begin: int) -> list[Packet]:
    """A TLS connection that falls silent after some exchanges; its first packet is captured at `begin`."""
    client = SocketAddress(CLIENT.address, 41_000 + number)
    wire = encrypted(exchanges(2), TlsWriter(*SUITES[3], seed=number))
    return packets_between(wire, client, start=begin, interval=MILLISECOND, close=False)


def beside(begin: int, end: int) -> list[Packet]:
    """A connection in plaintext that goes on from `begin` to `end`, four requests a second."""
    events = exchanges((end - begin) // SECOND * 2)
    return packets_between(events, start=begin, interval=SECOND // 4, close=False)


def merged(*conversations: list[Packet]) -> list[Packet]:
    return placed(sorted((each for one in conversations for each in one), key=attrgetter("captured_at")))


@pytest.mark.parametrize("cut", [(), range(0, 200, 7)])
def test_a_wait_for_a_key_ends_although_its_connection_is_silent(cut: Sequence[int]) -> None:
    """Two connections wait, with a second between them; the packets of a third show the time."""
    sent = merged(waiting(1, 0), waiting(2, SECOND), beside(0, MAX_KEY_WAIT + 4 * SECOND))
    records, ledger = both(sent, "", cut)
    shown = [each for each in records if each.kind is Kind.GAP]
    assert [str(each.client).rpartition(":")[2] for each in shown] == ["41001", "41002"]
    # Each is recorded when a packet shows that its time has passed, not at the end.
    after = [records[records.index(each) + 1].captured_at - MAX_KEY_WAIT for each in shown]
    assert all(begin * SECOND < at < (begin + 1) * SECOND for begin, at in enumerate(after))
    assert ledger.tls == {TlsOutcome.NO_KEY: 2}


def test_a_silent_connection_without_a_key_holds_nothing_after_its_time() -> None:
    tracker = new_tracker(key_log=KeyLog())
    for packet in merged(waiting(1, 0), beside(0, MAX_KEY_WAIT + 2 * SECOND)):
        tracker.feed(packet)
    assert tracker.ledger.tls == {TlsOutcome.NO_KEY: 1}
    assert tracker.held < MAX_KEY_HELD // 100


@examples(30)
@given(
    st.lists(st.tuples(st.integers(0, 14), st.booleans()), min_size=1, max_size=6),
    st.integers(0, 300),
    cuts,
)
def test_many_connections_wait_in_any_order(
    waits: list[tuple[int, bool]], known_from: int, cut: list[int]
) -> None:
    conversations = [waiting(number, begin * SECOND) for number, (begin, _) in enumerate(waits)]
    sent = merged(*conversations, beside(0, 30 * SECOND))
    known = [TlsWriter(*SUITES[3], seed=number).key_log for number, (_, logs) in enumerate(waits) if logs]
    _, ledger = both(sent, "".join(known), cut, known_from=min(known_from, len(sent) - 1))
    assert ledger.tls.total() == len(waits)
    assert ledger.tls[TlsOutcome.NO_KEY] >= len(waits) - len(known)


TICKET, SESSION, CHOSEN = b"ticket" * 30, b"session " * 4, b"chosen  " * 4


def tried_again(second: TlsWriter, keys: str) -> tuple[list[Record], Ledger]:
    """A connection whose server issues TICKET for SESSION, and then another one."""
    first = TlsWriter(*SUITES[0], session_id=SESSION, issues=TICKET)
    other = SocketAddress(CLIENT.address, 41_000)
    sent = packets(encrypted(EVENTS, first))
    later = sent[-1].captured_at + SECOND
    again = packets_between(encrypted(EVENTS, second), other, start=later, interval=MILLISECOND)
    return both(merged(sent, again), first.session_log + keys)


def test_a_session_is_resumed_by_a_ticket_under_another_id() -> None:
    """A JVM agent logs a master secret of TLS 1.2 once, by the ID of its session."""
    second = TlsWriter(*SUITES[0], seed=1)
    second.show(TICKET, CHOSEN, resumed=TlsWriter(*SUITES[0]))
    records, ledger = tried_again(second, "")
    assert ledger.tls == {TlsOutcome.READ: 2}
    assert len(list(frames_in(records))) == 2 * len(list(frames_in(plainly(EVENTS))))


def test_a_server_that_refuses_a_ticket_begins_a_session_of_its_own() -> None:
    second = TlsWriter(*SUITES[0], seed=1, session_id=b"another " * 4)
    second.show(TICKET, CHOSEN)
    _, ledger = tried_again(second, second.session_log)
    assert ledger.tls == {TlsOutcome.READ: 2}


def test_a_ticket_that_was_not_seen_to_be_issued_tells_nothing() -> None:
    second = TlsWriter(*SUITES[0], seed=1)
    second.show(b"unseen", CHOSEN, resumed=TlsWriter(*SUITES[0]))
    _, ledger = tried_again(second, "")
    assert ledger.tls == {TlsOutcome.READ: 1, TlsOutcome.NO_KEY: 1}


def test_tickets_make_nobody_look_for_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that resumes a session may issue another ticket, in plaintext, before any secret is needed."""
    looked: list[Connection] = []

    def noted(self: Connection) -> Iterator[Record]:
        looked.append(self)
        return iter(())

    monkeypatch.setattr(Connection, "try_keys", noted)
    tracker = new_tracker(key_log=KeyLog())
    for number in range(20):
        writer = TlsWriter(*SUITES[0], number, session_id=b"%032d" % number, issues=b"ticket")
        wire = encrypted([], writer)
        issued, wire[3] = wire[3][1], (TO_CLIENT, b"")
        wire[1] = TO_CLIENT, wire[1][1] + issued
        client = SocketAddress(CLIENT.address, 40_000 + number)
        feed_all(tracker, packets_between([each for each in wire if each[1]], client, close=False))
    assert tracker.waits_until is not None
    assert not looked


def test_the_secrets_go_with_the_connection() -> None:
    writer, key_log = TlsWriter(*SUITES[3]), KeyLog()
    key_log.add(writer.key_log)
    tracker = new_tracker(key_log=key_log)
    for packet in packets(encrypted(EVENTS, writer)):
        assert key_log.secrets(writer.client_random) or tracker.ledger.framed == PLAIN
        tracker.feed(packet)
    assert not key_log.secrets(writer.client_random)
