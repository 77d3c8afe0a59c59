"""kip1313/telemetry-id-not-echoed."""

from __future__ import annotations

from decoders.protocol import GET_TELEMETRY_SUBSCRIPTIONS
from expectations.conversation.bodies import TelemetryIdentity
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import ZERO_UUID
from expectations.rules.base.reason import why_unread
from expectations.rules.base.response_rule import ResponseRule
from expectations.rules.base.rule import (
    Judgement,
    Judgements,
    Level,
    Role,
    Spec,
    conforms,
    undecided,
    violates,
)
from expectations.rules.kip_1313._instance_ids import asked_identity

_ECHO = "brokers have always echoed it; the KIP's table demands zero"
_READINGS = {
    Spec.SHIPPED: _ECHO,
    Spec.TEXT: "the KIP's table demands zero; brokers have always echoed it",
    Spec.TAGGED: _ECHO,
}


class TelemetryIdNotEchoed(ResponseRule):
    """Checks that a broker returns a telemetry client's own instance ID, or zero by the KIP's text.

    ## Why it matters
    The Java client takes the ID of the response for its own and refuses a zero one. Another ID makes it
    push its metrics under a name that nobody knows.

    ## Example
    `GetTelemetrySubscriptions v0, ClientInstanceId 7b6e…`, and a response without error that has
    `ClientInstanceId zero`.

    ## What to do
    Respond with the ID of the request.

    ## What it does not cover
    The KIP's table says that such a response carries zero; no released broker ever did that, and no
    released client could take it. So the text is judged only when it is asked for. Responses
    with an error are not judged; a request without a readable response is undecided.
    """

    section = "Proposed Changes, Alignment of identifiers"
    requirement = (
        "GetTelemetrySubscriptions v0 with a client instance ID gets that ID in the response, as brokers "
        "have always done; the KIP's table says zero."
    )
    needs = "GetTelemetrySubscriptions v0 with an instance ID"
    message = "{api} v{version} gave the client instance ID {given} and was answered {observed} ({reading})"
    level = Level.VIOLATION
    role = Role.BROKER
    apis = frozenset({GET_TELEMETRY_SUBSCRIPTIONS})

    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the request gives an ID."""
        return asked_identity(request) not in (None, ZERO_UUID)

    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Compare the two IDs, by the reading that applies."""
        if not isinstance(response.body, TelemetryIdentity):
            yield undecided(why_unread(response))
        elif response.errors == (0,):
            yield self._judge_ids(asked_identity(request) or ZERO_UUID, response.body.instance_id)

    def _judge_ids(self, given: str, observed: str) -> Judgement:
        expected = ZERO_UUID if self.spec is Spec.TEXT else given
        if observed == expected:
            return conforms()
        context = {"given": given, "observed": observed, "reading": _READINGS[self.spec]}
        return violates(expected=expected, observed=observed, context=context)
