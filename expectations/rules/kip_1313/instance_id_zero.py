"""kip1313/instance-id-zero."""

from __future__ import annotations

from collections.abc import Iterator

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.identifier import ZERO
from expectations.conversation.observation import Observation
from expectations.rule import Judgement, Level, NoState, Role, Rule, Verdict, conforms, undecided


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

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge the first request that could carry an ID, if it is on header v3."""
        if observation.kind is not Kind.REQUEST or not conversation.is_first_identified(observation):
            return
        if not observation.uses_header_v3:
            return
        if not conversation.beginning_seen:
            yield undecided()
        elif observation.instance_id is None:
            yield Judgement(
                Verdict.VIOLATES,
                expected="a non-zero client instance ID",
                observed=ZERO,
            )
        else:
            yield conforms()
