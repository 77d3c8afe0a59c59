"""kip1313/telemetry-id-not-assigned."""

from __future__ import annotations

from decoders.protocol import GET_TELEMETRY_SUBSCRIPTIONS
from expectations.conversation.bodies import TelemetryIdentity
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import ZERO_UUID
from expectations.rules.base.reason import why_unread
from expectations.rules.base.response_rule import ResponseRule
from expectations.rules.base.rule import Judgements, Level, Role, conforms, undecided, violates
from expectations.rules.kip_1313._instance_ids import asked_identity


class TelemetryIdNotAssigned(ResponseRule):
    """Checks that a broker assigns a client instance ID to a telemetry client that has none.

    ## Why it matters
    A client that does not generate its ID cannot push metrics without one: brokers refuse the zero
    ID in PushTelemetry.

    ## Example
    `GetTelemetrySubscriptions v0, ClientInstanceId zero`, and a response without error that has
    `ClientInstanceId zero`.

    ## What to do
    Respond to a zero ID in version 0 with a newly generated one.

    ## What it does not cover
    Version 1, where the client gives its ID in the header. Responses with an error assign nothing and
    are not judged. A request without a readable response is undecided.
    """

    section = "Proposed Changes, Alignment of identifiers"
    requirement = "GetTelemetrySubscriptions v0 with a zero instance ID gets a generated one in the response."
    needs = "GetTelemetrySubscriptions v0 without an instance ID"
    message = "{api} v{version} asked for a client instance ID and got zero"
    level = Level.VIOLATION
    role = Role.BROKER
    apis = frozenset({GET_TELEMETRY_SUBSCRIPTIONS})

    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the request asks for an ID."""
        return asked_identity(request) == ZERO_UUID

    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Look at the ID that came with success."""
        if not isinstance(response.body, TelemetryIdentity):
            yield undecided(why_unread(response))
        elif response.errors != (0,):
            return
        elif response.body.instance_id != ZERO_UUID:
            yield conforms()
        else:
            yield violates(expected="a generated client instance ID", observed=ZERO_UUID)
