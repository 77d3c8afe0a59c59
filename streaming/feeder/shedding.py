"""Load shedding: which records are dropped while Kafka is too slow, and the gaps that replace them. Pure.

While the queue is overfull, whole connections lose their payload: once a frame of a connection is shed, all
its frames are shed until there is room again. Then a gap for each direction states the number of missing
bytes. A gap has the sequence of the last record that was shed in its direction, which keeps sequences in
order. Closings and the feeder's heartbeats are small and keep state correct, so they are always published.
Openings and the names of clients (records PRINCIPAL and PLACEMENT) are held until there is room. A connection
that opens and closes while the queue is overfull is only counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import msgspec

from decoders.frame.record import NO_RECORD, Closing, Direction, Flag, Kind, Pairing, Record
from decoders.wire.framing import SHORTEST_FRAME

LENGTH_PREFIX = 4
"""Bytes of the length before each frame, which is lost with the frame."""
_FRAMES = frozenset({Kind.REQUEST, Kind.RESPONSE, Kind.SASL_TOKEN})
_HELD = frozenset({Kind.OPENED, Kind.PRINCIPAL, Kind.PLACEMENT})
"""Records that hold no bytes of the stream, and that nothing later repeats."""


@dataclasses.dataclass(slots=True)
class _Shed:
    """What a connection has lost since it was last whole, and the records that are held, by kind."""

    held: dict[Kind, Record] = dataclasses.field(default_factory=dict)
    gaps: dict[Direction, Record] = dataclasses.field(default_factory=dict)


class Shedding:
    """Decides what is published in place of each record. `records` and `bytes` count what was shed."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self._shed: dict[bytes, _Shed] = {}
        self._refused: dict[tuple[bytes, Direction], int] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no gap is due, so that records pass unchanged unless the queue is overfull."""
        return not (self._shed or self._refused)

    def admit(self, record: Record, *, overfull: bool) -> list[Record]:
        """Return the records to publish in place of a record: itself, gaps, or nothing."""
        if record.kind is Kind.HEARTBEAT:
            return [record]
        if record.kind is Kind.CLOSED:
            return self._close(record)
        if record.kind in _HELD:
            return self._hold(record) if overfull else [*self._replacements(record.connection), record]
        refused = self._refused.pop((record.connection, record.direction), None)
        if overfull or refused is not None:
            self._lose(record, refused or 0)
            return [] if overfull else self._replacements(record.connection)
        return [*self._replacements(record.connection), record]

    def recover(self) -> Iterator[Record]:
        """Yield the records that replace all that was shed, now that there is room again."""
        for connection in list(self._shed):
            yield from self._replacements(connection)

    def refuse(self, record: Record) -> None:
        """Note that Kafka finally refused a record, so that a gap replaces the next one of its direction.

        The next record is sacrificed because the gap needs a sequence after all records published meanwhile.
        After a refused opening, the connection begins with gaps of unknown size. A refused name is missing.
        """
        if record.kind in (Kind.HEARTBEAT, Kind.CLOSED, Kind.PRINCIPAL, Kind.PLACEMENT):
            return
        size = _size(record)
        self.bytes += size
        opening = record.kind is Kind.OPENED
        for direction in (Direction.TO_BROKER, Direction.TO_CLIENT) if opening else (record.direction,):
            key = record.connection, direction
            self._refused[key] = self._refused.get(key, 0) + size

    def _close(self, record: Record) -> list[Record]:
        shed = self._shed.get(record.connection)
        if shed is not None and Kind.OPENED in shed.held:
            self.records += len(shed.held) + 1
            del self._shed[record.connection]
            return []
        refused = {key for direction in Direction if (key := (record.connection, direction)) in self._refused}
        if refused:
            # No later record gives its sequence to a gap, so the connection is evicted instead of closed.
            record = msgspec.structs.replace(record, closing=Closing.EVICTED)
            for key in refused:
                del self._refused[key]
        return [*self._replacements(record.connection), record]

    def _hold(self, record: Record) -> list[Record]:
        held = self._shed.setdefault(record.connection, _Shed()).held
        # A later placement corrects the earlier one.
        self.records += record.kind in held
        held[record.kind] = record
        return []

    def _lose(self, record: Record, refused: int) -> None:
        self.records += 1
        shed = self._shed.setdefault(record.connection, _Shed())
        size = _size(record)
        self.bytes += size
        before = shed.gaps.get(record.direction)
        lost = size + refused + (before.true_length if before else 0)
        shed.gaps[record.direction] = _gap(record, lost)

    def _replacements(self, connection: bytes) -> list[Record]:
        """Return the records that replace what a connection has lost, and forget the loss."""
        shed = self._shed.pop(connection, None)
        if shed is None:
            return []
        return sorted([*shed.held.values(), *shed.gaps.values()], key=lambda record: record.sequence)


def _size(record: Record) -> int:
    """Return how many bytes of the stream a record stands for."""
    if record.kind is Kind.INVALID_SIZE:
        # The bytes behind an impossible length are lost in a gap of their own.
        return LENGTH_PREFIX + (record.true_length if record.true_length < SHORTEST_FRAME else 0)
    return record.true_length + LENGTH_PREFIX * (record.kind in _FRAMES)


def _gap(record: Record, size: int) -> Record:
    return msgspec.structs.replace(
        record,
        kind=Kind.GAP,
        pairing=Pairing.NONE,
        flags=Flag.NONE,
        paired_sequence=NO_RECORD,
        paired_api_key=-1,
        paired_api_version=-1,
        true_length=size,
        frame=b"",
    )
