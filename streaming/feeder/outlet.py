"""Where the feeder's records go: to Kafka, or only onto the screen."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Protocol

from decoders.frame.record import Direction, Kind, Record
from decoders.wire.columnar.frames import FrameBatch

_ARROWS = {Direction.TO_BROKER: "→", Direction.TO_CLIENT: "←", Direction.NONE: "-"}


class Outlet(Protocol):
    """What takes the records of a feeder."""

    def publish(self, record: Record) -> None:
        """Take a record."""

    def publish_batch(self, batch: FrameBatch) -> None:
        """Take all records of a batch, and do meanwhile what is due."""

    def attend(self) -> None:
        """Do what is due; called often."""

    def flush(self, seconds: float) -> int:
        """Bring out everything, at most so long. Gives how many records are left."""

    @property
    def is_taken(self) -> bool:
        """Whether records are brought out as they come."""

    @property
    def fates(self) -> dict[str, int]:
        """How many records had which fate so far."""

    @property
    def shed_bytes(self) -> int:
        """Bytes of records that were never brought out."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes of records that wait."""

    @property
    def fatal(self) -> str:
        """Why nothing can be brought out any more; "" while it can."""


class DryRun:
    """Shows the records, a line each, instead of publishing them."""

    is_taken = True
    shed_bytes = waiting_bytes = 0
    fatal = ""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()

    @property
    def fates(self) -> dict[str, int]:
        """How many records of which kind there would be."""
        return dict(sorted(self._kinds.items()))

    def publish(self, record: Record) -> None:
        """Print a record."""
        self._kinds[record.kind.name.lower()] += 1
        sys.stdout.write(_line(record) + "\n")

    def publish_batch(self, batch: FrameBatch) -> None:
        """Print all records of a batch."""
        for record in batch.records():
            self.publish(record)

    def attend(self) -> None:
        """Show what is printed at once."""
        sys.stdout.flush()

    def flush(self, seconds: float) -> int:
        """Leave nothing."""
        self.attend()
        return 0


def _line(record: Record) -> str:
    arrow = _ARROWS[record.direction]
    size = f"{record.true_length} bytes" if record.true_length else ""
    kept = f", {len(record.frame)} kept" if record.is_cut and record.kind is not Kind.GAP else ""
    what = f"{record.kind.name.lower()} {_particulars(record)}".rstrip()
    return f"{record.sequence:>8} {record.client} {arrow} {record.server}  {what:<28} {size}{kept}".rstrip()


def _particulars(record: Record) -> str:
    match record.kind:
        case Kind.REQUEST if len(record.frame) >= 4:
            key, version = (int.from_bytes(record.frame[at : at + 2], signed=True) for at in (0, 2))
            return f"API {key} v{version}"
        case Kind.RESPONSE:
            return f"{record.pairing.name.lower()} {record.paired_sequence or ''}"
        case Kind.OPENED | Kind.CLOSED:
            told = record.closing or record.flags
            return (told.name or "").lower() if told else ""
    return ""
