"""Shared by rules on the member ID of a heartbeat: when it is required, and when it is judged."""

from __future__ import annotations

from abc import abstractmethod

from decoders.protocol import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_APIS, JOINING, LEAVING
from expectations.conversation.bodies import Heartbeat
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import RESERVED_UUIDS
from expectations.rules.base.reason import why_unread
from expectations.rules.base.rule import Judgements, Level, NoState, Rule, Spec, undecided
from expectations.rules.kip_1313._instance_ids import first_gave_id

DEMANDING_VERSIONS = {Spec.SHIPPED: 1, Spec.TEXT: 2}
"""The version of ConsumerGroupHeartbeat from which the client makes the ID (KIP-1082, Public Interfaces)."""


def weight_of_missing(heartbeat: Heartbeat, request: Observation, spec: Spec) -> Level | None:
    """Return the level of a missing member ID in a heartbeat, None if it may be missing.

    Released brokers demand it in the Share and Streams heartbeats too, which the KIP does not mention. For
    older versions of ConsumerGroupHeartbeat KIP-848 demands the ID of a member that has joined.
    """
    if request.api_key != CONSUMER_GROUP_HEARTBEAT:
        return Level.VIOLATION if spec is Spec.SHIPPED else None
    if request.api_version >= DEMANDING_VERSIONS[spec]:
        return Level.VIOLATION
    epoch = heartbeat.member_epoch
    if epoch is not None and (epoch > JOINING or epoch == LEAVING):
        return Level.IMPROVEMENT
    return None


def disagreement(heartbeat: Heartbeat, request: Observation) -> str:
    """Return what a finding adds if the two readings differ on a missing member ID, "" if they agree."""
    shipped, text = (weight_of_missing(heartbeat, request, spec) for spec in (Spec.SHIPPED, Spec.TEXT))
    if shipped is text or heartbeat.member_id is None:
        return ""
    return " (by released Kafka; the KIP demands it from version 2 of ConsumerGroupHeartbeat)"


class MemberIdRule(Rule):
    """A rule on the member ID of each heartbeat that has one. Unreadable heartbeats are undecided."""

    apis = frozenset(HEARTBEAT_APIS)

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each member ID that is given."""
        if request.api_key not in HEARTBEAT_APIS:
            return ()
        heartbeat = request.body
        if not isinstance(heartbeat, Heartbeat):
            return iter((undecided(why_unread(request), request.count),))
        if heartbeat.member_id is None or not heartbeat.has_member_id:
            return ()
        return self.judge_member_id(heartbeat.member_id, request, conversation)

    @abstractmethod
    def judge_member_id(self, member_id: str, request: Observation, conversation: Conversation) -> Judgements:
        """Judge the member ID of a heartbeat."""


def is_faultless(heartbeat: Heartbeat, request: Observation, conversation: Conversation) -> bool:
    """Whether a broker can refuse a heartbeat for nothing but its member ID."""
    return heartbeat.is_well_formed and not _may_break_kip_1313(request, conversation)


def _may_break_kip_1313(request: Observation, conversation: Conversation) -> bool:
    """Whether a broker may refuse a heartbeat for the IDs in its header instead of what its body says.

    A first request that was not seen may have bound the connection to another instance ID.
    """
    is_bound = first_gave_id(conversation)
    if is_bound is None or not request.uses_header_v3:
        return is_bound is not False
    is_own = request.instance_id == conversation.instance_id
    is_repeated = request.client_id is not None and not conversation.is_first(request)
    return not is_own or request.instance_id in (None, *RESERVED_UUIDS) or is_repeated
