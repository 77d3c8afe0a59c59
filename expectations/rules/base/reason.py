"""Why a check is undecided: the closed list of reasons, and which of them a connection or frame gives."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Self

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.identity.claim import Claim
from expectations.identity.known_ranges import known_ranges


class Reason(enum.StrEnum):
    """Why a check is undecided. `meaning` completes "undecided, because"."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        """Make a reason from its name and its meaning."""
        reason = str.__new__(cls, name)
        reason._value_, reason.meaning = name, meaning
        return reason

    NOT_ASKED = (
        "not-asked",
        "no versions that the connection was told are known, as when its client does not ask",
    )
    NO_RESPONSE = "no-response", "the response that decides did not come, or none was expected"
    UNDER_WAY = "under-way", "the request may have been under way before its sender knew better"
    JOINED_MIDWAY = "joined-midway", "the beginning of the connection was not captured"
    LOST_BYTES = "lost-bytes", "bytes of the connection were lost, and what decides may be among them"
    CUT = "cut", "the frame was cut: by the capture, or where its records or secrets begin"
    UNREADABLE = "unreadable", "a frame or ID that decides does not follow its schema, or fits several"
    UNKNOWN_SCHEMA = "unknown-schema", "the loaded schemas do not have the API version, or not for certain"
    UNPAIRED = "unpaired", "it is not certain which request the response belongs to"
    NOT_SHOWN = "not-shown", "no traffic that was captured shows what it is compared with"
    OTHER_CAUSE = "other-cause", "the broker may have refused, or closed, for another cause"
    AMBIGUOUS_PROCESS = "ambiguous-process", "what looks like one client may be two"
    AMBIGUOUS_BROKER = "ambiguous-broker", "several brokers or listeners may be behind the server's address"
    SEEN_TWICE = "seen-twice", "two connections may be one, captured on both sides of a translation or proxy"
    NOT_ENDED = "not-ended", "the capture ended, or the connection was given up, before it was decided"
    FORGOTTEN = "forgotten", "so much came since that what decides is no longer remembered"


def why_incomplete(conversation: Conversation) -> Reason:
    """Return why part of a connection is not known."""
    return Reason.JOINED_MIDWAY if conversation.joined else Reason.LOST_BYTES


def why_untold(conversation: Conversation) -> Reason:
    """Return why no advertised ranges are known on a connection."""
    return Reason.NOT_ASKED if conversation.unbroken else why_incomplete(conversation)


def why_unanswered(conversation: Conversation) -> Reason:
    """Return why the response to a request that waited for it will not be known."""
    if conversation.closed:
        return Reason.NO_RESPONSE if conversation.ended else Reason.NOT_ENDED
    is_lost = conversation.requests_missed or conversation.responses_missed
    return Reason.LOST_BYTES if is_lost else Reason.FORGOTTEN


def why_first_unknown(conversation: Conversation) -> Reason:
    """Return why the first request of a connection, or its header, is not known."""
    return Reason.UNREADABLE if conversation.beginning_seen else why_incomplete(conversation)


def why_unread(frame: Observation) -> Reason:
    """Return why a frame, or the part of it that decides, was not read."""
    if frame.cut:
        return Reason.CUT
    if not frame.known or frame.unproven:
        return Reason.UNKNOWN_SCHEMA
    return Reason.UNPAIRED if frame.kind is Kind.RESPONSE and not frame.is_matched else Reason.UNREADABLE


def why_inconclusive(response: Observation) -> Reason:
    """Return why a response without success does not tell what the broker thinks of a part of the request."""
    if response.errors is None:
        return why_unread(response)
    return Reason.OTHER_CAUSE if response.errors else Reason.NOT_SHOWN


def why_maybe_supported(claim: Claim, others: Sequence[Claim]) -> Reason:
    """Return why it is not known whether a broker refused a request for its version."""
    return Reason.OTHER_CAUSE if known_ranges(claim, others).ranges else Reason.NOT_SHOWN


def why_partly_seen(*claims: Claim) -> Reason:
    """Return why not all of some connections is known."""
    return Reason.JOINED_MIDWAY if any(claim.joined for claim in claims) else Reason.LOST_BYTES
