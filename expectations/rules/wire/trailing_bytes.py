"""wire/trailing-bytes."""

from __future__ import annotations

from collections.abc import Iterator

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.statement import Failure
from expectations.rules.base.rule import (
    FRAMES,
    Judgement,
    Level,
    NoState,
    Role,
    Rule,
    Verdict,
    conforms,
    undecided,
)


class TrailingBytes(Rule):
    """Checks that a frame ends where its body does, and a tagged field where its size says.

    ## Why it matters
    Kafka's readers pass over such bytes without a word. They are the mark of an encoder that has its
    schema wrong, and the next version of the schema may give them a meaning.

    ## Example
    `Heartbeat v4` with two bytes behind the tag section of its body

    ## What to do
    The context gives the place: compare the sender's encoder with Kafka's schema of that API version
    there. A body of another version than the header's is a frequent cause.

    ## What it does not cover
    Frames that cannot be decoded at all: wire/malformed-request and wire/malformed-response. Frames
    that were cut, and responses that may belong to another request, are undecided.
    """

    section = "Protocol guide, the API's schema"
    requirement = "A frame holds what its schema describes and nothing more."
    message = "{api} v{version} has bytes that no field accounts for: {reason} at {path}, byte {offset}"
    level = Level.IMPROVEMENT
    role = Role.SENDER
    implies = ("kip511/unsupported-answer-not-v0",)
    kinds = FRAMES
    passes_clean = True
    uses_progress = True

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each frame that decodes."""
        is_frame = observation.kind in (Kind.REQUEST, Kind.RESPONSE)
        if not is_frame or not observation.known or observation.failure is not None:
            return
        if observation.cut or not _is_certain(observation, conversation):
            yield undecided(observation.count)
        elif observation.oddity is None:
            yield conforms(observation.count)
        else:
            yield self._violates(observation, observation.oddity)

    def _violates(self, observation: Observation, oddity: Failure) -> Judgement:
        return Judgement(
            Verdict.VIOLATES,
            observation.count,
            expected="no bytes but those of the schema's fields",
            observed=oddity.reason,
            context=oddity.context,
            role=Role.CLIENT if observation.kind is Kind.REQUEST else Role.BROKER,
        )


def _is_certain(observation: Observation, conversation: Conversation) -> bool:
    """Whether the schema of the frame is known for certain."""
    if observation.kind is Kind.REQUEST:
        return True
    return observation.is_matched and (observation.oddity is None or conversation.is_certain(observation))
