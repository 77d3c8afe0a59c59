"""Occurrences: when, how often and where a statement was captured."""

from __future__ import annotations

import msgspec

from decoders.frame.record import Record

EVIDENCE_BYTES = 64
"""Bytes of a frame that evidence keeps."""


class Evidence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a frame is stored, and its first bytes.

    In a capture file: the file's name and the byte `position` of the packet. In a topic: its name, the
    `partition` and the `offset` of the block, and the `row` in that. `beginning` holds the frame's first
    EVIDENCE_BYTES bytes.
    """

    source: str
    beginning: bytes
    position: int | None = None
    partition: int | None = None
    offset: int | None = None
    row: int | None = None

    @classmethod
    def in_file(cls, name: str, record: Record) -> Evidence:
        """Point to a record of a capture file."""
        return cls(name, beginning_of(record), record.position)

    @classmethod
    def in_topic(cls, name: str, place: tuple[int, int, int], record: Record) -> Evidence:
        """Point to a record of a topic by its partition, the offset of its block, and its row in that."""
        return cls(name, beginning_of(record), None, *place)


NO_EVIDENCE = Evidence("", b"")


def beginning_of(record: Record) -> bytes:
    """Return the first bytes of a frame, as many as evidence keeps."""
    return record.frame[:EVIDENCE_BYTES]


class Occurrence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One frame or event, or `count` folded ones with equal statements.

    Sequences and times are those of the first and the last; times are in nanoseconds since the epoch.
    `previous_captured_at` is the time of the last but one, 0 if there is only one. `paired_sequence` is the
    first sequence of the request that a response belongs to, 0 if it is unknown. `size` is the sum of the
    frames' lengths on the wire, without their prefixes.
    """

    first_sequence: int
    last_sequence: int
    first_captured_at: int
    last_captured_at: int
    evidence: Evidence
    previous_captured_at: int = 0
    count: int = 1
    correlation_id: int | None = None
    paired_sequence: int = 0
    size: int = 0

    def without_size(self) -> Occurrence:
        """Return the same without its size."""
        return msgspec.structs.replace(self, size=0) if self.size else self
