"""kip1313/client-id-missing-first."""

from __future__ import annotations

import msgspec

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_first_unknown
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


class MissingFirstState(msgspec.Struct, omit_defaults=True):
    """The very first request, kept as evidence if it has no client ID."""

    first: Observation | None = None
    judged: bool = False
    proven: bool = False


class ClientIdMissingFirst(Rule):
    """Checks that a connection on header v3 gives its client ID with the very first request.

    ## Why it matters
    The broker takes the client ID of the first request for all that follow: quotas, metrics and logs
    of the whole connection go by it. What comes later is ignored.

    ## Example
    `ApiVersions v6, header v3, client ID null` and then `Metadata v14, header v3, client ID "orders"`.

    ## What to do
    Send the client ID with the first request, whatever header version it uses, and null afterwards.

    ## What it does not cover
    A client may have no client ID at all. So a null in the first request is an improvement; it
    becomes a violation once a later request shows that there is one. Connections that never use
    header v3 are not judged; those whose first request was not seen are undecided.
    """

    section = "Proposed Changes, Client ID"
    requirement = "The initial request of a connection gives the client ID, whatever its header version."
    needs = "a connection that uses header v3"
    message = "the very first request has a null client ID{later}"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    implies = ("kip1313/client-id-repeated",)
    State = MissingFirstState

    def on_request(
        self, request: Observation, conversation: Conversation, state: MissingFirstState
    ) -> Judgements:
        """Judge the first request once the connection uses header v3, and again if an ID comes later."""
        if conversation.is_first(request) and request.client_id is None:
            state.first = request
        if conversation.uses_header_v3 and not state.judged:
            state.judged = True
            yield self._judge_first(conversation, state)
        if self._is_proof(request, conversation, state):
            state.proven = True
            yield self._violates(state, Level.VIOLATION, later=f', yet a later one has "{request.client_id}"')

    def _judge_first(self, conversation: Conversation, state: MissingFirstState) -> Judgement:
        if not conversation.first_is_known:
            return undecided(why_first_unknown(conversation))
        if state.first is None or state.first.client_id is not None:
            return conforms()
        return self._violates(state, Level.IMPROVEMENT, later="")

    def _is_proof(self, request: Observation, conversation: Conversation, state: MissingFirstState) -> bool:
        """Whether this request shows that there is a client ID, which the first one should have given."""
        first_was_null = (
            conversation.first_is_known and state.first is not None and state.first.client_id is None
        )
        return first_was_null and state.judged and not state.proven and bool(request.client_id)

    def _violates(self, state: MissingFirstState, level: Level, later: str) -> Judgement:
        return violates(
            count=0 if level is Level.VIOLATION else 1,
            expected="the client ID in the first request",
            observed="null",
            context={"later": later},
            level=level,
            subject=state.first,
        )
