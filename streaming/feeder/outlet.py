"""Where the feeder puts its records: Kafka (`publisher`), or standard output in a dry run."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Protocol

from decoders.frame.record import Direction, Kind, Record
from decoders.wire.columnar.frames import FrameBatch

_ARROWS = {Direction.TO_BROKER: "→", Direction.TO_CLIENT: "←", Direction.NONE: "-"}


class Outlet(Protocol):
    """A destination of records."""

    def publish(self, record: Record) -> None:
        """Publish a record."""

    def publish_batch(self, batch: FrameBatch) -> None:
        """Publish all records of a batch, polling in between."""

    def poll(self) -> None:
        """Do what is due, such as processing delivery reports. Call it often."""

    def flush(self, seconds: float) -> int:
        """Publish all waiting records, for at most `seconds`. Returns how many remain."""

    @property
    def is_accepting(self) -> bool:
        """Whether records are published without delay."""

    @property
    def fates(self) -> dict[str, int]:
        """The number of records so far by fate."""

    @property
    def shed_bytes(self) -> int:
        """Bytes of the records that were shed."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the records that wait."""

    @property
    def fatal(self) -> str:
        """Why no record can be published any more, and what to do. "" while records can be published."""


class DryRun:
    """Prints the records, one line each, instead of publishing them."""

    is_accepting = True
    shed_bytes = waiting_bytes = 0
    fatal = ""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()

    @property
    def fates(self) -> dict[str, int]:
        """The number of records by kind."""
        return dict(sorted(self._kinds.items()))

    def publish(self, record: Record) -> None:
        self._kinds[record.kind.name.lower()] += 1
        sys.stdout.write(_line(record) + "\n")

    def publish_batch(self, batch: FrameBatch) -> None:
        """Print all records of a batch."""
        for record in batch.records():
            self.publish(record)

    def poll(self) -> None:
        """Flush standard output."""
        sys.stdout.flush()

    def flush(self, seconds: float) -> int:
        """Flush standard output; no record remains."""
        self.poll()
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
            reason = record.closing or record.flags
            return (reason.name or "").lower() if reason else ""
    return ""
