"""kip1313/telemetry-id-mismatch."""

from __future__ import annotations

import msgspec

from decoders.protocol import GET_TELEMETRY_SUBSCRIPTIONS, NO_ERROR, PUSH_TELEMETRY
from expectations.conversation.bodies import TelemetryIdentity
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.own_values import ClientId, MemberId, SequenceNumber
from expectations.conversation.texts import ZERO_UUID, identifier_text
from expectations.rules.base.reason import Reason, why_incomplete, why_unread
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

ASSIGNED_LIMIT = 8
"""Assigned IDs that are kept. A client asks for one, and again only if it lost the response."""

TELEMETRY_APIS = frozenset({GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY})


class TelemetryState(msgspec.Struct, omit_defaults=True):
    """The client instance IDs in the telemetry of a connection (KIP-714).

    `given` is the ID that the client gave last without having been assigned one, `client_id` the client ID
    beside it; a loss of bytes empties `given`. `assigned` holds the IDs that the broker assigned, the latest
    last, `asking` the sequences of the requests that wait for one.
    """

    given: MemberId = ""
    client_id: ClientId | None = None
    assigned: list[MemberId] = []
    asking: list[SequenceNumber] = []


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
    headers may have been assigned one on another connection: without an assignment on this one only an ID
    that changes is judged, and where one may have been missed it is undecided. So is one that changes with
    the client ID, or that differs on a connection of several client IDs: behind a proxy that pools
    connections that is another client.
    """

    section = "Proposed Changes, Alignment of identifiers"
    requirement = (
        "The client instance ID of the request headers is the one of client telemetry; without it, the "
        "one that the broker assigned."
    )
    needs = "GetTelemetrySubscriptions and PushTelemetry of one client"
    message = "{api} v{version} gives the client instance ID {observed}, the connection goes by {expected}"
    level = Level.VIOLATION
    role = Role.CLIENT
    apis = TELEMETRY_APIS
    implies = ("kip1313/instance-id-missing",)
    State = TelemetryState

    def on_request(
        self, request: Observation, conversation: Conversation, state: TelemetryState
    ) -> Judgements:
        """Judge each telemetry request that has an ID in its body."""
        if request.api_key not in TELEMETRY_APIS:
            return
        if not isinstance(request.body, TelemetryIdentity):
            if not request.uses_header_v3 and (request.cut or not request.has_header):
                self._note_question(request, state)
                yield undecided(why_unread(request), request.count)
        elif request.body.instance_id != ZERO_UUID:
            yield from _judge_id(request, request.body.instance_id, conversation, state)
        elif request.api_key == GET_TELEMETRY_SUBSCRIPTIONS:
            self._note_question(request, state)
            yield _judge_zero(request, conversation)

    def _note_question(self, request: Observation, state: TelemetryState) -> None:
        """Note a request that asks for an ID, or may: one that could not be read."""
        if request.api_key == GET_TELEMETRY_SUBSCRIPTIONS:
            state.asking = [*state.asking, request.first_sequence][-ASSIGNED_LIMIT:]

    def on_response(
        self, response: Observation, conversation: Conversation, state: TelemetryState
    ) -> Judgements:
        """Note the ID that the broker assigns, and forget those that a response replaces, or may replace."""
        if response.api_key != GET_TELEMETRY_SUBSCRIPTIONS:
            return ()
        told = response.body.instance_id if isinstance(response.body, TelemetryIdentity) else None
        if response.is_matched and response.paired_sequence in state.asking:
            state.asking.remove(response.paired_sequence)
            if told is None:
                state.assigned = []
            elif response.errors == (NO_ERROR,) and told != ZERO_UUID:
                state.assigned = [*state.assigned, told][-ASSIGNED_LIMIT:]
        if told not in (ZERO_UUID, state.given):
            state.given = ""
        return ()

    def on_loss(self, loss: Observation, conversation: Conversation, state: TelemetryState) -> Judgements:
        """Forget the ID and the requests for one: the broker may have named another."""
        state.given, state.asking = "", []
        return ()


def _judge_zero(request: Observation, conversation: Conversation) -> Judgement:
    """A client without an instance ID asks the broker for one. A client that has one gives it."""
    if conversation.instance_id is not None and conversation.shares_clients:
        return undecided(Reason.AMBIGUOUS_PROCESS, request.count)
    if conversation.instance_id is not None:
        return _violates(request, ZERO_UUID, identifier_text(conversation.instance_id))
    if conversation.unbroken:
        return conforms(request.count)
    return undecided(why_incomplete(conversation), request.count)


def _judge_id(
    request: Observation, given: str, conversation: Conversation, state: TelemetryState
) -> Judgements:
    known = _known_ids(conversation, state)
    if given in known:
        yield conforms(request.count)
    elif known and conversation.shares_clients:
        yield undecided(Reason.AMBIGUOUS_PROCESS, request.count)
    elif known and (conversation.instance_id is not None or conversation.unbroken):
        yield _violates(request, given, known[0])
    elif known:
        yield undecided(why_incomplete(conversation), request.count)
    else:
        yield from _judge_unassigned(request, given, conversation, state)


def _judge_unassigned(
    request: Observation, given: str, conversation: Conversation, state: TelemetryState
) -> Judgements:
    """Compare an ID that another connection was assigned, or none, with the one that was given before."""
    before, client_before = state.given, state.client_id
    state.given, state.client_id = given, request.client_id
    if before == given:
        yield conforms(request.count)
    elif before and client_before != request.client_id:
        yield undecided(Reason.AMBIGUOUS_PROCESS, request.count)
    elif before and state.asking:
        yield undecided(Reason.UNDER_WAY, request.count)
    elif before:
        yield _violates(request, given, before)
    elif not conversation.unbroken:
        yield undecided(why_incomplete(conversation), request.count)


def _violates(request: Observation, given: str, expected: str) -> Judgement:
    context = {"observed": given, "expected": expected}
    return violates(request.count, expected, given, context)


def _known_ids(conversation: Conversation, state: TelemetryState) -> list[str]:
    """Return the ID of the headers or, without one, those that the broker assigned, latest first."""
    if conversation.instance_id is not None:
        return [identifier_text(conversation.instance_id)]
    return state.assigned[::-1]
