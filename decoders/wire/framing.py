"""Cuts one direction into length-prefixed frames, and finds frame boundaries again after a gap.

A frame of the Kafka protocol is a signed 32-bit length prefix and as many bytes. An `Assembly` collects the
bytes of one frame. The `Framer` of a direction is in one of four states:

    OPENING ── plausible first request ──► SYNCHRONISED ── boundary lost ──► SEEKING
       │                                        ▲                              │ │
       │                                        └─── a frame is detected ──────┘ │
       └── anything else ──► OPAQUE ◄── another protocol is detected ────────────┘

    state         the next bytes                              leaves it for
    ------------  ------------------------------------------  ----------------------------------------------
    OPENING       are collected until they show whether they  SYNCHRONISED or OPAQUE, as `opens` says
                  may begin a request
    SYNCHRONISED  are assembled into frames                   SEEKING at an impossible length, or at a gap
                                                              that does not end inside the frame it begins
                                                              in
    SEEKING       are collected, and dropped chunk by chunk   SYNCHRONISED if `resumes` detects a frame,
                  while they do not begin a frame             OPAQUE if `is_other_protocol` is true
    OPAQUE        are skipped                                 none

The framer stays SYNCHRONISED across a hole inside one frame of known length: that frame is cut at its first
missing byte, and the next boundary is as certain as before. The caller may `abandon` a direction in any
state, which makes it OPAQUE. The caller also passes the functions that detect frames: of Kafka, the framer
knows only the length prefix.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from decoders.wire.chunk import PIECE_COST, Chunk, Gap, UnsizedGap
from decoders.wire.ledger import Ledger, SkipReason

PREFIX = 4
"""Bytes of the length prefix."""
MAX_FRAME = 100 * 1024 * 1024
"""Bytes of the largest request that a broker accepts by default (`socket.request.max.bytes`)."""
SHORTEST_FRAME = 4
"""Bytes of a correlation ID. Only a raw SASL token may be shorter."""
_TESTS_A_BYTE = 2
"""How often a byte is decoded in vain, on average at most: a frame may seem to begin in each segment."""
OPENING_SIZE = PREFIX + 2
"""Bytes that decide whether a connection may begin with a request: a length prefix and an API key."""
Detect = Callable[[bytes | bytearray], bool | None]
"""Returns whether bytes begin with a frame (with its length prefix); None if more bytes are needed."""
DetectCut = Callable[[bytes | bytearray, int], bool | None]
"""The same for bytes before a gap. The second argument is its size, 0 if no gap follows."""


class InvalidSize(NamedTuple):
    """A length prefix that no frame can have.

    `captured_at` and `position` are those of the segment with the prefix's first byte.
    """

    size: int
    captured_at: int
    position: int


class Frame(NamedTuple):
    """A frame without its length prefix.

    `payload` ends before the first byte that was not captured; `true_length` counts all bytes.
    `captured_at`, `position` and `acknowledgment` are those of the segment with the first byte of the
    length prefix. `completed_at` is the capture time of the segment with the last byte, `end` the offset in
    the stream after it, or after its TLS record. Times are nanoseconds since the epoch.
    """

    payload: bytes
    true_length: int
    captured_at: int
    position: int
    acknowledgment: int
    completed_at: int
    end: int

    def invalid_size(self) -> InvalidSize:
        """Return the frame's length as an invalid one: the frame is shorter than a correlation ID."""
        return InvalidSize(self.true_length, self.captured_at, self.position)


class AssemblySnapshot(NamedTuple):
    """The state of an assembly.

    `captured` holds bytes of the length prefix while `size` is None, then bytes of the frame, of which
    `passed` have passed. The other fields are those of the segment with the first byte of the prefix.
    """

    size: int | None
    captured: bytes
    passed: int
    captured_at: int
    position: int
    acknowledgment: int


class Assembly:
    """Collects the bytes of one frame. `size` is None until the length prefix is complete."""

    def __init__(self, first: Chunk, max_frame: int) -> None:
        """Begin with the chunk that holds the prefix's first byte. Sizes above `max_frame` are invalid."""
        self.size: int | None = None
        self._max_frame = max_frame
        self._first = first
        self._bytes = bytearray()
        self._passed = 0

    @classmethod
    def of(cls, state: AssemblySnapshot, max_frame: int) -> Assembly:
        """Restore an assembly from a snapshot."""
        assembly = cls(Chunk(0, b"", *state[3:], starts_segment=False), max_frame)
        assembly.size, assembly._passed = state.size, state.passed
        assembly._bytes += state.captured
        return assembly

    def snapshot(self) -> AssemblySnapshot:
        """Return the state of the assembly."""
        first = self._first
        place = (first.captured_at, first.position, first.acknowledgment)
        return AssemblySnapshot(self.size, bytes(self._bytes), self._passed, *place)

    @property
    def wanted(self) -> int:
        """The number of bytes that are missing from the prefix, or else from the frame."""
        return PREFIX - len(self._bytes) if self.size is None else self.size - self._passed

    @property
    def held(self) -> int:
        """The number of captured bytes, including those of the prefix."""
        return len(self._bytes) + (PREFIX if self.size is not None else 0)

    @property
    def is_impossible(self) -> bool:
        """Whether no frame can have this size."""
        return self.size is not None and not 0 <= self.size <= self._max_frame

    @property
    def is_complete(self) -> bool:
        """Whether every byte of the frame has passed, captured or not."""
        return self._passed == self.size

    def add(self, piece: bytes) -> bool:
        """Add at most `wanted` bytes. Returns False if they follow a hole; such bytes are not kept."""
        if self.size is None:
            self._bytes += piece
            if len(self._bytes) == PREFIX:
                self.size = int.from_bytes(self._bytes, signed=True)
                self._bytes.clear()
            return True
        has_hole = len(self._bytes) < self._passed
        self._passed += len(piece)
        if not has_hole:
            self._bytes += piece
        return not has_hole

    def skip(self, size: int) -> None:
        """Leave a hole of at most `wanted` bytes in the frame."""
        self._passed += size

    def invalid_size(self) -> InvalidSize:
        """Return the impossible size, and where it was captured."""
        return InvalidSize(self.size or 0, self._first.captured_at, self._first.position)

    def frame(self, end: int, completed_at: int) -> Frame:
        """Return the complete frame, which ends at an offset of the stream."""
        first = self._first
        place = (first.captured_at, first.position, first.acknowledgment)
        return Frame(bytes(self._bytes), self.size or 0, *place, completed_at, end)


class FramerState(enum.Enum):
    """The states of a framer, as the module describes them."""

    OPENING = enum.auto()
    SYNCHRONISED = enum.auto()
    SEEKING = enum.auto()
    OPAQUE = enum.auto()


class Loss(NamedTuple):
    """Frames may have been missed here. `size` is the number of bytes not captured, 0 if unknown."""

    size: int
    captured_at: int
    position: int


class NoRequest(NamedTuple):
    """The first bytes of a connection, OPENING_SIZE at most, which are no request.

    `captured_at` and `position` are those of the segment with the first byte.
    """

    beginning: bytes
    captured_at: int
    position: int


Framed = Frame | Loss | InvalidSize | NoRequest


class Framer:
    """Cuts one direction into frames.

    It calls `opens` in the state OPENING; in SEEKING it calls `resumes` and then `is_other_protocol`, which
    returns whether bytes belong to another protocol than Kafka. Those are skipped for
    `other_protocol_reason`. Sizes above `max_frame` bytes are invalid.
    """

    def __init__(
        self,
        ledger: Ledger,
        state: FramerState,
        *,
        opens: Detect,
        resumes: DetectCut,
        is_other_protocol: Detect,
        other_protocol_reason: SkipReason = SkipReason.OPAQUE,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self.state = state
        self._opaque_reason = SkipReason.OPAQUE
        self._ledger = ledger
        self._opens = opens
        self._resumes = resumes
        self._is_other_protocol = is_other_protocol
        self._other_protocol_reason = other_protocol_reason
        self._max_frame = max_frame
        self._assembly: Assembly | None = None
        self._candidate = bytearray()
        self._candidate_chunks: deque[Chunk] = deque()
        self._decodable = 0  # bytes that may still be decoded in vain

    def push(self, chunk: Chunk) -> Iterator[Framed]:
        """Process the next bytes."""
        size, candidate = len(chunk.payload), len(self._candidate)
        self._decodable = min(self._decodable, _TESTS_A_BYTE * candidate) + _TESTS_A_BYTE * size
        yield from self._add(chunk)

    def _add(self, chunk: Chunk) -> Iterator[Framed]:
        if self.state is FramerState.SYNCHRONISED:
            yield from self._cut_frames(chunk)
        elif self.is_opaque:
            self._ledger.skip(self._opaque_reason, len(chunk.payload))
        else:
            self._candidate += chunk.payload
            self._candidate_chunks.append(chunk)
            yield from self._test_candidate()

    def skip(self, gap: Gap) -> Iterator[Framed]:
        """Process bytes that were not captured."""
        if self.is_opaque:
            return
        if self._is_cut_frame(gap):
            yield from self._accept()
        if self._assembly is not None and self._assembly.size is not None:
            wanted = self._assembly.wanted
            self._assembly.skip(min(gap.size, wanted))
            if self._assembly.is_complete:
                yield self._finish(self._assembly, gap.offset + wanted, gap.captured_at)
            # At a complete frame the caller may have excluded the connection.
            if gap.size <= wanted or self.is_opaque:
                return
        yield self._lose_synchronisation(Loss(gap.size, gap.captured_at, gap.position))

    def lose(self, gap: UnsizedGap) -> Iterator[Framed]:
        """Process a gap of unknown size."""
        if not self.is_opaque:
            yield self._lose_synchronisation(Loss(0, gap.captured_at, gap.position))

    def snapshot(self) -> AssemblySnapshot | None:
        """Return the frame under assembly: the whole state of a framer that is SYNCHRONISED or OPAQUE."""
        return self._assembly.snapshot() if self._assembly else None

    def restore(self, snapshot: AssemblySnapshot | None) -> None:
        """Continue from a snapshot, in the state in which it was taken."""
        self._assembly = Assembly.of(snapshot, self._max_frame) if snapshot else None

    @property
    def is_opaque(self) -> bool:
        """Whether all further bytes are skipped."""
        return self.state is FramerState.OPAQUE

    @property
    def held(self) -> int:
        """Bytes of memory of the frame under assembly and the candidate."""
        assembled = self._assembly.held if self._assembly else 0
        return assembled + 2 * len(self._candidate) + PIECE_COST * len(self._candidate_chunks)

    def abandon(self, reason: SkipReason = SkipReason.OPAQUE) -> None:
        """Enter the state OPAQUE: the direction is not Kafka, or it is excluded."""
        self._opaque_reason = reason
        self._discard(reason)
        self.state = FramerState.OPAQUE

    def close(self) -> None:
        """Count the bytes that are still held: no more bytes will be captured."""
        is_seeking = self.state is FramerState.SEEKING
        self._discard(SkipReason.UNSYNCHRONISED if is_seeking else SkipReason.UNFINISHED)

    def _cut_frames(self, chunk: Chunk) -> Iterator[Framed]:
        at = 0
        while at < len(chunk.payload):
            self._assembly = assembly = self._assembly or Assembly(chunk, self._max_frame)
            piece = chunk.payload[at : at + assembly.wanted]
            at += len(piece)
            if not assembly.add(piece):
                self._ledger.skip(SkipReason.AFTER_HOLE, len(piece))
            if assembly.is_impossible:
                self._ledger.skip(SkipReason.UNSYNCHRONISED, len(chunk.payload) - at)
                yield assembly.invalid_size()
                yield self._lose_synchronisation(Loss(0, chunk.captured_at, chunk.position))
                return
            if assembly.is_complete:
                yield self._finish(assembly, chunk.readable_from(at), chunk.captured_at)
                if self.is_opaque:
                    # The caller has excluded the connection because of this frame.
                    self._ledger.skip(self._opaque_reason, len(chunk.payload) - at)
                    return

    def _finish(self, assembly: Assembly, end: int, completed_at: int) -> Frame:
        self._assembly = None
        self._ledger.frame(assembly.held)
        return assembly.frame(end, completed_at)

    def _lose_synchronisation(self, loss: Loss) -> Loss:
        self._discard(SkipReason.UNSYNCHRONISED)
        self.state = FramerState.SEEKING
        return loss

    def _test_candidate(self) -> Iterator[Framed]:
        """Test whether the candidate begins a frame, and drop its first chunk if it does not."""
        while self._candidate:
            results = self._test_opening() if self.state is FramerState.OPENING else self._test_resumption()
            if results is None:
                return
            yield from results

    def _test_opening(self) -> Iterable[Framed] | None:
        """Return the results for the candidate; None if more bytes are needed."""
        opens = self._opens(self._candidate)
        if opens is None:
            return None
        return self._accept() if opens else [self._no_request(), self._reject()]

    def _test_resumption(self) -> Iterable[Framed] | None:
        if not self._candidate_chunks[0].starts_segment:
            return [self._drop_first_chunk()]
        end = PREFIX + int.from_bytes(self._candidate[:PREFIX])
        decoded = end if end <= len(self._candidate) else 0
        resumes = decoded <= self._decodable and self._resumes(self._candidate, 0)
        if resumes is not False:
            return self._accept() if resumes else None
        self._decodable -= min(decoded, self._decodable)
        is_other_protocol = self._is_other_protocol(self._candidate)
        if is_other_protocol is None:
            return None
        return [self._reject(self._other_protocol_reason) if is_other_protocol else self._drop_first_chunk()]

    def _is_cut_frame(self, gap: Gap) -> bool:
        """Whether the candidate is a frame whose missing end is as long as the gap."""
        is_candidate = self.state is FramerState.SEEKING and bool(self._candidate)
        return is_candidate and self._resumes(self._candidate, gap.size) is True

    def _accept(self) -> Iterator[Framed]:
        chunks = list(self._candidate_chunks)
        self._candidate.clear()
        self._candidate_chunks.clear()
        self.state = FramerState.SYNCHRONISED
        for chunk in chunks:
            yield from self._add(chunk)

    def _reject(self, reason: SkipReason = SkipReason.OPAQUE) -> Loss:
        chunk = self._candidate_chunks[-1]
        self.abandon(reason)
        return Loss(0, chunk.captured_at, chunk.position)

    def _no_request(self) -> NoRequest:
        first = self._candidate_chunks[0]
        return NoRequest(bytes(self._candidate[:OPENING_SIZE]), first.captured_at, first.position)

    def _drop_first_chunk(self) -> Loss:
        chunk = self._candidate_chunks.popleft()
        del self._candidate[: len(chunk.payload)]
        self._ledger.skip(SkipReason.UNSYNCHRONISED, len(chunk.payload))
        return Loss(0, chunk.captured_at, chunk.position)

    def _discard(self, reason: SkipReason) -> None:
        """Count all held bytes as parts of no frame."""
        held = self._assembly.held if self._assembly else 0
        self._ledger.skip(reason, len(self._candidate) + held)
        self._assembly = None
        self._candidate.clear()
        self._candidate_chunks.clear()
