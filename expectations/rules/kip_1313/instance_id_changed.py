"""kip1313/instance-id-changed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.identifier import identifier_text
from expectations.conversation.observation import Observation
from expectations.rule import Judgement, Level, Role, Rule, Verdict, conforms, undecided


class AnchorState(msgspec.Struct, omit_defaults=True):
    """The first non-zero ID of the connection, and where it stood."""

    instance_id: bytes | None = None
    anchor: str = ""


class InstanceIdChanged(Rule):
    """Checks that all requests of a connection carry one client instance ID.

    ## Why it matters
    A client instance keeps its ID for its whole life. A connection with two IDs belongs to two
    instances, or to a client that makes a new ID when it should not; a broker that follows the KIP
    answers with INVALID_REQUEST.

    ## Example
    `Metadata v14, ID 7b6e…` and then, on the same connection, `FindCoordinator v7, ID 91c0…`.

    ## What to do
    Generate the ID once, in the client's constructor, and hand the same value to every connection.

    ## What it does not cover
    The zero ID is no other ID: see kip1313/instance-id-zero and kip1313/instance-id-missing. Since
    a connection never legally changes its ID, this is decided mid-stream and after gaps, too. A
    request that could not be read is undecided: its ID may be another.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "All requests of a connection give the same client instance ID."
    message = "the client instance ID changed from {expected} to {observed}"
    level = Level.VIOLATION
    role = Role.CLIENT
    State = AnchorState

    def judge(
        self, observation: Observation, conversation: Conversation, state: AnchorState
    ) -> Iterator[Judgement]:
        """Hold each ID against the first one seen."""
        instance_id = observation.instance_id
        if observation.kind is not Kind.REQUEST:
            return
        if instance_id is None:
            if state.instance_id is not None and not observation.has_header:
                yield undecided(observation.count)
        elif state.instance_id is None:
            state.instance_id = instance_id
            state.anchor = _anchor(observation, conversation)
        elif state.instance_id == instance_id:
            yield conforms(observation.count)
        else:
            expected, observed = identifier_text(state.instance_id), identifier_text(instance_id)
            yield Judgement(
                Verdict.VIOLATES,
                observation.count,
                expected=expected,
                observed=observed,
                context={"anchor": state.anchor, "expected": expected, "observed": observed},
            )


def _anchor(observation: Observation, conversation: Conversation) -> str:
    if not conversation.beginning_seen:
        return "mid-stream"
    return "first-request" if conversation.is_first_identified(observation) else "later"
