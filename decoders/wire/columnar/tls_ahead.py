"""Decrypts the TLS records of offloaded flows before the fast path reaches them, window by window.

Compiled code cannot decrypt. So the records of a window are cut first. Then each is opened with the number
that it has if nothing unusual precedes it, and the fast path processes the packets. A wrong number cannot go
unnoticed: the record would not open. Where the fast path cannot go on, the connection is restored, and the
scalar tracker reads its records until the next window begins.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Direction
from decoders.memory import grown
from decoders.tls.protection import IV_SIZE, open_next
from decoders.wire.chunk import Chunk
from decoders.wire.columnar.flow_table import FlowTable
from decoders.wire.columnar.frames import FrameBatchBuilder
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch
from decoders.wire.columnar.tls_window import (
    NO_STREAM,
    SHORTEST_RECORD,
    TlsWindow,
    cut_records,
    end_window,
    gather,
    sealed_records,
)
from decoders.wire.connection import Connection
from decoders.wire.decryption import Decryption
from decoders.wire.record_stream import RecordStream

MIN_WINDOW: Final = 256
MAX_WINDOW: Final = 1 << 15
"""Packets of a window: MIN_WINDOW while connections wait to be offloaded, then twice as many each time.

A batch of a capture file has fewer than MAX_WINDOW, unless nearly all packets are empty.
"""
_DIRECTIONS: Final = (Direction.TO_BROKER, Direction.TO_CLIENT)


class TlsAhead:
    """The connections that are decrypted, and the window that the fast path processes."""

    def __init__(self, table: FlowTable) -> None:
        self.window = TlsWindow.empty()
        self._table = table
        self._size = MIN_WINDOW
        self._waiting: dict[int, tuple[Connection, bool]] = {}
        """Connections that can be offloaded, by flow, and whether the lower socket is their client."""
        self._followed: dict[int, Decryption] = {}
        """The decryption of each offloaded connection, by flow."""
        self._decrypts = np.full((0, len(_DIRECTIONS)), None)
        self._vectors = np.zeros((0, len(_DIRECTIONS), IV_SIZE), np.uint8)
        """`decrypt_into` and `vector` of the `Protection` of each flow and direction; None and 0 without
        one."""
        self._stream_of = np.empty((0, len(_DIRECTIONS)), np.int64)
        self._ciphertext = np.empty(0, np.uint8)
        self._streams = 0

    def begin_batch(self, packets: int) -> None:
        """Prepare for a batch of packets."""
        self.window = self.window.for_packets(packets)

    def note(self, flow: int, connection: Connection, *, lower_is_client: bool) -> None:
        """Note that a connection that is decrypted can be offloaded when the next window begins."""
        self._waiting[flow] = connection, lower_is_client

    def open(
        self,
        packets: PacketBatch,
        segments: SegmentBatch,
        pairs: NDArray[np.int64],
        begin: int,
        builder: FrameBatchBuilder,
    ) -> int:
        """Begin a window at a packet, put its plaintext into the builder's data, and return where it ends."""
        self._size = MIN_WINDOW if self._waiting else min(2 * self._size, MAX_WINDOW)
        self._offload(builder)
        end = min(packets.size, begin + self._size)
        # Also for an empty batch, which compiles the code before it is needed.
        if self._followed or not packets.size:
            self._gather(segments, pairs, begin, end)
            self._open(*self._cut(packets, segments, begin, end), builder)
        return end

    def close(self) -> None:
        """End the window: the held bytes of records go back to the connections."""
        if not self._streams:
            return
        streams, flows = self.window.streams, self._table.flows
        incomplete = np.empty(self._streams, np.int64)
        arrays = (streams, self._streams, flows.states, flows.streams, self._stream_of, incomplete)
        for number in incomplete[: end_window(*arrays)].tolist():
            self._give_back(number, self._followed[int(streams["flow"][number])])
        self._streams = 0

    def restore(self, flow: int) -> None:
        """Give the held bytes of a flow's records back, before the flow is restored."""
        decryption = self._followed.pop(flow, None)
        if decryption is None:
            return
        self._decrypts[flow], self._vectors[flow] = None, 0
        for column, direction in enumerate(_DIRECTIONS):
            row = self._table.flows.streams[flow, column]
            number = int(self._stream_of[flow, column]) if flow < len(self._stream_of) else NO_STREAM
            if number != NO_STREAM:
                self._give_back(number, decryption)
            elif not row["held"]:
                decryption.streams[direction] = RecordStream(int(row["next"]))

    def _offload(self, builder: FrameBatchBuilder) -> None:
        more = len(self._table.flows.states) - len(self._decrypts)
        if more:
            self._decrypts = np.concatenate((self._decrypts, np.full((more, len(_DIRECTIONS)), None)))
            self._vectors = grown(self._vectors, len(self._decrypts))
        for flow, (connection, lower_is_client) in self._waiting.items():
            if connection.is_closed or connection.decryption is None:
                continue
            self._table.offload(connection, lower_is_client, builder)
            if self._table.flows.states[flow]["offloaded"]:
                self._followed[flow] = decryption = connection.decryption
                protections = [decryption.receiver(each).protection for each in _DIRECTIONS]
                self._decrypts[flow] = [each.decrypt_into for each in protections]
                self._vectors[flow] = [[*each.vector] for each in protections]
        self._waiting.clear()

    def _gather(self, segments: SegmentBatch, pairs: NDArray[np.int64], begin: int, end: int) -> None:
        flows = self._table.flows
        if len(self._stream_of) < len(flows.states):
            self._stream_of = np.full((len(flows.states), len(_DIRECTIONS)), NO_STREAM)
        rows, streams = self.window.rows, grown(self.window.streams, end - begin)
        arrays = (pairs, self._table.flow_of_pair, flows.states, flows.streams)
        self._streams = gather(segments, *arrays, begin, end, self._stream_of, rows, streams)
        self.window = self.window._replace(streams=streams)

    def _cut(
        self, packets: PacketBatch, segments: SegmentBatch, begin: int, end: int
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the streams of the window and its records."""
        streams = self.window.streams[: self._streams]
        held = {number: self._held(number) for number in np.flatnonzero(streams["held"]).tolist()}
        for number, chunks in held.items():
            streams["pieces"][number] += len(chunks)
        for first, size in (("start", "size"), ("first_piece", "pieces")):
            streams[first] = np.cumsum(streams[size]) - streams[size]
        streams["next_piece"] = streams["first_piece"]
        total = int(streams["size"].sum())
        self._ciphertext = grown(self._ciphertext, total)
        pieces = grown(self.window.pieces, int(streams["pieces"].sum()))
        records = grown(self.window.records, total // SHORTEST_RECORD + 1)
        self.window = self.window._replace(pieces=pieces, records=records)
        for number, chunks in held.items():
            self._put_held(number, chunks)
        packet = packets.data, packets.captured_at, packets.positions, segments, self._table.flows.states
        count = cut_records(*packet, begin, end, self.window, self._streams, self._ciphertext)
        return streams[streams["records"] > 0], records[:count]

    def _open(self, streams: NDArray[Any], records: NDArray[Any], builder: FrameBatchBuilder) -> None:
        """Decrypt the records into the builder's data."""
        records["plain"] += builder.take(int(records["size"].sum()))
        which = streams["flow"], streams["direction"]
        decrypts = np.repeat(self._decrypts[which], streams["records"]).tolist()
        vectors = self._vectors[which]
        sealed = sealed_records(streams, records, self._table.flows.states, self._ciphertext, vectors)
        # A generator: a list of tuples would keep the garbage collector busy.
        calls = zip(decrypts, *sealed, strict=True)
        ends, at = np.cumsum(streams["records"]), 0
        while at < len(records):
            at += open_next(calls, self._ciphertext.data, builder.data.data)
            if at < len(records):
                end = int(ends[np.searchsorted(ends, at, "right")])
                records["opened"][at:end] = False
                deque(islice(calls, end - at - 1), 0)
                at = end

    def _held(self, number: int) -> list[Chunk]:
        """Return the held bytes of the record with which a stream of the window begins."""
        stream = self.window.streams[number]
        return self._followed[int(stream["flow"])].streams[_DIRECTIONS[stream["direction"]]].incomplete()

    def _put_held(self, number: int, chunks: list[Chunk]) -> None:
        stream = self.window.streams[number]
        content = b"".join(chunk.payload for chunk in chunks)
        start = int(stream["start"])
        self._ciphertext[start : start + len(content)] = np.frombuffer(content, np.uint8)
        for chunk in chunks:
            piece = (chunk.end - stream["base"], chunk.captured_at, chunk.position, chunk.acknowledgment)
            self.window.pieces[stream["next_piece"]] = piece
            stream["next_piece"] += 1

    def _give_back(self, number: int, decryption: Decryption) -> None:
        """Let a connection hold the bytes that the fast path holds of a record in the window."""
        stream = self.window.streams[number]
        row = self._table.flows.streams[stream["flow"], stream["direction"]]
        end, base = int(row["next"]), int(stream["base"])
        begin = end - int(row["held"])
        chunks = self._chunks(stream, begin - base, end - base) if begin < end else []
        decryption.streams[_DIRECTIONS[stream["direction"]]] = RecordStream(begin, chunks)

    def _chunks(self, stream: np.void, begin: int, end: int) -> list[Chunk]:
        """Return the bytes between two places of a stream's region, as they were captured."""
        first, start, base = int(stream["first_piece"]), int(stream["start"]), int(stream["base"])
        pieces = self.window.pieces[first : first + int(stream["pieces"])]
        chunks, at = [], begin
        first = int(np.searchsorted(pieces["end"], begin, "right"))
        for piece_end, captured_at, position, acknowledgment in pieces[first:].tolist():
            stop = min(piece_end, end)
            payload = self._ciphertext[start + at : start + stop].tobytes()
            place = base + at, payload, captured_at, position, acknowledgment
            chunks.append(Chunk(*place, starts_segment=False))
            at = stop
            if at == end:
                break
        return chunks
