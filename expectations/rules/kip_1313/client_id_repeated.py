"""kip1313/client-id-repeated."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_incomplete
from expectations.rules.base.rule import (
    Judgements,
    Level,
    NoState,
    Role,
    Rule,
    Spec,
    conforms,
    undecided,
    violates,
)

_CONTESTED = "contested: the KIP's rejected alternatives withdraw this change"
_READINGS = {
    Spec.SHIPPED: _CONTESTED,
    Spec.TEXT: _CONTESTED,
    Spec.TAGGED: "the later revision refuses it",
}


class ClientIdRepeated(Rule):
    """Checks that requests on header v3 do not repeat the client ID.

    ## Why it matters
    The broker keeps the client ID of the first request and ignores the rest, so a repeated one is
    bytes sent for nothing, on every request. The later upstream revision refuses it.

    ## Example
    `ApiVersions v6, client ID "orders"` and then `Metadata v14, header v3, client ID "orders"`.

    ## What to do
    Send null as client ID in every request on header v3 after the first request of the connection.

    ## What it does not cover
    Requests on an older header, which do carry the client ID. Contested: the KIP's rejected
    alternatives say that this change was taken out, while its proposed changes demand it; the
    finding says so, unless it is judged by the later revision. Mid-stream it is judged from the
    second request seen.
    """

    section = "Proposed Changes, Client ID"
    requirement = "A request on header v3 that is not the connection's first has a null client ID."
    needs = "a request on header v3 that is not the first of its connection"
    message = 'a later request on header v3 carries the client ID "{client_id}" ({reading})'
    level = Level.VIOLATION
    role = Role.CLIENT
    needs_header_v3 = True

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each request on header v3 but the first."""
        if not request.uses_header_v3:
            return
        if conversation.is_first(request):
            if not conversation.beginning_seen:
                yield undecided(why_incomplete(conversation))
        elif request.client_id is None:
            yield conforms(request.count)
        else:
            yield violates(
                request.count,
                expected="a null client ID",
                observed=f'"{request.client_id}"',
                context={"client_id": request.client_id, "reading": _READINGS[self.spec]},
            )
