"""kip1313/client-id-dropped."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_first_unknown
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, conforms, undecided, violates
from expectations.rules.kip_1313._instance_ids import sent_on_older_header


class ClientIdDropped(Rule):
    """Checks that requests on an older header keep the client ID on a connection that uses header v3.

    ## Why it matters
    Only a broker that knows header v3 remembers the client ID of the first request. An older header
    says that the request may be for any broker, and there a null is taken as it stands: quotas
    and logs lose the client.

    ## Example
    `ApiVersions v6, client ID "orders"`, and later `Fetch v12, header v2, client ID null`.

    ## What to do
    Send null only in requests on header v3. In every other request send the client ID.

    ## What it does not cover
    Connections that never used header v3, where a client ID may come and go. A client whose first
    request had no client ID: see kip1313/client-id-missing-first. A connection whose first request was
    not seen or could not be read is undecided.
    """

    section = "Proposed Changes, Client ID"
    requirement = "A request on an older header than v3 gives the client ID, also after the initial request."
    needs = "a connection that uses header v3, and a later request on an older header"
    message = "{api} v{version} on header v{header} has no client ID, which the first request gave"
    level = Level.VIOLATION
    role = Role.CLIENT
    needs_header_v3 = True

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each request on an older header once header v3 was used."""
        if not sent_on_older_header(request, conversation):
            return
        first = conversation.first_request
        if request.client_id is not None:
            yield conforms(request.count)
        elif not conversation.first_is_known or first is None:
            yield undecided(why_first_unknown(conversation), request.count)
        elif first.client_id is not None:
            yield violates(
                request.count,
                expected=f'"{first.client_id}"',
                observed="null",
                context={"header": str(request.header_version)},
            )
