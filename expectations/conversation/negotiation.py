"""The facts of ApiVersions: what a broker advertised or refused, and which request a response answers.

What a request claims is judged once it is known that the broker understood it, so a request waits for its
response:

    state       until                                                       then
    waiting     its matched response                                        `answered`
    waiting     a loss, the end of the connection, WAITING_LIMIT others     `given_up`

`answered` and `given_up` hold for one observation. `refusal` lasts until the next response or loss, `errors`
until the connection ends.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import (
    API_VERSIONS,
    INVALID_REQUEST,
    NAMES_BROKER_FROM,
    NO_ERROR,
    REBOOTSTRAP_REQUIRED,
)
from expectations.conversation.bodies import NO_NODE, Advertisement, HeaderOffer, SoftwareClaim
from expectations.conversation.observation import Observation
from expectations.conversation.own_values import ApiKey, ErrorCode, SequenceNumber, Version

WAITING_LIMIT = 16
"""ApiVersions requests that wait for a response at the same time; the oldest is given up for another."""


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """An ApiVersions request that makes claims; `advertised`: its version was in the ranges in force."""

    request: Observation
    claim: SoftwareClaim
    advertised: bool

    @property
    def withholds_ids(self) -> bool:
        """Whether the version has room for the IDs of cluster and node, and neither is given (KIP-1242)."""
        return self.request.api_version >= NAMES_BROKER_FROM and not self.claim.gives_ids


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """The versions of ApiVersions that a response with error 35 offers, None if it names none."""

    offered: tuple[Version, Version] | None


class Advertised(msgspec.Struct, frozen=True, array_like=True):
    """Version ranges that a broker advertised: API key → (lowest, highest), and the sequence of the response.

    `header_offer` says which of them reach request header v3, `before_login` that no login had begun.
    """

    sequence: SequenceNumber
    ranges: dict[ApiKey, tuple[Version, Version]]
    header_offer: HeaderOffer
    before_login: bool

    @classmethod
    def by(cls, response: Observation, body: Advertisement, before_login: bool) -> Advertised:
        """Return the ranges of a response; of an API that it lists with several, all they span, inverted."""
        ranges: dict[int, tuple[int, int]] = {}
        for key, *versions in body.ranges:
            known = ranges.setdefault(key, (versions[0], versions[1]))
            if known != tuple(versions):
                ranges[key] = max(*known, *versions), min(*known, *versions)
        return cls(response.first_sequence, ranges, body.header_offer, before_login)

    def offers_header_v3(self, api_key: int) -> bool:
        """Whether the broker offers a version of an API on request header v3."""
        return any(key == api_key for key, _ in self.header_offer.offered)

    def lacks(self, other: Advertised) -> tuple[int, ...]:
        """Return the keys of the APIs of which another list has versions that this one has not."""
        return tuple(
            key
            for key, (lowest, highest) in sorted(other.ranges.items())
            if lowest <= highest and not self._includes(key, lowest, highest)
        )

    def _includes(self, key: int, lowest: int, highest: int) -> bool:
        known = self.ranges.get(key)
        return known is not None and known[0] <= lowest and highest <= known[1]


class Negotiation(msgspec.Struct, omit_defaults=True):
    """The ApiVersions requests of one connection and their responses.

    `waiting` holds requests without a response, by sequence. `answered` is the request that the latest
    observation answers, `given_up` are those whose response will not be known because of it. `refusal` is
    the latest response, if it refused the version. `errors` maps the errors after which a client should leave
    the connection to the sequence of the first response that gave them.
    """

    waiting: dict[SequenceNumber, Asked] = {}
    answered: Asked | None = None
    given_up: list[Asked] = []
    refusal: Refusal | None = None
    errors: dict[ErrorCode, SequenceNumber] = {}

    def process(self, observation: Observation, ranges: Mapping[int, tuple[int, int]]) -> None:
        """Process one observation. `ranges` are the advertised ones, by API key."""
        self.answered, self.given_up = None, []
        if observation.kind in (Kind.GAP, Kind.INVALID_SIZE, Kind.CLOSED):
            self._give_up()
        elif observation.api_key != API_VERSIONS:
            return
        elif observation.kind is Kind.REQUEST:
            self._process_request(observation, ranges)
        elif observation.is_matched:
            self.answered = self.waiting.pop(observation.paired_sequence, None)
            self._process_response(observation)

    def accepts_ids(self, observation: Observation) -> bool:
        """Whether a response accepts, in the version of the request, a request that gives both IDs."""
        asked, body = self.answered, observation.body
        if asked is None or not isinstance(body, Advertisement) or body.error_code != NO_ERROR:
            return False
        gives_both = asked.claim.cluster_id is not None and asked.claim.node_id != NO_NODE
        return gives_both and body.body_version == asked.request.api_version

    def _give_up(self) -> None:
        self.given_up = list(self.waiting.values())
        self.waiting.clear()
        self.refusal = None

    def _process_request(self, request: Observation, ranges: Mapping[int, tuple[int, int]]) -> None:
        if not isinstance(request.body, SoftwareClaim):
            return
        if len(self.waiting) >= WAITING_LIMIT:
            self.given_up = [self.waiting.pop(next(iter(self.waiting)))]
        lowest, highest = ranges.get(API_VERSIONS, (0, -1))
        is_advertised = lowest <= request.api_version <= highest
        self.waiting[request.first_sequence] = Asked(request, request.body, is_advertised)

    def _process_response(self, response: Observation) -> None:
        body = response.body
        self.refusal = None
        if not isinstance(body, Advertisement):
            return
        if body.refuses_version:
            self.refusal = Refusal(own_range(body))
        elif body.error_code in (INVALID_REQUEST, REBOOTSTRAP_REQUIRED):
            self.errors.setdefault(body.error_code, response.first_sequence)


def own_range(advertisement: Advertisement) -> tuple[int, int] | None:
    """Return the range that a response lists for ApiVersions itself."""
    return next(
        ((lowest, highest) for key, lowest, highest in advertisement.ranges if key == API_VERSIONS), None
    )
