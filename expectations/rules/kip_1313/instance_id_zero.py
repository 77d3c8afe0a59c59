"""kip1313/instance-id-zero."""

from __future__ import annotations

from collections.abc import Iterator

from expectations.conversation.conversation import Conversation
from expectations.conversation.identifier import ZERO
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import REQUESTS, Judgement, Level, NoState, Role, Rule, Verdict
from expectations.rules.kip_1313._instance_ids import zero_at_first


class InstanceIdZero(Rule):
    """Checks that a first request on header v3 carries a client instance ID.

    ## Why it matters
    The ID of the first request is the one the broker holds every later request against. A
    connection that begins with the zero ID can never be traced to a client instance.

    ## Example
    `ApiVersions v6, header v3, client instance ID AAAAAAAAAAAAAAAAAAAAAA`, which is zero

    ## What to do
    Generate the ID when the client is constructed, before it connects, and send it from the first
    request on.

    ## What it does not cover
    SaslHandshake and raw SASL tokens cannot carry an ID: the first request after them is judged.
    A connection joined mid-stream, or whose first request could not be read, is undecided.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "A connection whose first request uses header v3 gives a non-zero client instance ID in it."
    message = "the first request uses header v3 with a client instance ID of zero"
    level = Level.VIOLATION
    role = Role.CLIENT
    kinds = REQUESTS
    needs_header_v3 = True

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge the first request that could carry an ID, if it is on header v3."""
        verdict = zero_at_first(observation, conversation)
        if verdict is Verdict.VIOLATES:
            yield Judgement(verdict, expected="a non-zero client instance ID", observed=ZERO)
        elif verdict is not None:
            yield Judgement(verdict)
