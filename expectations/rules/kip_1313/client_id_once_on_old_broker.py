"""kip1313/client-id-once-on-old-broker."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from expectations.conversation.conversation import NULL_CLIENT_IDS, Conversation
from expectations.conversation.observation import Observation
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.reason import Reason, why_incomplete
from expectations.rules.base.rule import (
    IdentityRule,
    Judgement,
    Judgements,
    Level,
    Role,
    conforms,
    undecided,
    violates,
)


class NullClientIds(msgspec.Struct, omit_defaults=True):
    """The first later request with a null client ID, until it is judged."""

    first: Observation | None = None
    judged: bool = False


class ClientIdOnceOnOldBroker(IdentityRule):
    """Checks that a client does not leave its client ID out of later requests on older headers.

    ## Why it matters
    Only header v3 makes the broker remember the client ID of the first request. On an older header each
    request counts under its own: quotas by client ID are lost, and so are metrics and logs by client ID.

    ## Example
    `ApiVersions v4, client ID "orders"`, then `Metadata v13, client ID null`, `Fetch v18, client ID null`, …

    ## What to do
    Send the client ID in every request on an older header. Leave it out on header v3 only.

    ## What it does not cover
    It is information, because before KIP-1313 a client ID may change from request to request. It is a
    violation where another connection of the same address, client ID, software and version uses header v3
    with an instance ID: the client knows KIP-1313, and takes the old broker for a new one. Clients that never
    give a client ID, or give it again later, are not judged. Neither are ApiVersions and SASL, to which no
    quota applies. Connections that use header v3: see kip1313/client-id-dropped. It takes three requests, or
    fewer if the connection ends. If bytes were lost or the beginning was not seen, the client ID may have
    been given again: undecided.
    """

    section = "Rejected Alternatives"
    requirement = (
        "With a broker that does not know header v3, a client ID that is sent only once breaks quotas."
    )
    needs = "a connection on older headers with more than one request"
    message = 'the client ID "{client_id}" is sent once and is null in later requests on older headers'
    level = Level.INFORMATION
    role = Role.CLIENT
    kind = IdentityKind.CLIENT
    waits = True
    State = NullClientIds

    def on_request(
        self, request: Observation, conversation: Conversation, state: NullClientIds
    ) -> Judgements:
        """Count null client IDs until there are enough."""
        if not conversation.owes_client_id(request):
            return
        if request.client_id is not None:
            yield conforms(request.count)
        elif not conversation.unbroken:
            yield undecided(why_incomplete(conversation), request.count)
        elif not conversation.client_id_repeated and not state.judged:
            state.first = state.first or request
            if conversation.null_client_ids == NULL_CLIENT_IDS:
                yield _violates(conversation.client_id, state.first)
                state.first, state.judged = None, True

    def close(self, conversation: Conversation, state: NullClientIds) -> Judgements:
        """Judge a connection with fewer null client IDs, if it was seen whole."""
        if state.first is None or conversation.client_id_repeated or conversation.uses_header_v3:
            return
        if not conversation.unbroken:
            yield undecided(why_incomplete(conversation))
        elif not conversation.ended:
            yield undecided(Reason.NOT_ENDED)
        else:
            yield _violates(conversation.client_id, state.first)

    def concerns(self, claim: Claim) -> bool:
        """Whether the client gave its client ID once, and names its software."""
        return claim.gives_client_id_once and claim.software is not None

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a client by whether its software uses header v3 on another connection."""
        for other in others:
            if other.instance_id is not None and other.named_software == claim.named_software:
                observed = f"null, as on header v3, which its connection to {other.server} uses"
                return _violates(claim.client_id, level=Level.VIOLATION, observed=observed)
        return None


def _violates(
    client_id: str | None,
    first: Observation | None = None,
    level: Level = Level.INFORMATION,
    observed: str = "null",
) -> Judgement:
    return violates(
        expected="the client ID in every request on an older header",
        observed=observed,
        context={"client_id": client_id or ""},
        level=level,
        subject=first,
    )
