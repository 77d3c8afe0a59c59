"""kip1313/client-id-once-on-old-broker."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import REQUESTS, Judgement, Level, Role, Rule, Verdict, conforms, undecided

ENOUGH = 3
"""Requests with a null client ID after which the connection is judged; one that closes earlier by fewer."""
WITHOUT_QUOTA = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
"""APIs that come before the client's own work. Brokers apply no quota of a client ID to them."""


class NullClientIds(msgspec.Struct, omit_defaults=True):
    """How many later requests had a null client ID, up to ENOUGH, and the first of them."""

    count: int = 0
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
    message = 'the client ID "{client_id}" is sent once and is null in later requests on older headers'
    level = Level.INFORMATION
    role = Role.CLIENT
    kinds = REQUESTS
    on_header_v3 = False
    State = NullClientIds

    def judge(
        self, observation: Observation, conversation: Conversation, state: NullClientIds
    ) -> Iterator[Judgement]:
        """Count null client IDs until there are enough."""
        if observation.kind is not Kind.REQUEST or not _is_opportunity(observation, conversation):
            return
        if observation.client_id is not None:
            yield conforms(observation.count)
        elif not conversation.unbroken:
            yield undecided(observation.count)
        elif not conversation.client_id_repeated and state.count < ENOUGH:
            state.first = state.first or observation
            state.count = min(state.count + observation.count, ENOUGH)
            if state.count == ENOUGH:
                yield _violates(conversation, state.first)
                state.first = None

    def close(self, conversation: Conversation, state: NullClientIds) -> Iterator[Judgement]:
        """Fewer are enough on a connection of which everything was seen."""
        if state.first is None or conversation.client_id_repeated or conversation.uses_header_v3:
            return
        is_whole = conversation.ended and conversation.unbroken
        yield _violates(conversation, state.first) if is_whole else undecided()


def _is_opportunity(request: Observation, conversation: Conversation) -> bool:
    """Whether this is a later request on a connection that began with a client ID and uses older headers."""
    first = conversation.first_request
    if first is None or not first.client_id or conversation.is_first(request):
        return False
    is_early = request.api_key in WITHOUT_QUOTA
    return request.has_header and not conversation.uses_header_v3 and not is_early


def _violates(conversation: Conversation, first: Observation) -> Judgement:
    return Judgement(
        Verdict.VIOLATES,
        expected="the client ID in every request on an older header",
        observed="null",
        context={"client_id": conversation.client_id or ""},
        subject=first,
    )
