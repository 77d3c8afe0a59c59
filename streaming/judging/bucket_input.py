"""What the decode stage passes to one bucket: the windows of its connections, packed for the way."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import zstandard

from expectations.conversation.occurrence import Occurrence
from expectations.conversation.statement import Statement
from expectations.conversation.window import ConnectionKey, Window
from streaming.judging.quarantine import Quarantined


class BucketInput(msgspec.Struct):
    """The part of one Arrow batch that concerns one bucket.

    `said` holds the windows: their connection, the numbers of their statements, and their occurrences.
    `statements` are those of all windows, by number. Only one bucket of a batch gets what concerns the whole
    batch: `captured` counts the records by capture time, in tenths of a second since the epoch, `blocks` what
    was read from the topic, `read_to` the offset behind it by partition, and `unreadable` those of that which
    are no blocks, for the reason `refusal`; `quarantined` are the first of these.
    """

    statements: dict[int, Statement] = {}
    said: list[tuple[ConnectionKey, list[int], list[Occurrence]]] = []
    unreadable: int = 0
    refusal: str = ""
    quarantined: list[Quarantined] = []
    captured: dict[int, int] = {}
    blocks: int = 0
    read_to: dict[int, int] = {}

    def add(self, window: Window) -> None:
        """Add a window and its statements."""
        self.said.append((window.connection, window.numbers, window.occurrences))
        for number in window.numbers:
            self.statements[number] = window.statements[number]

    def windows(self) -> Iterator[Window]:
        """Yield the windows."""
        for connection, numbers, occurrences in self.said:
            yield Window(connection, numbers, occurrences, self.statements)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(BucketInput)
# Windows are similar: a tenth of their bytes travels from process to process.
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


def pack_input(given: BucketInput) -> bytes:
    """Encode and compress."""
    return _COMPRESSOR.compress(_ENCODER.encode(given))


def unpack_input(packed: bytes) -> BucketInput:
    """Decompress and decode."""
    return _DECODER.decode(_DECOMPRESSOR.decompress(packed))
