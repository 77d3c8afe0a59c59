"""kip1313/client-id-changed."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_first_unknown
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, conforms, undecided, violates
from expectations.rules.kip_1313._instance_ids import sent_on_older_header


class ClientIdChanged(Rule):
    """Checks that requests on an older header repeat the client ID that the connection began with.

    ## Why it matters
    A broker that follows the KIP goes by the client ID of the first request and ignores every other;
    an older one goes by each request's own. So one client is counted under two names,
    depending on which broker it talks to.

    ## Example
    `ApiVersions v6, client ID "orders"`, and later `Fetch v12, header v2, client ID "orders-2"`.

    ## What to do
    Use one client ID a connection. A component that needs another one opens its own connection.

    ## What it does not cover
    Connections that never used header v3: there a client ID may change from request to request.
    Requests without one: see kip1313/client-id-dropped. A connection whose first request was not
    seen or could not be read is undecided.
    """

    section = "Proposed Changes, Client ID"
    requirement = "The client ID of a connection's initial request applies to all its requests."
    needs = "a connection that begins with a client ID and mixes header v3 with older ones"
    message = "{api} v{version} carries the client ID {observed}, the first request carried {expected}"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    needs_header_v3 = True

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each client ID on an older header once header v3 was used."""
        if not sent_on_older_header(request, conversation) or request.client_id is None:
            return
        first = conversation.first_request
        if not conversation.first_is_known or first is None:
            yield undecided(why_first_unknown(conversation), request.count)
        elif first.client_id == request.client_id:
            yield conforms(request.count)
        elif first.client_id is not None:
            expected, observed = f'"{first.client_id}"', f'"{request.client_id}"'
            context = {"expected": expected, "observed": observed}
            yield violates(request.count, expected, observed, context)
