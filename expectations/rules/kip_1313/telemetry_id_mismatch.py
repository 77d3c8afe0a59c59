"""kip1313/telemetry-id-mismatch."""

from __future__ import annotations

from collections.abc import Iterator

from decoders.frame.record import Kind
from decoders.protocol import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from expectations.conversation.bodies import TelemetryIdentity
from expectations.conversation.conversation import Conversation
from expectations.conversation.identifier import ZERO, identifier_text
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import (
    REQUESTS,
    Judgement,
    Level,
    NoState,
    Role,
    Rule,
    Verdict,
    conforms,
    undecided,
)


class TelemetryIdMismatch(Rule):
    """Checks that telemetry requests give the client instance ID that the connection goes by.

    ## Why it matters
    Client metrics are filed under the ID in the telemetry request. Under another ID they cannot be
    matched with the requests of the client that pushed them, and its subscription is not found.

    ## Example
    `Metadata v14, ID 7b6e…`, then `PushTelemetry v0` with `ClientInstanceId 91c0…` in its body.

    ## What to do
    Put the ID of the request headers into the body of version 0, or use version 1, which has none. A
    client that generates no ID sends zero first and then the one that the broker assigned.

    ## What it does not cover
    A zero ID in GetTelemetrySubscriptions asks for one, which is right for a client that gives none in its
    headers; where such a header may have been missed, it is undecided. A client that gives no ID in its
    headers may have been assigned one on another connection: without an assignment on this one it is not
    judged, and where one may have been missed it is undecided.
    """

    section = "Proposed Changes, Alignment of identifiers"
    requirement = (
        "The client instance ID of the request headers is the one of client telemetry; without it, the "
        "one that the broker assigned."
    )
    message = "{api} v{version} gives the client instance ID {observed}, the connection goes by {expected}"
    level = Level.VIOLATION
    role = Role.CLIENT
    kinds = REQUESTS
    apis = frozenset({GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY})
    implies = ("kip1313/instance-id-missing",)

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each telemetry request that has an ID in its body."""
        telemetry = (GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY)
        if observation.kind is not Kind.REQUEST or observation.api_key not in telemetry:
            return
        if not isinstance(observation.body, TelemetryIdentity):
            if not observation.has_header:
                yield undecided(observation.count)
        elif observation.body.instance_id != ZERO:
            yield from _judge_id(observation, observation.body.instance_id, conversation)
        elif observation.api_key == GET_TELEMETRY_SUBSCRIPTIONS:
            yield _judge_zero(observation, conversation)


def _judge_zero(request: Observation, conversation: Conversation) -> Judgement:
    """A client without an instance ID asks the broker for one. A client that has one gives it."""
    if conversation.instance_id is not None:
        return _violates(request, ZERO, identifier_text(conversation.instance_id))
    return conforms(request.count) if conversation.unbroken else undecided(request.count)


def _judge_id(request: Observation, given: str, conversation: Conversation) -> Iterator[Judgement]:
    known = _known_ids(conversation)
    if given in known:
        yield conforms(request.count)
    elif known and (conversation.instance_id is not None or conversation.unbroken):
        yield _violates(request, given, known[0])
    elif not conversation.unbroken:
        yield undecided(request.count)


def _violates(request: Observation, given: str, expected: str) -> Judgement:
    context = {"observed": given, "expected": expected}
    return Judgement(Verdict.VIOLATES, request.count, expected, given, context)


def _known_ids(conversation: Conversation) -> list[str]:
    """Return the ID of the headers or, without one, those that the broker assigned, latest first."""
    if conversation.instance_id is not None:
        return [identifier_text(conversation.instance_id)]
    return conversation.telemetry.assigned[::-1]
