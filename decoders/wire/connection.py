"""One connection: its segments in, its records out.

`Transport` puts what the segments carry in order, `Decryption` reads TLS, `KafkaLayer` makes the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple
from weakref import proxy

from decoders.frame.record import Closing, Direction, Kind, Record
from decoders.tls.key_log import KeyLog
from decoders.wire.chunk import StreamEvent
from decoders.wire.closing import Ends
from decoders.wire.decryption import (
    CertificateSubject,
    CloseNotify,
    Decrypted,
    Decryption,
    RecordsSnapshot,
    Unreadable,
)
from decoders.wire.eviction import Standing
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.kafka_layer import KafkaLayer, KafkaLayerSnapshot
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.pairing import Acknowledged
from decoders.wire.recorder import Recorder, Run
from decoders.wire.segment import Segment, SocketAddress, TcpFlag
from decoders.wire.stream import MAX_AHEAD, SEQUENCE_SPACE, StreamSnapshot
from decoders.wire.transport import Begun, Transport, TransportEvents

_MANY_AT_ONCE = (Closing.EVICTED, Closing.IDLE)


class ClientSyn(NamedTuple):
    """The SYN that opened a connection: its sequence number, and how many bytes it carries.

    A SYN with bytes is one of TCP Fast Open (RFC 7413): the SYN-ACK may acknowledge any part of them.
    """

    sequence: int
    size: int

    def is_repeated_by(self, direction: Direction, segment: Segment) -> bool:
        """Whether a SYN or SYN-ACK between the same sockets belongs to the same connection."""
        found = client_syn_of(direction, segment)
        acknowledged = 0 if direction is Direction.TO_BROKER else self.size
        return found is not None and (found.sequence - self.sequence) % SEQUENCE_SPACE <= acknowledged


def client_syn_of(direction: Direction, segment: Segment) -> ClientSyn | None:
    """Return the client's SYN, from itself or from the SYN-ACK; None for other segments."""
    if not segment.flags & TcpFlag.SYN:
        return None
    if direction is Direction.TO_BROKER:
        return ClientSyn(segment.sequence, len(segment.payload) + segment.missing)
    return ClientSyn((segment.acknowledgment - 1) % SEQUENCE_SPACE, 0)


class ConnectionSnapshot(NamedTuple):
    """The state of a connection that can be offloaded, without its ledger.

    `streams` has no stream of the server as long as its SYN-ACK is awaited. `closers` are those of
    `ClosingSides`. `records` is None unless the connection is decrypted.
    """

    last_seen_at: int
    last_position: int
    standing: Standing
    counted_held: int
    streams: dict[Direction, StreamSnapshot]
    closers: dict[Direction, int]
    kafka: KafkaLayerSnapshot
    records: RecordsSnapshot | None


class Connection:
    """Follows one connection from its first captured segment to its end.

    `ledger` counts its bytes, and adds them to the given ledger as well. `counted_held` is the part of `held`
    that the tracker has counted, to bound memory. `client_syn` is None if neither the SYN nor the
    SYN-ACK was captured. `last_seen_at` is in nanoseconds since the epoch. With a key log TLS is decrypted:
    by `decryption`, which is None if the connection is not TLS or cannot be read.
    """

    def __init__(
        self,
        run: Run,
        detector: FrameDetector,
        ledger: Ledger,
        client: SocketAddress,
        server: SocketAddress,
        *,
        key_log: KeyLog | None = None,
    ) -> None:
        self.client = client
        self.server = server
        self.client_syn: ClientSyn | None = None
        self._offered_syn: ClientSyn | None = None
        """The latest SYN with which the client asks for another connection between the same sockets."""
        self.last_seen_at = 0
        self._last_position = 0
        self.is_closed = False
        self.standing = Standing.UNSEEN
        self.ledger = Ledger(within=ledger)
        self.counted_held = 0
        self._recorder = Recorder(run, client, server)
        self._transport = Transport(self.ledger)
        keeps_subject = detector.keeps_principals
        self.decryption = (
            None if key_log is None else Decryption(key_log, self.ledger, keeps_subject=keeps_subject)
        )
        # A reference to this object would be a cycle, which outlives the connection until it is collected.
        acknowledged_by = partial(Connection._acknowledged_by, proxy(self))
        self._kafka = KafkaLayer(
            detector, self.ledger, self._recorder, acknowledged_by, decrypts=key_log is not None
        )

    def continue_from(self, opened: Record, client_syn: ClientSyn) -> None:
        """Continue a connection that another tracker opened with a SYN. Its state must then be restored."""
        self._recorder.continue_from(opened)
        self.client_syn = client_syn
        self.last_seen_at, self._last_position = opened.captured_at, opened.position

    def open(self, segment: Segment) -> Record:
        """Return the record OPENED. The same segment must then be passed to `process`."""
        self.client_syn = client_syn_of(self.direction(segment), segment)
        return self._recorder.opened(
            segment.captured_at, segment.position, mid_stream=self.client_syn is None
        )

    def repeats(self, segment: Segment, syn: ClientSyn | None) -> bool:
        """Whether a SYN or SYN-ACK between the same sockets belongs to the connection that `syn` opened."""
        return syn is not None and syn.is_repeated_by(self.direction(segment), segment)

    def is_replaced_by(self, segment: Segment) -> bool:
        """Whether a segment shows that the broker has another connection between the same sockets.

        The broker decides whether it takes a SYN (RFC 5961 section 4). Its SYN-ACK shows that it does, as
        does a later segment that acknowledges the SYN. If the SYN was not captured, its SYN-ACK must come
        twice, or such a segment after it. Where no segment of the broker was captured, a SYN suffices.
        """
        if segment.flags & TcpFlag.SYN:
            is_answer = self.direction(segment) is Direction.TO_CLIENT and self._may_answer(segment)
            is_trusted = is_answer or self.standing < Standing.ANSWERED
            return is_trusted and not self.repeats(segment, self.client_syn)
        return segment.source == self.server and self._concerns_offer(segment)

    def _may_answer(self, syn_ack: Segment) -> bool:
        """Whether a SYN-ACK answers the SYN that was offered.

        Also true if the client's segments are not captured.
        """
        client = self._transport.streams.get(Direction.TO_BROKER)
        return self.repeats(syn_ack, self._offered_syn) or client is None or not client.is_heard

    def is_offered(self, segment: Segment) -> bool:
        """Whether a segment that does not replace the connection is of another one that the client opens."""
        if segment.flags & TcpFlag.SYN:
            return not self.repeats(segment, self.client_syn)
        return self._concerns_offer(segment)

    def note_offered(self, segment: Segment) -> None:
        """Note a segment that `is_offered`. Its bytes are skipped."""
        self.last_seen_at, self._last_position = segment.captured_at, segment.position
        self._offered_syn = client_syn_of(self.direction(segment), segment) or self._offered_syn
        self.ledger.capture(len(segment.payload))
        self.ledger.skip(SkipReason.AFTER_CLOSE, len(segment.payload))

    def offered_syn(self, segment: Segment) -> Segment | None:
        """Return the SYN of the connection that replaces this one, None if the broker's segment begins it.

        The SYN gets the capture time and position of the segment. Its bytes count as missing, because they
        were skipped.
        """
        syn = self._offered_syn
        if syn is None or (segment.flags & TcpFlag.SYN and not self.repeats(segment, syn)):
            return None
        return Segment(
            self.client,
            self.server,
            syn.sequence,
            0,
            int(TcpFlag.SYN),
            b"",
            syn.size,
            segment.captured_at,
            segment.position,
        )

    def _concerns_offer(self, segment: Segment) -> bool:
        """Whether a segment without SYN is near the offered SYN, and far from what is expected here."""
        syn, is_of_client = self._offered_syn, segment.source == self.client
        client = self._transport.streams.get(Direction.TO_BROKER)
        if syn is None or client is None or not (is_of_client or segment.flags & TcpFlag.ACK):
            return False
        number = segment.sequence if is_of_client else segment.acknowledgment
        is_near_offer = 0 < (number - syn.sequence) % SEQUENCE_SPACE <= MAX_AHEAD
        return is_near_offer and abs(client.offset_of(number) - client.next_offset) > MAX_AHEAD

    def process(self, segment: Segment) -> Iterator[Record]:
        """Process the next segment of either direction."""
        self.ledger.capture(len(segment.payload))
        self.last_seen_at, self._last_position = segment.captured_at, segment.position
        direction, transport = self.direction(segment), self._transport
        if direction is Direction.TO_CLIENT:
            self._offered_syn = None
        if self._is_unproven(direction, segment):
            yield from self._process_events(transport.process(direction, segment, is_unproven=True))
            yield from self._close_if_ended()
            return
        if self.standing is not Standing.SPEAKING:
            has_bytes = bool(segment.payload or segment.missing)
            self.standing = self.standing.after(direction, has_bytes=has_bytes)
        if transport.is_ordinary(direction, segment):
            chunk = transport.take(direction, segment)
            if chunk is not None:
                yield from self._process_bytes(direction, chunk)
        else:
            yield from self._process_events(transport.process(direction, segment))
            yield from self._close_if_ended()

    def _is_unproven(self, direction: Direction, segment: Segment) -> bool:
        """Whether somebody else than the client may have sent a segment, with the client's address.

        The broker takes nothing of a client that has not acknowledged its SYN-ACK (RFC 9293, 3.10.7.4).
        """
        is_first = self.standing is Standing.ANSWERED and direction is Direction.TO_BROKER
        return is_first and self.client_syn is not None and not self._transport.is_proof(segment)

    @property
    def waits_since(self) -> int | None:
        """The capture time since which it waits for late packets, None if it does not wait."""
        return None if self.is_closed else self._transport.waits_since

    def give_up(self) -> Iterator[Record]:
        """End the wait: what was awaited when it began is lost."""
        yield from self._process_events(self._transport.give_up(self.last_seen_at, self._last_position))
        yield from self._close_if_ended()

    def give_up_all(self) -> Iterator[Record]:
        """End this wait and all that follow from it."""
        while self.waits_since is not None:
            yield from self.give_up()

    @property
    def held(self) -> int:
        """Bytes of memory of buffered segments, incomplete frames and requests in flight, roughly."""
        return 0 if self.is_closed else self._kafka.held + self.unprocessed

    @property
    def assembled(self) -> int:
        """The bytes of incomplete frames."""
        return self._kafka.assembled

    @property
    def unprocessed(self) -> int:
        """The part of `held` that has not reached the Kafka layer."""
        buffered = 0 if self.is_closed else self._transport.held
        return buffered + (self.decryption.held if self.decryption else 0)

    @property
    def awaits_key_since(self) -> int | None:
        """The capture time since which encrypted bytes wait for their key, None if none wait."""
        return None if self.decryption is None else self.decryption.awaits_key_since

    def try_keys(self) -> Iterator[Record]:
        """Decrypt what is held, if its key is known by now."""
        if self.decryption is not None:
            yield from self._process_decrypted(self.decryption.try_keys())

    def give_up_keys(self) -> Iterator[Record]:
        """Stop waiting for the key of encrypted bytes."""
        if self.decryption is not None:
            yield from self._process_decrypted(self.decryption.give_up_keys())

    @property
    def ends(self) -> Ends:
        """Where both directions have ended, after the connection's own packets closed it."""
        return self._transport.ends

    @property
    def identity(self) -> bytes:
        """The ID that all its records have."""
        return self._recorder.connection

    @property
    def can_be_offloaded(self) -> bool:
        """Whether a snapshot is complete, and a flow can hold it."""
        if self._offered_syn is not None:
            return False
        if self.decryption is not None:
            # A flow has no field for the position of a FIN, which a later close_notify is compared with.
            is_closing = bool(self._transport.closing_sides.closers)
            if is_closing or not (self._kafka.has_begun and self.decryption.can_be_read_ahead):
                return False
        return self._transport.can_be_offloaded and self._kafka.can_be_offloaded

    def snapshot(self) -> ConnectionSnapshot:
        """Return the state of a connection that can be offloaded."""
        streams = {direction: stream.snapshot() for direction, stream in self._transport.streams.items()}
        seen = (self.last_seen_at, self._last_position, self.standing, self.counted_held)
        records = None if self.decryption is None else self.decryption.snapshot()
        closers, kafka = self._transport.closing_sides.closers, self._kafka.snapshot()
        return ConnectionSnapshot(*seen, streams, closers, kafka, records)

    def restore(self, snapshot: ConnectionSnapshot, *, has_new_frames: bool) -> None:
        """Continue from a snapshot. `has_new_frames` is true if another tracker has recorded frames since."""
        self.last_seen_at, self._last_position, self.standing, self.counted_held = snapshot[:4]
        streams, closers, kafka, records = snapshot[4:]
        if self.decryption is not None and records is not None:
            self.decryption.restore(records)
        elif not kafka.is_opening:
            # Another tracker has read plaintext.
            self.decryption = None
        for direction in streams:
            if direction not in self._transport.streams:
                self._kafka.begin(direction, from_start=True)
        self._transport.restore(streams, closers)
        self._kafka.restore(kafka, has_new_frames=has_new_frames)

    def flush(self) -> Iterator[Record]:
        """Yield the records of all held bytes: no more segments will be captured."""
        yield from self._process_events(self._transport.flush(self.last_seen_at, self._last_position))
        if self.decryption is not None:
            yield from self._process_decrypted(self.decryption.finish())
        self._kafka.close()

    def close(self, closing: Closing, captured_at: int, position: int) -> Iterator[Record]:
        """Yield the last records, up to CLOSED. Its direction is that of the first FIN or RST.

        Many connections may be evicted or idle at once, so what they hold behind holes is not processed.
        """
        self.is_closed = True
        for stream in self._transport.streams.values() if closing in _MANY_AT_ONCE else ():
            stream.discard()
        yield from self.flush()
        if self._transport.ending is not None:
            responses = self._transport.streams.get(Direction.TO_CLIENT)
            has_response = responses is not None and responses.next_offset > 0
            yield from self._kafka.record_other_protocol(has_response=has_response)
        closer = self._transport.closer
        yield self._recorder.record(Kind.CLOSED, captured_at, position, closing=closing, direction=closer)

    def _close_if_ended(self) -> Iterator[Record]:
        """Close the connection if its end was captured, and no bytes before that are awaited."""
        if (ending := self._transport.ending) is not None:
            yield from self.close(ending, self.last_seen_at, self._last_position)

    def _process_events(self, events: TransportEvents) -> Iterator[Record]:
        for direction, event in events:
            if isinstance(event, Begun):
                self._kafka.begin(direction, from_start=event.from_start)
                if self.client_syn is not None and not event.from_start:
                    place = event.captured_at, event.position
                    yield from self._kafka.record_missed_beginning(direction, *place)
            else:
                yield from self._process_bytes(direction, event)

    def _process_bytes(self, direction: Direction, event: StreamEvent) -> Iterator[Record]:
        if self.decryption is None:
            yield from self._kafka.process(direction, event)
        else:
            yield from self._process_decrypted(self.decryption.process(direction, event))

    def _process_decrypted(self, passed: Iterator[tuple[Direction, Decrypted]]) -> Iterator[Record]:
        for direction, event in passed:
            if isinstance(event, Unreadable):
                beginning, captured_at, position = event
                yield from self._kafka.abandon_encrypted(direction, beginning, captured_at, position)
            elif isinstance(event, CloseNotify):
                self._transport.closing_sides.note_close_notify(direction, event.position)
            elif isinstance(event, CertificateSubject):
                yield from self._kafka.record_principal(*event)
            else:
                yield from self._kafka.process(direction, event)
        if self.decryption is not None and (self.decryption.is_over or self._kafka.is_opaque):
            self.decryption.close()
            self.decryption = None

    def direction(self, segment: Segment) -> Direction:
        """Return the direction of a segment of this connection."""
        return Direction.TO_BROKER if segment.source == self.client else Direction.TO_CLIENT

    def _acknowledged_by(self, number: int) -> Acknowledged:
        responses = self._transport.streams[Direction.TO_CLIENT]
        offset, end = responses.offset_of(number), responses.next_offset
        if self.decryption is not None and not self.decryption.is_over:
            end = self.decryption.streams[Direction.TO_CLIENT].read_until
        return Acknowledged(offset, everything=offset >= end)
