"""Shedding: what becomes of records that Kafka does not take in time. Pure.

While the queue is overfull, whole connections lose their payload: from its first frame that finds no
room, a connection publishes none until there is room again. Then a gap for each direction says how many
bytes are missing. It takes the place of the latest record that was shed there, so that sequences stay in
order. What is small and keeps state right goes on: closings, and the feeder's own heartbeats. A connection
that opens and closes without room for it is never told of at all, only counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from decoders.frame.record import NO_RECORD, Closing, Direction, Flag, Kind, Pairing, Record

LENGTH_PREFIX = 4
"""Bytes before each frame, which are lost with it."""
_FRAMES = frozenset({Kind.REQUEST, Kind.RESPONSE, Kind.SASL_TOKEN})


@dataclasses.dataclass(slots=True)
class _Shed:
    """What a connection has lost so far; `opened` is its opening where readers do not know it."""

    opened: Record | None = None
    gaps: dict[Direction, Record] = dataclasses.field(default_factory=dict)


class Shedding:
    """Decides record by record what is published. `records` and `bytes` count what was shed."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self._shed: dict[bytes, _Shed] = {}
        self._refused: dict[tuple[bytes, Direction], int] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be told: without an overfull queue a record is published as it is."""
        return not (self._shed or self._refused)

    def admit(self, record: Record, *, overfull: bool) -> list[Record]:
        """Give what is to be published now that a record came: itself, something else or nothing."""
        if record.kind is Kind.HEARTBEAT:
            return [record]
        if record.kind is Kind.CLOSED:
            return self._close(record)
        refused = self._refused.pop((record.connection, record.direction), None)
        if overfull or refused is not None:
            self._lose(record, refused or 0)
            return [] if overfull else self._tell(record.connection)
        return [*self._tell(record.connection), record]

    def recover(self) -> Iterator[Record]:
        """Give what tells readers of all that was shed, now that there is room."""
        for connection in list(self._shed):
            yield from self._tell(connection)

    def refuse(self, record: Record) -> None:
        """Note that Kafka refused a record for good; the next one of its direction tells of the loss.

        That one is given up, too: a gap needs a place of its own in the order, behind all that was
        published meanwhile. Without its opening a connection begins with gaps of unknown size.
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
            # There is no place for a gap: the connection is given up, not ended.
            record = dataclasses.replace(record, closing=Closing.EVICTED)
            for key in refused:
                del self._refused[key]
        return [*self._tell(record.connection), record]

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

    def _tell(self, connection: bytes) -> list[Record]:
        shed = self._shed.pop(connection, None)
        if shed is None:
            return []
        opened = [shed.opened] if shed.opened else []
        return opened + sorted(shed.gaps.values(), key=lambda gap: gap.sequence)


def _size(record: Record) -> int:
    """Count the bytes of the stream that are missing without a record."""
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
