"""Length-prefixed frames of one direction, and what to do where the boundaries are not known.

A framer is in one of four steps:

    OPENING  ── a plausible first request ──►  IN_STEP  ── boundary lost ──►  SEEKING ──┐
       └────── anything else ──► OPAQUE           ▲──── strong evidence ─────────┘      │
                                    ▲──────────── evidence of something else ───────────┘

It stays in step across a hole that lies wholly inside one frame of known length: that frame is cut
at its first missing byte, and the next boundary is as certain as before. What counts as evidence is
asked of the caller: the framer knows nothing of Kafka but the length before each frame.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from decoders.wire.assembly import MAX_FRAME, Assembly, AssemblyState, Frame, InvalidSize
from decoders.wire.ledger import Ledger, Reason
from decoders.wire.stream import PIECE_COST, Chunk, Gap

Evidence = Callable[[bytes | bytearray], bool | None]
"""Whether bytes begin with a frame, its length prefix included; None where more bytes must come first."""
CutEvidence = Callable[[bytes | bytearray, int], bool | None]
"""The same, where so many bytes more passed and were not captured; where these are none, more may come."""


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


Framed = Frame | Loss | InvalidSize


class Framer:
    """Cuts one direction into frames.

    `opens` is asked only in the step OPENING; in SEEKING `resumes` and then `is_foreign`: whether bytes
    show that this is not Kafka. A length beyond `max_frame` bytes is none.
    """

    def __init__(
        self,
        ledger: Ledger,
        step: Step,
        *,
        opens: Evidence,
        resumes: CutEvidence,
        is_foreign: Evidence,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self.step = step
        self._ledger = ledger
        self._opens = opens
        self._resumes = resumes
        self._is_foreign = is_foreign
        self._max_frame = max_frame
        self._assembly: Assembly | None = None
        self._candidate = bytearray()
        self._candidate_chunks: deque[Chunk] = deque()

    def push(self, chunk: Chunk) -> Iterator[Framed]:
        """Take bytes that follow on those before."""
        if self.step is Step.IN_STEP:
            yield from self._cut(chunk)
        elif self.step is Step.OPAQUE:
            self._ledger.skip(Reason.OPAQUE, len(chunk.payload))
        else:
            self._candidate += chunk.payload
            self._candidate_chunks.append(chunk)
            yield from self._weigh()

    def lose(self, gap: Gap) -> Iterator[Framed]:
        """Take note of bytes that were not captured."""
        if self.step is Step.OPAQUE:
            return
        if self._is_cut_frame(gap):
            yield from self._accept()
        if self._assembly is not None and self._assembly.size is not None:
            wanted = self._assembly.wanted
            self._assembly.pass_over(min(gap.size, wanted))
            if self._assembly.is_whole:
                yield self._finish(self._assembly, gap.offset + wanted, gap.captured_at)
            if gap.size <= wanted:
                return
        yield self._lose_step(Loss(gap.size, gap.captured_at, gap.position))

    def snapshot(self) -> AssemblyState | None:
        """Give the frame that comes together, if any: all that a framer holds that does not seek."""
        return self._assembly.snapshot() if self._assembly else None

    def restore(self, state: AssemblyState | None) -> None:
        """Go on from a snapshot, in the step that it was taken in."""
        self._assembly = Assembly.of(state, self._max_frame) if state else None

    @property
    def held(self) -> int:
        """How much memory waits for the rest of a frame, or for evidence, in bytes."""
        assembled = self._assembly.held if self._assembly else 0
        return assembled + 2 * len(self._candidate) + PIECE_COST * len(self._candidate_chunks)

    def abandon(self) -> None:
        """Leave this direction alone from here on: it is not Kafka."""
        self._discard(Reason.OPAQUE)
        self.step = Step.OPAQUE

    def close(self) -> None:
        """Book what is left: nothing more will come."""
        self._discard(Reason.UNSYNCHRONISED if self.step is Step.SEEKING else Reason.UNFINISHED)

    def _cut(self, chunk: Chunk) -> Iterator[Framed]:
        at = 0
        while at < len(chunk.payload):
            self._assembly = assembly = self._assembly or Assembly(chunk, self._max_frame)
            piece = chunk.payload[at : at + assembly.wanted]
            at += len(piece)
            if not assembly.add(piece):
                self._ledger.skip(Reason.AFTER_HOLE, len(piece))
            if assembly.is_impossible:
                self._ledger.skip(Reason.UNSYNCHRONISED, len(chunk.payload) - at)
                yield assembly.invalid_size()
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

    def _weigh(self) -> Iterator[Framed]:
        """Hold the candidate against the evidence, and drop what cannot begin a frame."""
        while self._candidate:
            judge = self._judge_opening if self.step is Step.OPENING else self._judge_candidate
            verdict = judge()
            if verdict is None:
                return
            yield from verdict

    def _judge_opening(self) -> Iterable[Framed] | None:
        """Say what comes of the candidate; None where more bytes must come first."""
        opens = self._opens(self._candidate)
        if opens is None:
            return None
        return self._accept() if opens else [self._refuse()]

    def _judge_candidate(self) -> Iterable[Framed] | None:
        if not self._candidate_chunks[0].starts_segment:
            return [self._drop_first_chunk()]
        resumes = self._resumes(self._candidate, 0)
        if resumes is not False:
            return self._accept() if resumes else None
        is_foreign = self._is_foreign(self._candidate)
        if is_foreign is None:
            return None
        return [self._refuse() if is_foreign else self._drop_first_chunk()]

    def _is_cut_frame(self, gap: Gap) -> bool:
        """Whether a candidate is a frame whose end, and nothing else, is in a gap."""
        is_candidate = self.step is Step.SEEKING and bool(self._candidate)
        return is_candidate and self._resumes(self._candidate, gap.size) is True

    def _accept(self) -> Iterator[Framed]:
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
