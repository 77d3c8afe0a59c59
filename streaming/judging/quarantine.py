"""The quarantine: records of the frames topic that are no blocks, on their way to a topic of their own."""

from __future__ import annotations

from typing import Final

import msgspec

NO_BLOCK: Final = "not-a-record"
"""The reason under which a record of the topic that is no block counts as undecodable."""
MOST_RECORDS: Final = 100
"""Records that a task of a batch passes on; further ones are only counted."""
MOST_BYTES: Final = 1 << 20
"""Bytes of records that a task of a batch passes on."""
LONGEST_VALUE: Final = 768 * 1024
"""Bytes of one record that are passed on. Those of a feeder are shorter."""
LONGEST_REASON: Final = 200
"""Characters. A reason may quote what a stranger wrote."""


class Quarantined(msgspec.Struct, frozen=True, array_like=True):
    """A record that could not be read: its place, the reason, its size, and what is kept of its bytes."""

    topic: str
    partition: int
    offset: int
    reason: str
    size: int
    value: bytes

    @property
    def key(self) -> str:
        """The same for the same record, so that a batch that is judged again writes nothing new."""
        return f"{self.topic}/{self.partition}/{self.offset}"


class Quarantine:
    """Chooses what of unreadable records is passed on in one task of a batch.

    Without `keeps_values` only their places, reasons and sizes are: where identities are pseudonyms, plain
    ones must not leave the frames topic.
    """

    def __init__(self, *, keeps_values: bool) -> None:
        self._records_left = MOST_RECORDS
        self._bytes_left = MOST_BYTES if keeps_values else 0

    def admit(
        self, topic: str, partition: int, offset: int, reason: str, value: bytes | None
    ) -> Quarantined | None:
        """Return the record as it is passed on; None if there are too many."""
        if not self._records_left:
            return None
        whole = value or b""
        kept = whole[: min(LONGEST_VALUE, self._bytes_left)]
        self._records_left -= 1
        self._bytes_left -= len(kept)
        return Quarantined(topic, partition, offset, reason[:LONGEST_REASON], len(whole), kept)
