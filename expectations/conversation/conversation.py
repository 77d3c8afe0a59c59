"""The facts of a connection: what was said so far, worked out once for all rules.

Facts carry no judgement. What was not seen is a fact too: a connection joined mid-stream has no
known first request, and a gap takes back what the lost bytes may have changed.
"""

from __future__ import annotations

import msgspec

from decoders.frame.record import Closing, Direction, Kind
from decoders.protocol import NO_ERROR, SASL_HANDSHAKE
from decoders.schema.header_versions import Layout
from expectations.conversation.negotiation import Negotiation
from expectations.conversation.observation import (
    Advertisement,
    ClusterDescription,
    Observation,
    SoftwareClaim,
)
from expectations.conversation.telemetry import Telemetry
from expectations.conversation.unanswered import Unanswered


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
    `unbroken` tells that nothing was missed since the opening. `superseded` is the advertisement that
    the latest observation replaced. `closed_by_broker` tells that the broker was the first to close.
    `described` is what the broker said of itself, `configured` what the user's configuration says of
    its listener.
    """

    connection: bytes
    cluster: str
    client: str
    server: str
    run: int
    beginning_seen: bool = False
    first_request: FirstRequest | None = None
    first_identified: FirstRequest | None = None
    uses_header_v3: bool = False
    layout: Layout | None = None
    advertised: Advertised | None = None
    software: SoftwareClaim | None = None
    client_id: str | None = None
    instance_id: bytes | None = None
    instance_id_sequence: int = 0
    latest_sequence: int = 0
    latest_captured_at: int = 0
    closing: Closing = Closing.NONE
    opened_at: int = 0
    unbroken: bool = False
    latest_loss: int = 0
    latest_handshake: int = 0
    superseded: Advertised | None = None
    described: ClusterDescription | None = None
    configured: ClusterDescription | None = None
    negotiation: Negotiation = msgspec.field(default_factory=Negotiation)
    unanswered: Unanswered = msgspec.field(default_factory=Unanswered)
    telemetry: Telemetry = msgspec.field(default_factory=Telemetry)
    closed_by_broker: bool = False

    def hear(self, observation: Observation) -> None:
        """Take one observation in."""
        # Folded observations overlap, so the later one may end earlier.
        self.latest_sequence = max(self.latest_sequence, observation.last_sequence)
        self.latest_captured_at = max(self.latest_captured_at, observation.last_captured_at)
        self.superseded = None
        match observation.kind:
            case Kind.REQUEST:
                self._hear_request(observation)
            case Kind.RESPONSE:
                self._hear_response(observation)
            case Kind.OPENED:
                self.opened_at = observation.first_captured_at
                self.beginning_seen = self.unbroken = not observation.mid_stream
            case Kind.CLOSED:
                self.closing = observation.closing
                self.closed_by_broker = observation.direction is Direction.TO_CLIENT
            case Kind.GAP | Kind.INVALID_SIZE:
                self._lose(observation)
        self.negotiation.hear(observation, self.advertised.ranges if self.advertised else {})
        self.unanswered.hear(observation)
        self.telemetry.hear(observation)

    def _lose(self, loss: Observation) -> None:
        """Take back what lost bytes may have changed: the first request, or the advertised ranges."""
        if loss.direction is not Direction.TO_CLIENT and self.first_identified is None:
            self.beginning_seen = False
        self.unbroken = False
        self.latest_loss = loss.last_sequence
        self.advertised = None

    def _hear_request(self, request: Observation) -> None:
        if self.first_request is None:
            self.first_request = _first(request)
        if self.first_identified is None and request.api_key != SASL_HANDSHAKE:
            self.first_identified = _first(request)
        if request.api_key == SASL_HANDSHAKE:
            self.latest_handshake = request.last_sequence
        self.uses_header_v3 = self.uses_header_v3 or request.uses_header_v3
        self.layout = request.layout or self.layout
        self.client_id = self.client_id if self.client_id is not None else request.client_id
        if self.instance_id is None and request.instance_id is not None:
            self.instance_id, self.instance_id_sequence = request.instance_id, request.first_sequence
        if isinstance(request.body, SoftwareClaim):
            self.software = request.body

    def _hear_response(self, response: Observation) -> None:
        body = response.body
        if isinstance(body, Advertisement) and body.error_code == NO_ERROR and is_matched(response):
            ranges = {key: (lowest, highest) for key, lowest, highest in body.ranges}
            self.superseded = self.advertised
            self.advertised = Advertised(response.first_sequence, ranges)
        if isinstance(body, ClusterDescription) and is_matched(response):
            self.described = body

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
    def was_refused_by_closing(self) -> bool:
        """Whether the broker closed the connection, so that what it had not answered it never will."""
        return self.ended and self.closed_by_broker

    @property
    def first_is_known(self) -> bool:
        """Whether the first request's header is certain, and was the connection's first."""
        return self.beginning_seen and self.first_request is not None and self.first_request.has_header

    def is_certain(self, response: Observation) -> bool:
        """Whether an answer surely belongs to its request.

        Correlation IDs may repeat: after a loss a match may be with another request of that ID.
        """
        return is_matched(response) and response.paired_sequence > self.latest_loss


def _first(request: Observation) -> FirstRequest:
    return FirstRequest(
        sequence=request.first_sequence,
        has_header=request.has_header,
        header_version=request.header_version,
        client_id=request.client_id,
        instance_id=request.instance_id,
    )


def is_matched(response: Observation) -> bool:
    """Whether an answer is known to belong to its request."""
    return response.is_matched
