"""Refusals: which requests of a connection the broker refused, and which came again all the same.

A refusal is seen in two ways: error 35, and a close by the broker while one request is in flight. A close has
many reasons, so what it refused is judged by the versions that are known for the server's address.
"""

from __future__ import annotations

from typing import Final

import msgspec

from decoders.protocol import API_VERSIONS
from expectations.conversation.conversation import Conversation
from expectations.conversation.in_flight import ApiVersion, InFlight
from expectations.conversation.observation import Observation
from expectations.identity.claim import NOT_LISTED, Refused

VERSIONS_LIMIT: Final = 8
"""API versions whose refusals are claimed of one connection."""
REFUSALS_LIMIT: Final = 3
"""Refusals of one ApiVersions version that are claimed of one connection. For other APIs only the first
one is claimed, since equal responses fold."""
ENOUGH: Final = 2
"""Refusals in a row after which a request must not be sent again."""


class Refusals(msgspec.Struct, array_like=True):
    """The refusals of one connection.

    `version`, `asked_at`, `is_whole` and `on_header_v3` are those of the latest ApiVersions request. One that
    was read to its last byte `is_whole` on an older header. `in_a_row` counts how often error 35 refused that
    version, each time before it was asked again, and `refused_at` is the time of the latest such refusal. Any
    other request sets the count to 0. `claimed` counts the claims by API version. `is_malformed` says that
    the latest request, of any API, could not be decoded: a close upon it refuses no version.
    """

    version: int = -1
    asked_at: int = 0
    is_whole: bool = False
    in_a_row: int = 0
    refused_at: int = 0
    claimed: dict[ApiVersion, int] = {}
    is_malformed: bool = False
    on_header_v3: bool = False

    def process_request(self, request: Observation, in_flight: InFlight) -> bool:
        """Process a request, and return whether it was sent once more after ENOUGH refusals in a row."""
        self.is_malformed = request.failure is not None
        if (request.api_key, request.api_version) != (API_VERSIONS, self.version):
            self.in_a_row = 0
        if request.api_key != API_VERSIONS:
            return False
        self.version, self.asked_at = request.api_version, request.first_captured_at
        self.is_whole = request.is_clean and not request.uses_header_v3
        self.on_header_v3 = request.is_clean and request.uses_header_v3
        return self.in_a_row == ENOUGH and in_flight.counts.get((API_VERSIONS, self.version)) == 1

    def process_refusal(self, response: Observation, in_flight: InFlight) -> None:
        """Process error 35 to ApiVersions. A request that is already in flight does not come after it."""
        version = response.api_key, response.api_version
        if version == (API_VERSIONS, self.version) and not in_flight.may_include(version):
            self.in_a_row += 1
            self.refused_at = response.first_captured_at

    def forget(self) -> None:
        """Process a loss, or a response that accepts: nothing is refused in a row any more."""
        self.version, self.asked_at = -1, 0
        self.is_whole = self.on_header_v3 = self.is_malformed = False
        self.in_a_row = self.refused_at = 0

    def claim(self, refused: Refused) -> bool:
        """Return whether a refusal is to be claimed, and count it."""
        count = self.claimed.get(refused.request, 0)
        limit = REFUSALS_LIMIT if refused.api_key == API_VERSIONS else 1
        if count >= limit or (not count and len(self.claimed) >= VERSIONS_LIMIT):
            return False
        self.claimed[refused.request] = count + 1
        return True

    def by_closing(self, closed_upon: ApiVersion, conversation: Conversation) -> Refused:
        """Describe the only request in flight when the broker closed the connection."""
        is_negotiation = closed_upon[0] == API_VERSIONS
        return Refused(
            *closed_upon,
            told=told_range(conversation, closed_upon[0]),
            asked_at=self.asked_at if is_negotiation else conversation.opened_at,
            is_whole=is_negotiation and self.is_whole,
            served=conversation.has_served(closed_upon),
            on_header_v3=is_negotiation and self.on_header_v3,
        )

    def repeated(self, conversation: Conversation) -> Refused:
        """Describe the ApiVersions request that was sent once more after ENOUGH refusals."""
        told = told_range(conversation, API_VERSIONS) or offered_range(conversation)
        return Refused(API_VERSIONS, self.version, True, told, self.asked_at, ENOUGH + 1, self.is_whole)


def told_range(conversation: Conversation, api_key: int) -> tuple[int, int] | None:
    """Return the range that a connection was told for an API; None if it was told nothing."""
    advertised = conversation.advertised
    return advertised.ranges.get(api_key, NOT_LISTED) if advertised else None


def offered_range(conversation: Conversation) -> tuple[int, int] | None:
    """Return the range of ApiVersions that the latest refusal lists; None if it lists none."""
    refusal = conversation.negotiation.refusal
    return refusal.offered if refusal else None


def is_told(refused: Refused) -> bool:
    """Whether the broker told the connection that it supports the version, if only by the refusal itself."""
    lowest, highest = refused.told or NOT_LISTED
    return lowest <= refused.api_version <= highest
