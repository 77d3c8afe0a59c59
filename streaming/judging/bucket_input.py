"""What the decode stage passes to one bucket: the packed windows of its connections, and the quarantine.

The quarantine holds records of the frames topic that are no blocks. They go to a topic of their own.
"""

from __future__ import annotations

import functools
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.columnar.block import ID_BYTES
from decoders.memory import bounds_of
from expectations.conversation.columnar.statement_columns import StatementColumns
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.statement_template import StatementTemplate
from streaming.judging.part import groups
from streaming.state.packing import Narrowed, compress, decompress, narrowed, widened

NO_BLOCK: Final = "not-a-record"
"""The reason under which a record of the topic that is no block counts as undecodable."""
MOST_RECORDS: Final = 100
"""Unreadable records that a task of a batch passes on; further ones are only counted."""
MOST_BYTES: Final = 1 << 20
"""Bytes of unreadable records that a task of a batch passes on."""
LONGEST_VALUE: Final = 768 * 1024
"""Bytes of one unreadable record that are passed on. Those of a feeder are shorter."""
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


_Integers = NDArray[np.int64]
TEMPLATES: Final = 10_000
"""Unpacked templates that a worker keeps."""


class PackedWindows(msgspec.Struct, array_like=True, gc=False):
    """Windows as they travel between stages: the columns of `WindowColumns`, and the statements they use.

    `of_windows` has a row of servers and one of the numbers of occurrences, `of_occurrences` has rows of
    statements and of the lengths of beginnings, then those of `values`. `templates`, each packed, `texts` and
    `own` are those of `StatementColumns`.
    """

    ids: bytes
    clients: list[str]
    servers: list[tuple[str, str, int]]
    of_windows: Narrowed
    of_occurrences: Narrowed
    sources: list[str]
    beginnings: bytes
    templates: list[bytes]
    texts: list[str]
    own: Narrowed

    @classmethod
    def of(cls, columns: WindowColumns) -> PackedWindows:
        """Pack windows."""
        used, numbers = np.unique(columns.numbers, return_inverse=True)
        statements = columns.statements.chosen(used)
        return cls(
            columns.ids,
            list(columns.clients),
            list(columns.servers),
            narrowed(np.stack([columns.server_of, np.diff(columns.bounds)])),
            narrowed(np.vstack([numbers, np.diff(columns.begins), columns.values])),
            list(columns.sources),
            columns.beginnings.tobytes(),
            [_ENCODER.encode(template) for template in statements.templates],
            list(statements.texts),
            narrowed(statements.columns),
        )

    def columns(self) -> WindowColumns:
        """Return the windows that were packed; their statements are numbered anew."""
        server_of, counts = widened(self.of_windows)
        numbers, lengths, *_ = of_occurrences = widened(self.of_occurrences)
        return WindowColumns(
            self.ids,
            self.clients,
            self.servers,
            server_of,
            bounds_of(counts),
            numbers,
            of_occurrences[2:],
            self.sources,
            np.frombuffer(self.beginnings, np.uint8),
            bounds_of(lengths),
            StatementColumns([*map(_template, self.templates)], self.texts, widened(self.own)),
        )


class BucketInput(msgspec.Struct):
    """The part of one Arrow batch that concerns one bucket.

    `said` are the windows, None if there are none. The other fields concern the whole batch, and one of its
    buckets has them: `captured` counts the rows of blocks (frames and events, without heartbeats) by capture
    time, in tenths of a second since the epoch, `blocks` the records of the topic that were read, and
    `unreadable` those of them that are no blocks. `read_to` is the offset behind the last record by
    partition, `refusal` the reason why the last unreadable one was refused, and `quarantined` are the first
    unreadable ones.
    """

    said: PackedWindows | None = None
    unreadable: int = 0
    refusal: str = ""
    quarantined: list[Quarantined] = []
    captured: dict[int, int] = {}
    blocks: int = 0
    read_to: dict[int, int] = {}

    def columns(self) -> WindowColumns:
        """Return the windows as columns."""
        return WindowColumns.of([]) if self.said is None else self.said.columns()


def buckets_of(identifiers: bytes, buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each connection or identity, given their IDs or digests one after the other."""
    leading = np.frombuffer(identifiers, ">u4").reshape(-1, ID_BYTES // 4)[:, 0]
    return leading.astype(np.int64) % buckets


def by_bucket(columns: WindowColumns, buckets: int) -> dict[int, BucketInput]:
    """Divide windows by the buckets of their connections; in each they stay in order."""
    return {
        number: BucketInput(PackedWindows.of(columns.chosen(places)))
        for (number,), places in groups(buckets_of(columns.ids, buckets))
    }


@functools.lru_cache(maxsize=TEMPLATES)
def _template(packed: bytes) -> StatementTemplate:
    """Unpack a template. Most templates of a step occurred in the step before, and are cached."""
    return _TEMPLATE_DECODER.decode(packed)


_ENCODER = msgspec.msgpack.Encoder()
_TEMPLATE_DECODER = msgspec.msgpack.Decoder(StatementTemplate)
_DECODER = msgspec.msgpack.Decoder(BucketInput)


def pack_input(given: BucketInput) -> bytes:
    """Encode and compress: windows are similar, so a fraction of their bytes travels between processes."""
    return compress(_ENCODER.encode(given))


def unpack_input(packed: bytes) -> BucketInput:
    """Decompress and decode."""
    return _DECODER.decode(decompress(packed))
