"""The facts of a connection: what was said so far, worked out once for all rules.

Facts carry no judgement. What was not seen is a fact too: a connection joined mid-stream has no
known first request, and a gap takes back what the lost bytes may have changed.
"""

from __future__ import annotations

import msgspec

from decoders.frame.record import Closing, Direction, Kind, Pairing
from expectations.conversation.observation import (
    SASL_HANDSHAKE,
    Advertisement,
    Observation,
    SoftwareClaim,
)

NO_ERROR = 0


class FirstRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request that later ones are held against. `has_header` is False where it could not be read."""

    sequence: int
    has_header: bool
    header_version: int | None
    client_id: str | None
    instance_id: bytes | None


class Advertised(msgspec.Struct, frozen=True, array_like=True):
    """The version ranges in force: API key → (lowest, highest), and the answer that gave them."""

    sequence: int
    ranges: dict[int, tuple[int, int]]


class Conversation(msgspec.Struct, omit_defaults=True):
    """What is known of one connection.

    `first_request` is the very first one seen, `first_identified` the first that is neither
    SaslHandshake nor a raw SASL token: the one whose client instance ID binds the connection
    (KIP-1313, Client Instance ID). Both are the connection's true first only if `beginning_seen`.
    """

    connection: bytes
    cluster: str
    client: str
    server: str
    run: int
    beginning_seen: bool = False
    requests_seen: int = 0
    first_request: FirstRequest | None = None
    first_identified: FirstRequest | None = None
    uses_header_v3: bool = False
    advertised: Advertised | None = None
    software: SoftwareClaim | None = None
    client_id: str | None = None
    instance_id: bytes | None = None
    latest_sequence: int = 0
    latest_captured_at: int = 0
    closing: Closing = Closing.NONE

    def hear(self, observation: Observation) -> None:
        """Take one observation in."""
        # Folded observations overlap, so the later one may end earlier.
        self.latest_sequence = max(self.latest_sequence, observation.last_sequence)
        self.latest_captured_at = max(self.latest_captured_at, observation.last_captured_at)
        match observation.kind:
            case Kind.OPENED:
                self.beginning_seen = not observation.mid_stream
            case Kind.CLOSED:
                self.closing = observation.closing
            case Kind.GAP:
                self._lose(observation.direction)
            case Kind.REQUEST:
                self._hear_request(observation)
            case Kind.RESPONSE:
                self._hear_response(observation)

    def _lose(self, direction: Direction) -> None:
        """Take back what lost bytes may have changed: the first request, or the advertised ranges."""
        if direction is not Direction.TO_CLIENT and self.first_identified is None:
            self.beginning_seen = False
        self.advertised = None

    def _hear_request(self, request: Observation) -> None:
        self.requests_seen += request.count
        first = FirstRequest(
            sequence=request.first_sequence,
            has_header=request.has_header,
            header_version=request.header_version,
            client_id=request.client_id,
            instance_id=request.instance_id,
        )
        if self.first_request is None:
            self.first_request = first
        if self.first_identified is None and request.api_key != SASL_HANDSHAKE:
            self.first_identified = first
        self.uses_header_v3 = self.uses_header_v3 or request.uses_header_v3
        self.client_id = self.client_id if self.client_id is not None else request.client_id
        self.instance_id = self.instance_id or request.instance_id
        if isinstance(request.body, SoftwareClaim):
            self.software = request.body

    def _hear_response(self, response: Observation) -> None:
        body = response.body
        if isinstance(body, Advertisement) and body.error_code == NO_ERROR and is_matched(response):
            ranges = {key: (lowest, highest) for key, lowest, highest in body.ranges}
            self.advertised = Advertised(response.first_sequence, ranges)

    def is_first(self, request: Observation) -> bool:
        """Whether this is the very first request seen."""
        return self.first_request is not None and request.first_sequence == self.first_request.sequence

    def is_first_identified(self, request: Observation) -> bool:
        """Whether this is the first request seen that could carry a client instance ID."""
        first = self.first_identified
        return first is not None and request.first_sequence == first.sequence

    @property
    def closed(self) -> bool:
        """Whether no more will be told of the connection."""
        return self.closing is not Closing.NONE

    @property
    def ended(self) -> bool:
        """Whether the connection itself ended, rather than that it is no longer followed."""
        return self.closing in (Closing.FIN, Closing.RST, Closing.REPLACED)

    @property
    def first_is_known(self) -> bool:
        """Whether the first request's header is certain, and was the connection's first."""
        return self.beginning_seen and self.first_request is not None and self.first_request.has_header


def is_matched(response: Observation) -> bool:
    """Whether an answer is known to belong to its request."""
    return response.pairing is Pairing.MATCHED
