"""Between the streams of a connection and its Kafka layer: TLS records in, plaintext out.

    state      meaning                                          next state
    ---------  -----------------------------------------------  ----------------------------------------------
    DETECTING  the client's first bytes are held                TLS if they are a ClientHello, else OVER
    TLS        records are read as they complete (`Session`)    AWAITING at a record whose key is not known
    AWAITING   bytes are held, at most MAX_KEY_HELD, and until  TLS when the key log has the secrets, OVER if
               the tracker gives up after MAX_KEY_WAIT          they do not come
    OVER       `is_over`: bytes pass as they are                none: the caller drops the decryption

TLS also leads to OVER when the session turns out to be unreadable. An `Unreadable` is then passed on.

Each byte of plaintext has the capture time, position and acknowledgment of the segment that carried it, so
frames, times and evidence are those that the same connection has without TLS. After lost bytes the next
record is found by decryption. The size of the lost plaintext is not known, so the Kafka layer looks for the
next frame at the beginnings of records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from decoders.frame.record import Direction
from decoders.tls.key_log import KeyLog
from decoders.tls.outcome import TlsOutcome, UnreadableError
from decoders.tls.receiver import Receiver
from decoders.tls.records import BrokenRecordError, TlsRecord, begins_with_client_hello
from decoders.tls.session import Content, Session, Side
from decoders.wire.chunk import PIECE_COST, Chunk, Gap, StreamEvent, UnsizedGap
from decoders.wire.framing import PREFIX
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.principal import is_name
from decoders.wire.record_stream import RecordStream

MAX_KEY_WAIT: Final = 10_000_000_000
"""Nanoseconds of capture time for which a connection waits for its secrets."""
MAX_KEY_HELD: Final = 1024 * 1024
"""Bytes that a connection holds while it waits for its secrets, including PIECE_COST for each chunk."""
_SIDES: Final = {Direction.TO_BROKER: Side.CLIENT, Direction.TO_CLIENT: Side.SERVER}


class Unreadable(NamedTuple):
    """The connection cannot be decrypted from here on.

    `beginning` has the client's first bytes. `captured_at` and `position` are those of the packet that shows
    it.
    """

    beginning: bytes
    captured_at: int
    position: int


class CloseNotify(NamedTuple):
    """A side sends nothing more. `position` is that of the packet with its alert."""

    position: int


class CertificateSubject(NamedTuple):
    """The subject of the client's certificate, with the time and position of the packet that proves it."""

    name: str
    captured_at: int
    position: int


Decrypted = StreamEvent | Unreadable | CloseNotify | CertificateSubject


class RecordsSnapshot(NamedTuple):
    """Where the records of a connection stand while another tracker reads them.

    By direction: the number of the next record, how many bytes of it are held, and in how many pieces.
    `explicit_nonce` is how many bytes of a fragment precede its ciphertext; `hides_type` means that the
    record's type is encrypted.
    """

    numbers: dict[Direction, int]
    held: dict[Direction, int]
    pieces: dict[Direction, int]
    explicit_nonce: int
    hides_type: bool


class Decryption:
    """Decrypts one connection. `close` must be called once `is_over`."""

    def __init__(self, key_log: KeyLog, ledger: Ledger, *, keeps_subject: bool = False) -> None:
        """The subject of the client's certificate is passed on if `keeps_subject`."""
        self.is_over = False
        self._keeps_subject = keeps_subject
        self._key_log = key_log
        self._ledger = ledger
        self._session: Session | None = None
        self._opening: list[Chunk] = []
        """The client's first chunks, as long as they may begin a ClientHello."""
        self._beginning = b""
        self.streams = {direction: RecordStream() for direction in _SIDES}
        """The records that precede the bytes without a key."""
        self._is_read = False
        self._awaiting: Direction | None = None
        """The direction whose next record cannot be decrypted before its key is known."""
        self._held: deque[tuple[Direction, StreamEvent]] = deque()
        self._held_cost = 0
        self._waits_since = 0
        self._latest = (Direction.TO_BROKER, 0, 0)

    def process(self, direction: Direction, event: StreamEvent) -> Iterator[tuple[Direction, Decrypted]]:
        """Process the next bytes or the next gap of a direction."""
        self._latest = direction, event.captured_at, event.position
        if self._session is None:
            yield from self._detect(direction, event)
        elif self._awaiting is not None:
            self._hold(direction, event)
            yield from self.try_keys()
            if self._held_cost > MAX_KEY_HELD:
                yield from self.give_up_keys()
        else:
            yield from self._read(direction, event)

    def try_keys(self) -> Iterator[tuple[Direction, Decrypted]]:
        """Read what is held, if the secrets are known by now."""
        if self._session is not None and self._awaiting is not None and self._session.has_keys():
            yield from self._go_on()

    def give_up_keys(self) -> Iterator[tuple[Direction, Decrypted]]:
        """Stop waiting for the secrets."""
        if self._awaiting is not None and not self.is_over:
            yield from self._give_up(TlsOutcome.NO_KEY)

    def finish(self) -> Iterator[tuple[Direction, Decrypted]]:
        """Pass on all held bytes: no more will be captured."""
        if self._session is None:
            yield from self._pass_opening()
        elif self._awaiting is not None:
            yield from self._go_on() if self._session.has_keys() else self._give_up(TlsOutcome.NO_KEY)
        elif not self._session.has_hellos:
            yield from self._give_up(TlsOutcome.NO_HANDSHAKE)
        self.is_over = True

    def close(self) -> None:
        """Drop the secrets, and count all held bytes as encrypted."""
        # Includes dropped bytes that were not counted, because no record was found behind lost bytes.
        held = sum(stream.uncounted for stream in self.streams.values())
        held += sum(len(event.payload) for _, event in self._held if isinstance(event, Chunk))
        held += sum(len(chunk.payload) for chunk in self._opening)
        if self._session is not None:
            self._session.close()
        self._ledger.skip(SkipReason.ENCRYPTED, held)
        self.streams = {direction: RecordStream() for direction in _SIDES}
        self._held.clear()
        self._opening.clear()

    @property
    def awaits_key_since(self) -> int | None:
        """The capture time since which bytes wait for their key, None if none wait."""
        return None if self._awaiting is None else self._waits_since

    @property
    def held(self) -> int:
        """Bytes of memory of incomplete records and of bytes that wait for their key, roughly."""
        held = self._held_cost + (self._session.held if self._session else 0)
        for stream in self.streams.values():
            held += stream.held_cost
        for chunk in self._opening:
            held += len(chunk.payload)
        return held

    @property
    def can_be_read_ahead(self) -> bool:
        """Whether both keys are known, and only the next record of either direction is awaited."""
        if not self._has_begun:
            return False
        waits = self.is_over or self._awaiting is not None or self._held
        return not waits and all(stream.can_be_read_ahead for stream in self.streams.values())

    @property
    def _has_begun(self) -> bool:
        """Whether protected records of both directions were read."""
        receivers = None if self._session is None else self._session.receivers
        return receivers is not None and all(receiver.has_begun for receiver in receivers.values())

    def receiver(self, direction: Direction) -> Receiver:
        """Return the receiver of a direction of a connection that can be read ahead."""
        assert self._session is not None
        assert self._session.receivers is not None
        return self._session.receivers[_SIDES[direction]]

    def snapshot(self) -> RecordsSnapshot:
        """Return the place in the records of both directions, if they can be read ahead."""
        receivers = {direction: self.receiver(direction) for direction in _SIDES}
        held = {direction: stream.held for direction, stream in self.streams.items()}
        pieces = {direction: stream.pieces for direction, stream in self.streams.items()}
        layout = receivers[Direction.TO_BROKER].protection
        numbers = {direction: receiver.number for direction, receiver in receivers.items()}
        return RecordsSnapshot(numbers, held, pieces, layout.explicit_nonce, layout.hides_type)

    def restore(self, snapshot: RecordsSnapshot) -> None:
        """Continue from a snapshot. New `streams` must begin where the other tracker has stopped."""
        for direction, number in snapshot.numbers.items():
            self.receiver(direction).number = number

    def _detect(self, direction: Direction, event: StreamEvent) -> Iterator[tuple[Direction, Decrypted]]:
        """Find out whether the client begins with a ClientHello."""
        if not isinstance(event, Chunk) or direction is Direction.TO_CLIENT:
            yield from self._pass_opening()
            yield direction, event
            return
        self._opening.append(event)
        beginning = b"".join(chunk.payload for chunk in self._opening)
        is_client_hello = begins_with_client_hello(beginning)
        if is_client_hello is False:
            yield from self._pass_opening()
        elif is_client_hello:
            self._session = Session(self._key_log, keeps_subject=self._keeps_subject)
            self._beginning = beginning[:PREFIX]
            opening, self._opening = self._opening, []
            self._held.extend((direction, chunk) for chunk in opening)
            yield from self._read_held()

    def _pass_opening(self) -> Iterator[tuple[Direction, Decrypted]]:
        self.is_over = True
        opening, self._opening = self._opening, []
        for chunk in opening:
            yield Direction.TO_BROKER, chunk

    def _hold(self, direction: Direction, event: StreamEvent) -> None:
        self._held.append((direction, event))
        self._held_cost += PIECE_COST + (len(event.payload) if isinstance(event, Chunk) else 0)

    def _go_on(self) -> Iterator[tuple[Direction, Decrypted]]:
        """Leave the state AWAITING: read the held bytes."""
        direction, self._awaiting = self._awaiting, None
        assert direction is not None
        yield from self._guarded(self._drain(direction))
        yield from self._read_held()
        self._held_cost = 0

    def _read_held(self) -> Iterator[tuple[Direction, Decrypted]]:
        while self._held and not self.is_over and self._awaiting is None:
            yield from self._read(*self._held.popleft())

    def _read(self, direction: Direction, event: StreamEvent) -> Iterator[tuple[Direction, Decrypted]]:
        if not isinstance(event, Chunk):
            yield from self._guarded(self._lose(direction, event))
        else:
            self.streams[direction].add(event)
            yield from self._guarded(self._drain(direction))

    def _guarded(
        self, passed: Iterator[tuple[Direction, Decrypted]]
    ) -> Iterator[tuple[Direction, Decrypted]]:
        """Pass on until the connection turns out to be unreadable."""
        assert self._session is not None
        try:
            yield from passed
        except UnreadableError as error:
            yield from self._give_up(error.outcome)
        except BrokenRecordError:
            has_hellos = self._session.has_hellos
            yield from self._give_up(
                TlsOutcome.LOST_RECORD_NUMBERS if has_hellos else TlsOutcome.NO_HANDSHAKE
            )

    def _give_up(self, outcome: TlsOutcome) -> Iterator[tuple[Direction, Decrypted]]:
        self.is_over = True
        self._ledger.count_tls(outcome)
        direction, captured_at, position = self._latest
        yield direction, Unreadable(self._beginning, captured_at, position)

    def _lose(self, direction: Direction, gap: Gap | UnsizedGap) -> Iterator[tuple[Direction, Decrypted]]:
        assert self._session is not None
        if not self._session.has_hellos:
            raise UnreadableError(TlsOutcome.NO_HANDSHAKE)
        self.streams[direction].lose(gap.size if isinstance(gap, Gap) else 0)
        self._count_dropped(direction)
        yield direction, UnsizedGap(gap.captured_at, gap.position)

    def _drain(self, direction: Direction) -> Iterator[tuple[Direction, Decrypted]]:
        """Decrypt the records that are complete."""
        session, stream, side = self._session, self.streams[direction], _SIDES[direction]
        assert session is not None
        while (record := stream.next()) is not None:
            if session.awaits_key(side, record) or (stream.is_seeking and not session.has_keys()):
                self._awaiting, self._waits_since = direction, self._latest[1]
                break
            if stream.is_seeking:
                content = session.resume(side, record, stream.max_lost_records)
                if content is None:
                    stream.reject()
                    continue
            else:
                content = session.read(side, record)
            stream.accept(record)
            yield from self._pass_content(direction, record, content)
        self._count_dropped(direction)

    def _pass_content(
        self, direction: Direction, record: TlsRecord, content: Content
    ) -> Iterator[tuple[Direction, Decrypted]]:
        assert self._session is not None
        if not self._is_read and self._session.is_read:
            self._is_read = True
            self._ledger.count_tls(TlsOutcome.READ)
        if self._is_read and self._session.subject:
            if is_name(self._session.subject):
                yield direction, CertificateSubject(self._session.subject, *self._latest[1:])
            self._session.subject = ""
        overhead = record.end - record.offset - len(content.data)
        self._ledger.skip(SkipReason.TLS if content.is_read else SkipReason.ENCRYPTED, overhead)
        stream = self.streams[direction]
        if not content.is_read:
            yield direction, UnsizedGap(stream.first_source.captured_at, stream.first_source.position)
        elif content.data:
            for piece in stream.plaintext(record, content):
                yield direction, piece
        elif content.closes:
            yield direction, CloseNotify(stream.first_source.position)
        stream.forget(record.end)

    def _count_dropped(self, direction: Direction) -> None:
        self._ledger.skip(SkipReason.ENCRYPTED, self.streams[direction].take_dropped())
