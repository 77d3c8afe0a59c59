"""kip1313/sasl-handshake-refused."""

from __future__ import annotations

from decoders.protocol import INVALID_REQUEST, SASL_HANDSHAKE
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_unread
from expectations.rules.base.response_rule import ResponseRule
from expectations.rules.base.rule import Judgements, Level, Role, conforms, undecided, violates


class SaslHandshakeRefused(ResponseRule):
    """Checks that a broker takes SaslHandshake without a client instance ID.

    ## Why it matters
    SaslHandshake keeps its old header, which has no place for an ID. A broker that demands one lets no
    client authenticate, or cuts it off when it authenticates anew.

    ## Example
    `ApiVersions v6, ID 7b6e…`, then `SaslHandshake v1`, and a response with INVALID_REQUEST.

    ## What to do
    Leave SaslHandshake out when later requests are compared with the first request's ID.

    ## What it does not cover
    Other errors, which are about the mechanism or the state of the authentication. Connections that
    gave no ID before the handshake. A handshake without a readable response is undecided.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "SaslHandshake is left out of the check, because it cannot carry a client instance ID."
    needs = "a SaslHandshake after a request that gave an instance ID"
    message = "{api} v{version} was refused with INVALID_REQUEST on a connection that gave an instance ID"
    level = Level.VIOLATION
    role = Role.BROKER
    apis = frozenset({SASL_HANDSHAKE})

    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the broker might check this handshake for an ID by mistake."""
        return request.api_key == SASL_HANDSHAKE and conversation.instance_id is not None

    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Look for the error that a missing ID would bring."""
        if response.errors is None:
            yield undecided(why_unread(response), response.count)
        elif INVALID_REQUEST not in response.errors:
            yield conforms(response.count)
        else:
            observed = "error 42, INVALID_REQUEST"
            yield violates(response.count, expected="any other response", observed=observed)
