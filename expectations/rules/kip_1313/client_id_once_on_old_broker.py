"""kip1313/client-id-once-on-old-broker."""

from __future__ import annotations

import msgspec

from decoders.protocol import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.own_values import Count
from expectations.rules.base.reason import Reason, why_incomplete
from expectations.rules.base.rule import (
    Judgement,
    Judgements,
    Level,
    Role,
    Rule,
    Verdict,
    conforms,
    undecided,
)

ENOUGH = 3
"""Requests with a null client ID after which the connection is judged; one that closes earlier by fewer."""
WITHOUT_QUOTA = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
"""APIs that come before the client's own work. Brokers apply no quota of a client ID to them."""


class NullClientIds(msgspec.Struct, omit_defaults=True):
    """How many later requests had a null client ID, up to ENOUGH, and the first of them."""

    count: Count = 0
    first: Observation | None = None


class ClientIdOnceOnOldBroker(Rule):
    """Checks that a client does not leave its client ID out of later requests on older headers.

    ## Why it matters
    Only header v3 makes the broker remember the client ID of the first request. On an older header each
    request counts under its own: quotas by client ID are lost, and so are metrics and logs by client ID.

    ## Example
    `ApiVersions v4, client ID "orders"`, then `Metadata v13, client ID null`, `Fetch v18, client ID null`, …

    ## What to do
    Send the client ID in every request on an older header. Leave it out on header v3 only.

    ## What it does not cover
    Clients that never give a client ID, or give it again later: before KIP-1313 it may change from request
    to request. ApiVersions and SASL, to which no quota applies. Connections that use header v3: see
    kip1313/client-id-dropped. It takes three requests, or fewer if the connection ends. If bytes were lost or
    the beginning was not seen, the client ID may have been given again: undecided.
    """

    section = "Rejected Alternatives"
    requirement = (
        "With a broker that does not know header v3, a client ID that is sent only once breaks quotas."
    )
    needs = "a connection on older headers with more than one request"
    message = 'the client ID "{client_id}" is sent once and is null in later requests on older headers'
    level = Level.INFORMATION
    role = Role.CLIENT
    State = NullClientIds

    def on_request(
        self, request: Observation, conversation: Conversation, state: NullClientIds
    ) -> Judgements:
        """Count null client IDs until there are enough."""
        if not _is_opportunity(request, conversation):
            return
        if request.client_id is not None:
            yield conforms(request.count)
        elif not conversation.unbroken:
            yield undecided(why_incomplete(conversation), request.count)
        elif not conversation.client_id_repeated and state.count < ENOUGH:
            state.first = state.first or request
            state.count = min(state.count + request.count, ENOUGH)
            if state.count == ENOUGH:
                yield _violates(conversation, state.first)
                state.first = None

    def close(self, conversation: Conversation, state: NullClientIds) -> Judgements:
        """Judge a connection with fewer null client IDs, if it was seen whole."""
        if state.first is None or conversation.client_id_repeated or conversation.uses_header_v3:
            return
        if not conversation.unbroken:
            yield undecided(why_incomplete(conversation))
        elif not conversation.ended:
            yield undecided(Reason.NOT_ENDED)
        else:
            yield _violates(conversation, state.first)


def _is_opportunity(request: Observation, conversation: Conversation) -> bool:
    """Whether this is a later request on a connection that began with a client ID and uses older headers."""
    first = conversation.first_request
    if conversation.uses_header_v3 or first is None or not first.client_id:
        return False
    is_later = request.has_header and not conversation.is_first(request)
    return is_later and request.api_key not in WITHOUT_QUOTA


def _violates(conversation: Conversation, first: Observation) -> Judgement:
    return Judgement(
        Verdict.VIOLATES,
        expected="the client ID in every request on an older header",
        observed="null",
        context={"client_id": conversation.client_id or ""},
        subject=first,
    )
