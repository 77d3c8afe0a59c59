"""kip1313/client-id-changed."""

from __future__ import annotations

from collections.abc import Iterator

from expectations.conversation.conversation import Conversation
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
    message = "{api} v{version} carries the client ID {observed}, the first request carried {expected}"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    kinds = REQUESTS
    needs_header_v3 = True
    on_header_v3 = False

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each client ID on an older header once header v3 was used."""
        if not sent_on_older_header(observation, conversation) or observation.client_id is None:
            return
        first = conversation.first_request
        if not conversation.first_is_known or first is None:
            yield undecided(observation.count)
        elif first.client_id == observation.client_id:
            yield conforms(observation.count)
        elif first.client_id is not None:
            expected, observed = f'"{first.client_id}"', f'"{observation.client_id}"'
            context = {"expected": expected, "observed": observed}
            yield Judgement(Verdict.VIOLATES, observation.count, expected, observed, context)
