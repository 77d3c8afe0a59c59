"""wire/frame-size-invalid."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from decoders.frame.record import Direction, Kind
from decoders.wire.other_protocol import is_broken_length
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import Judgement, Level, Role, Rule, Verdict, conforms, undecided

SMALLEST = 4
"""Bytes of a correlation ID, the least that a frame holds."""
_SIGN = 1 << 31


class SizeState(msgspec.Struct, omit_defaults=True):
    """Whether bytes were missed, and the oversized frame upon which the broker may still close."""

    broken: bool = False
    oversized: Observation | None = None


class FrameSizeInvalid(Rule):
    """Checks that the length before each frame is one that a frame can have.

    ## Why it matters
    The receiver closes the connection: it cannot know where the next frame begins.

    ## Example
    A client that sends the length -1 before its first request

    ## What to do
    Find out what connects there. If it is a Kafka client, keep its requests below the broker's
    `socket.request.max.bytes`.

    ## What it does not cover
    Raw SASL tokens, which may be empty. A request that is merely too large is a violation if the
    broker closed the connection on it, and information otherwise, since the broker's limit is not on
    the wire; so is a response. After lost bytes the length may have been read at a wrong place:
    undecided. At the beginning of a connection only the lengths of a broken encoder are judged, those
    below 4, -1 and 2 GiB, and only at ports that are named (`--ports`): other bytes there are
    wire/not-kafka.
    """

    section = "Protocol guide, Common Request and Response Structure"
    requirement = "Each frame is preceded by its length, which is four bytes or more."
    message = "a frame announces a length of {size} bytes{outcome}"
    level = Level.VIOLATION
    role = Role.SENDER
    State = SizeState

    kinds = frozenset(Kind)

    def judge(
        self, observation: Observation, conversation: Conversation, state: SizeState
    ) -> Iterator[Judgement]:
        """Judge each frame, and each impossible length."""
        match observation.kind:
            case Kind.REQUEST | Kind.RESPONSE:
                yield conforms(observation.count)
                yield from _tolerated(state)
            case Kind.INVALID_SIZE:
                yield from self._judge_size(observation, state)
                state.broken = True
            case Kind.NOT_KAFKA:
                is_broken = observation.named_port and is_broken_length(_signed(observation.size))
                if is_broken and not observation.responded:
                    yield _violates(observation, Level.VIOLATION, "")
            case Kind.GAP:
                state.broken = True
            case Kind.OPENED:
                state.broken = observation.mid_stream

    def close(self, conversation: Conversation, state: SizeState) -> Iterator[Judgement]:
        """Judge an oversized request by whether the broker closed the connection."""
        if state.oversized is not None and conversation.was_refused_by_closing:
            yield _violates(state.oversized, Level.VIOLATION, ", and the broker closed the connection")
        else:
            yield from _tolerated(state)

    def _judge_size(self, observation: Observation, state: SizeState) -> Iterator[Judgement]:
        yield from _tolerated(state)
        if state.broken:
            yield undecided()
        elif _signed(observation.size) < SMALLEST:
            yield _violates(observation, Level.VIOLATION, "")
        elif observation.direction is Direction.TO_BROKER:
            state.oversized = observation
        else:
            yield _violates(observation, Level.INFORMATION, "")


def _tolerated(state: SizeState) -> Iterator[Judgement]:
    """Report an oversized request upon which the broker did not close."""
    if state.oversized is not None:
        yield _violates(state.oversized, Level.INFORMATION, "")
        state.oversized = None


def _violates(observation: Observation, level: Level, outcome: str) -> Judgement:
    size = _signed(observation.size)
    return Judgement(
        Verdict.VIOLATES,
        expected=f"{SMALLEST} bytes or more, within the broker's limit",
        observed=f"{size} bytes",
        context={"size": str(size), "outcome": outcome},
        level=level,
        subject=observation,
        role=Role.CLIENT if observation.direction is Direction.TO_BROKER else Role.BROKER,
    )


def _signed(size: int) -> int:
    """Read a length as Kafka does, as a signed number of 32 bits."""
    return size - 2 * _SIGN if size >= _SIGN else size
