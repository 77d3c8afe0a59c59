"""wire/frame-size-invalid."""

from __future__ import annotations

import msgspec

from decoders.frame.record import Direction, Kind
from decoders.wire.frame_detector import (
    OtherProtocol,
    is_broken_length,
    is_tls_alert,
    protocol_of,
    protocol_of_server,
)
from expectations.conversation.conversation import Conversation, FirstAnswer
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_incomplete
from expectations.rules.base.rule import (
    Judgement,
    Judgements,
    Level,
    Role,
    Rule,
    conforms,
    undecided,
    violates,
)

SMALLEST = 4
"""Bytes of a correlation ID, the least that a frame holds."""
_SIGN = 1 << 31
_PAGES = (b"<!DO", b"<htm", b"<HTM")
"""How pages begin: a server of HTTP/0.9 sends nothing before."""


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
    wire/not-kafka. An alert of TLS that answers the first request is kip35/request-before-tls.
    """

    section = "Protocol guide, Common Request and Response Structure"
    requirement = "Each frame is preceded by its length, which is four bytes or more."
    needs = "the length of a frame"
    message = "a frame announces a length of {size} bytes{text}{outcome}"
    level = Level.VIOLATION
    role = Role.SENDER
    State = SizeState

    def on_opening(self, opening: Observation, conversation: Conversation, state: SizeState) -> Judgements:
        """Remember whether the first length may be read at a wrong place."""
        state.broken = opening.mid_stream
        return ()

    def on_request(self, request: Observation, conversation: Conversation, state: SizeState) -> Judgements:
        """Judge each request: it has a length, and the broker goes on."""
        yield conforms(request.count)
        yield from _tolerated(state)

    def on_response(self, response: Observation, conversation: Conversation, state: SizeState) -> Judgements:
        """Judge each response likewise."""
        yield conforms(response.count)
        yield from _tolerated(state)

    def on_loss(self, loss: Observation, conversation: Conversation, state: SizeState) -> Judgements:
        """Judge each impossible length. What follows it, or a gap, may be read at a wrong place."""
        is_alert = conversation.first_answer is FirstAnswer.TLS_ALERT and is_tls_alert(loss.size)
        if loss.kind is Kind.INVALID_SIZE and not is_alert:
            yield from self._judge_size(loss, conversation, state)
        state.broken = True

    def on_foreign(self, opening: Observation, conversation: Conversation, state: SizeState) -> Judgements:
        """Judge a connection that begins with the length of a broken encoder, at a port of Kafka."""
        is_broken = opening.named_port and is_broken_length(_signed(opening.size))
        if is_broken and not opening.responded:
            yield _violates(opening, Level.VIOLATION, "")

    def close(self, conversation: Conversation, state: SizeState) -> Judgements:
        """Judge an oversized request by whether the broker closed the connection."""
        if state.oversized is not None and conversation.was_refused_by_closing:
            yield _violates(state.oversized, Level.VIOLATION, ", and the broker closed the connection")
        else:
            yield from _tolerated(state)

    def _judge_size(
        self, observation: Observation, conversation: Conversation, state: SizeState
    ) -> Judgements:
        yield from _tolerated(state)
        if state.broken:
            yield undecided(why_incomplete(conversation))
        elif _signed(observation.size) < SMALLEST:
            yield _violates(observation, Level.VIOLATION, "")
        elif observation.direction is Direction.TO_BROKER:
            state.oversized = observation
        else:
            yield _violates(observation, Level.INFORMATION, "")


def _tolerated(state: SizeState) -> Judgements:
    """Report an oversized request upon which the broker did not close."""
    if state.oversized is not None:
        yield _violates(state.oversized, Level.INFORMATION, "")
        state.oversized = None


def _violates(observation: Observation, level: Level, outcome: str) -> Judgement:
    size = _signed(observation.size)
    return violates(
        expected=f"{SMALLEST} bytes or more, within the broker's limit",
        observed=f"{size} bytes",
        context={"size": str(size), "text": _as_text(observation.size), "outcome": outcome},
        level=level,
        subject=observation,
        role=Role.CLIENT if observation.direction is Direction.TO_BROKER else Role.BROKER,
    )


def _as_text(size: int) -> str:
    """Show the four bytes of a length if HTTP begins with them, "" if not: others may be part of a secret."""
    text = (size & 0xFFFFFFFF).to_bytes(4)
    is_http = OtherProtocol.HTTP in (protocol_of(text), protocol_of_server(text)) or text in _PAGES
    return f", the text {text.decode()!r} of HTTP" if is_http else ""


def _signed(size: int) -> int:
    """Read a length as Kafka does, as a signed number of 32 bits."""
    return size - 2 * _SIGN if size >= _SIGN else size
