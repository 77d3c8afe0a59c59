"""One direction of a TLS connection: chunks in, records out, and which segments carried each record.

The ciphers are stream ciphers: each byte of plaintext is encrypted to the byte at its own place. So the
plaintext of a record is split into pieces, one for each segment that carried a part of the record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from decoders.tls.protection import TAG_SIZE
from decoders.tls.records import HEADER_SIZE, RecordReader, TlsRecord
from decoders.tls.session import Content
from decoders.wire.chunk import PIECE_COST, Chunk

MAX_PIECES_AHEAD: Final = 32
"""An incomplete record in more pieces is not read ahead, since each window copies them.

A record of 16 KiB has twelve in ordinary segments.
"""
_SHORTEST_RECORD = HEADER_SIZE + TAG_SIZE + 1


class RecordStream(RecordReader):
    """A `RecordReader` of chunks. Once the pieces of an accepted record are taken, `forget` must follow."""

    def __init__(self, offset: int = 0, chunks: Iterable[Chunk] = ()) -> None:
        """Begin at the record that begins at an offset, of which these chunks were captured."""
        super().__init__(offset)
        self._sources: deque[Chunk] = deque()
        """The chunks that carried the bytes that are held."""
        self._lost = 0
        """While seeking: lost bytes since the last record."""
        for chunk in chunks:
            self.add(chunk)

    @property
    def max_lost_records(self) -> int:
        """How many records may have been lost before the next candidate."""
        return (self._lost + self.dropped) // _SHORTEST_RECORD + 1

    @property
    def pieces(self) -> int:
        """The number of pieces of the incomplete record."""
        return len(self._sources)

    @property
    def held_cost(self) -> int:
        """Bytes of memory of the incomplete record, including PIECE_COST for each piece."""
        return self.held + PIECE_COST * len(self._sources)

    @property
    def uncounted(self) -> int:
        """Bytes in no record that `take_dropped` has not returned."""
        return self.held + self.dropped

    @property
    def read_until(self) -> int:
        """The offset behind the bytes that were added."""
        return self.offset + self.held

    @property
    def can_be_read_ahead(self) -> bool:
        """Whether the next record begins behind the latest one, and is not in too many pieces."""
        return not self.is_seeking and len(self._sources) <= MAX_PIECES_AHEAD

    def add(self, chunk: Chunk) -> None:
        """Add the next bytes."""
        self._sources.append(chunk)
        self.push(chunk.payload)

    def lose(self, size: int) -> None:
        """Process bytes that were not captured."""
        if not self.is_seeking:
            self._lost = 0
        self._lost += size
        super().lose(size)
        self._sources.clear()

    @property
    def first_source(self) -> Chunk:
        """The chunk with the first byte of the record that was accepted."""
        return self._sources[0]

    def plaintext(self, record: TlsRecord, content: Content) -> Iterator[Chunk]:
        """Yield the plaintext of the record that was accepted."""
        begin, data = record.offset + HEADER_SIZE + content.begin, content.data
        done = 0
        for source in self._sources:
            end = min(source.end - begin, len(data))
            if end > done:
                yield source._replace(
                    offset=begin + done,
                    payload=data[done:end],
                    starts_segment=not done,
                    missing=0,
                    record_end=record.end,
                )
                done = end
            if done == len(data):
                return

    def forget(self, offset: int) -> None:
        """Drop the chunks that end at or before an offset."""
        sources = self._sources
        while sources and sources[0].end <= offset:
            sources.popleft()

    def take_dropped(self) -> int:
        """Return the number of bytes in no record that it has not returned before."""
        dropped, self.dropped = self.dropped, 0
        self._lost += dropped
        self.forget(self.offset)
        return dropped

    def incomplete(self) -> list[Chunk]:
        """Return the bytes of the incomplete record, as they were captured."""
        begin = self.offset
        return [
            source.part(max(begin, source.offset), source.end)
            for source in self._sources
            if source.end > begin
        ]
