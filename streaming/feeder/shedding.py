"""Load shedding: which records are dropped while Kafka is too slow, and the gaps that replace them. Pure.

While the queue is overfull, whole connections lose their payload: from the first frame that is shed, a
connection publishes none until there is room again. Then a gap for each direction holds the number of missing
bytes. It has the sequence of the latest record that was shed in that direction, so that sequences stay in
order. Small records that keep state correct are published: closings and heartbeats of the feeder. A
connection that opens and closes while the queue is overfull is only counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from decoders.frame.record import NO_RECORD, Closing, Direction, Flag, Kind, Pairing, Record

LENGTH_PREFIX = 4
"""Bytes of the length before each frame, which are lost with it."""
_FRAMES = frozenset({Kind.REQUEST, Kind.RESPONSE, Kind.SASL_TOKEN})


@dataclasses.dataclass(slots=True)
class _Shed:
    """What a connection has lost so far; `opened` is its opening if that was shed, too."""

    opened: Record | None = None
    gaps: dict[Direction, Record] = dataclasses.field(default_factory=dict)


class Shedding:
    """Decides for each record what is published. `records` and `bytes` count what was shed."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self._shed: dict[bytes, _Shed] = {}
        self._refused: dict[tuple[bytes, Direction], int] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no gap is due: unless the queue is overfull, a record is published unchanged."""
        return not (self._shed or self._refused)

    def admit(self, record: Record, *, overfull: bool) -> list[Record]:
        """Return the records to publish in place of a record: itself, gaps, or nothing."""
        if record.kind is Kind.HEARTBEAT:
            return [record]
        if record.kind is Kind.CLOSED:
            return self._close(record)
        refused = self._refused.pop((record.connection, record.direction), None)
        if overfull or refused is not None:
            self._lose(record, refused or 0)
            return [] if overfull else self._replacements(record.connection)
        return [*self._replacements(record.connection), record]

    def recover(self) -> Iterator[Record]:
        """Yield the records that stand for all that was shed, when there is room again."""
        for connection in list(self._shed):
            yield from self._replacements(connection)

    def refuse(self, record: Record) -> None:
        """Note that Kafka finally refused a record; a gap replaces the next one of its direction.

        That one is lost, too: the gap needs a sequence of its own, after all records published meanwhile. If
        its opening was refused, a connection begins with gaps of unknown size.
        """
        if record.kind in (Kind.HEARTBEAT, Kind.CLOSED):
            return
        size = _size(record)
        self.bytes += size
        opening = record.kind is Kind.OPENED
        for direction in (Direction.TO_BROKER, Direction.TO_CLIENT) if opening else (record.direction,):
            key = record.connection, direction
            self._refused[key] = self._refused.get(key, 0) + size

    def _close(self, record: Record) -> list[Record]:
        shed = self._shed.get(record.connection)
        if shed is not None and shed.opened is not None:
            self.records += 1
            del self._shed[record.connection]
            return []
        refused = {key for direction in Direction if (key := (record.connection, direction)) in self._refused}
        if refused:
            # There is no sequence for a gap: the connection is evicted instead of closed.
            record = dataclasses.replace(record, closing=Closing.EVICTED)
            for key in refused:
                del self._refused[key]
        return [*self._replacements(record.connection), record]

    def _lose(self, record: Record, refused: int) -> None:
        self.records += 1
        shed = self._shed.setdefault(record.connection, _Shed())
        if record.kind is Kind.OPENED:
            shed.opened = record
            return
        size = _size(record)
        self.bytes += size
        before = shed.gaps.get(record.direction)
        lost = size + refused + (before.true_length if before else 0)
        shed.gaps[record.direction] = _gap(record, lost)

    def _replacements(self, connection: bytes) -> list[Record]:
        """Return the records that stand for what a connection has lost, and forget it."""
        shed = self._shed.pop(connection, None)
        if shed is None:
            return []
        opened = [shed.opened] if shed.opened else []
        return opened + sorted(shed.gaps.values(), key=lambda gap: gap.sequence)


def _size(record: Record) -> int:
    """Return the bytes of the stream that are missing without a record."""
    return record.true_length + LENGTH_PREFIX * (record.kind in _FRAMES)


def _gap(record: Record, size: int) -> Record:
    return dataclasses.replace(
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
