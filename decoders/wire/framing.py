"""Length-prefixed frames of one direction, and what to do where the boundaries are not known.

A framer is in one of four steps:

    OPENING  ── a plausible first request ──►  IN_STEP  ── boundary lost ──►  SEEKING
       └────── anything else ──► OPAQUE           ▲──── strong evidence ─────────┘

It stays in step across a hole that lies wholly inside one frame of known length: that frame is cut
at its first missing byte, and the next boundary is as certain as before. What counts as evidence is
asked of the caller: the framer knows nothing of Kafka but the length before each frame.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from decoders.wire.assembly import Assembly, Frame
from decoders.wire.ledger import Ledger, Reason
from decoders.wire.stream import Chunk, Gap

Evidence = Callable[[bytes | bytearray], bool | None]
"""Whether bytes begin with a frame, its length prefix included; None where more bytes must come first."""


class Step(enum.Enum):
    """What is known of the frame boundaries."""

    OPENING = enum.auto()
    IN_STEP = enum.auto()
    SEEKING = enum.auto()
    OPAQUE = enum.auto()


class Loss(NamedTuple):
    """Frames may have passed here unseen. `size` counts the bytes that were not captured."""

    size: int
    captured_at: int
    position: int


class Framer:
    """Cuts one direction into frames. `opens` is asked only in the step OPENING, `resumes` in SEEKING."""

    def __init__(self, ledger: Ledger, step: Step, *, opens: Evidence, resumes: Evidence) -> None:
        self.step = step
        self._ledger = ledger
        self._opens = opens
        self._resumes = resumes
        self._assembly: Assembly | None = None
        self._candidate = bytearray()
        self._candidate_chunks: deque[Chunk] = deque()

    def push(self, chunk: Chunk) -> Iterator[Frame | Loss]:
        """Take bytes that follow on those before."""
        if self.step is Step.IN_STEP:
            yield from self._cut(chunk)
        elif self.step is Step.OPAQUE:
            self._ledger.skip(Reason.OPAQUE, len(chunk.payload))
        else:
            self._candidate += chunk.payload
            self._candidate_chunks.append(chunk)
            yield from self._weigh()

    def lose(self, gap: Gap) -> Iterator[Frame | Loss]:
        """Take note of bytes that were not captured."""
        if self.step is Step.OPAQUE:
            return
        if self._assembly is not None and self._assembly.size is not None:
            wanted = self._assembly.wanted
            self._assembly.pass_over(min(gap.size, wanted))
            if self._assembly.is_whole:
                yield self._finish(self._assembly, gap.offset + wanted, gap.captured_at)
            if gap.size <= wanted:
                return
        yield self._lose_step(Loss(gap.size, gap.captured_at, gap.position))

    def abandon(self) -> None:
        """Leave this direction alone from here on: it is not Kafka."""
        self._discard(Reason.OPAQUE)
        self.step = Step.OPAQUE

    def close(self) -> None:
        """Book what is left: nothing more will come."""
        self._discard(Reason.UNSYNCHRONISED if self.step is Step.SEEKING else Reason.UNFINISHED)

    def _cut(self, chunk: Chunk) -> Iterator[Frame | Loss]:
        at = 0
        while at < len(chunk.payload):
            self._assembly = assembly = self._assembly or Assembly(chunk)
            piece = chunk.payload[at : at + assembly.wanted]
            at += len(piece)
            if not assembly.add(piece):
                self._ledger.skip(Reason.AFTER_HOLE, len(piece))
            if assembly.is_impossible:
                self._ledger.skip(Reason.UNSYNCHRONISED, len(chunk.payload) - at)
                yield self._lose_step(Loss(0, chunk.captured_at, chunk.position))
                return
            if assembly.is_whole:
                yield self._finish(assembly, chunk.offset + at, chunk.captured_at)

    def _finish(self, assembly: Assembly, end: int, completed_at: int) -> Frame:
        self._assembly = None
        self._ledger.frame(assembly.held)
        return assembly.frame(end, completed_at)

    def _lose_step(self, loss: Loss) -> Loss:
        self._discard(Reason.UNSYNCHRONISED)
        self.step = Step.SEEKING
        return loss

    def _weigh(self) -> Iterator[Frame | Loss]:
        """Hold the candidate against the evidence, and drop what cannot begin a frame."""
        while self._candidate:
            verdict = self._judge()
            if verdict is None:
                return
            if verdict:
                yield from self._accept()
            elif self.step is Step.OPENING:
                yield self._refuse()
            else:
                yield self._drop_first_chunk()

    def _judge(self) -> bool | None:
        if self.step is Step.OPENING:
            return self._opens(self._candidate)
        return self._candidate_chunks[0].starts_segment and self._resumes(self._candidate)

    def _accept(self) -> Iterator[Frame | Loss]:
        chunks = list(self._candidate_chunks)
        self._forget_candidate()
        self.step = Step.IN_STEP
        for chunk in chunks:
            yield from self.push(chunk)

    def _refuse(self) -> Loss:
        chunk = self._candidate_chunks[-1]
        self.abandon()
        return Loss(0, chunk.captured_at, chunk.position)

    def _drop_first_chunk(self) -> Loss:
        chunk = self._candidate_chunks.popleft()
        del self._candidate[: len(chunk.payload)]
        self._ledger.skip(Reason.UNSYNCHRONISED, len(chunk.payload))
        return Loss(0, chunk.captured_at, chunk.position)

    def _discard(self, reason: Reason) -> None:
        """Book all bytes that are held, as parts of no frame."""
        held = self._assembly.held if self._assembly else 0
        self._ledger.skip(reason, len(self._candidate) + held)
        self._assembly = None
        self._forget_candidate()

    def _forget_candidate(self) -> None:
        self._candidate.clear()
        self._candidate_chunks.clear()
