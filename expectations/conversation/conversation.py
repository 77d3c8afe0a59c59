"""The facts of a connection: what was said so far, worked out once for all rules.

`Conversation.process` takes the observations of a connection in stream order, and the judge asks the rules
after each. Facts carry no verdict. A loss of bytes takes back what the lost bytes may have changed:

    observation        what it sets (+) and takes back (-)
    OPENED             + opened_at; beginning_seen and unbroken, or joined, requests_missed, responses_missed
    SaslHandshake      - claimed_principal
    REQUEST            + first_request, first_identified, client_id, instance_id: the first of each
                       + software, layout, latest_handshake: the latest of each; shares_clients. A handshake
                       on a connection that is `admitted` begins no login, but renews one (KIP-368)
    RESPONSE           + first_answer: that of the first, if nothing was lost before
                       + advertised (ApiVersions without error, unless its list is empty)
                       + described (Metadata, DescribeCluster)
      refused login    - claimed_principal, principal
      served otherwise + principal
      certain match    - requests_missed, responses_missed, negotiations_in_doubt
      no match, unread - advertised, if it is of ApiVersions: the client may have read another list
    GAP, INVALID_SIZE  + requests_missed or responses_missed, by direction; negotiations_in_doubt
                       + first_answer, if there was none
                       - unbroken, the requests in flight; beginning_seen, if no request was identified yet;
                         advertised, if an ApiVersions response may be among the lost bytes
    PRINCIPAL          + claimed_principal
    PLACEMENT          + placement
    CLOSED             + closing, closed_by_broker, closed_upon

`Negotiation`, `Members` and `Progress` process each observation, too.
"""

from __future__ import annotations

import enum

import msgspec

from decoders.frame.record import Closing, Direction, Kind
from decoders.protocol import (
    API_VERSIONS,
    NO_ERROR,
    OPENING_APIS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    UNSUPPORTED_VERSION,
)
from decoders.schema.header_versions import Layout
from decoders.wire.frame_detector import is_tls_alert
from expectations.conversation.bodies import (
    Advertisement,
    ClusterDescription,
    Placement,
    Principal,
    SoftwareClaim,
)
from expectations.conversation.members import Members, member_name
from expectations.conversation.negotiation import Advertised, Negotiation
from expectations.conversation.observation import Observation, lacks_api
from expectations.conversation.own_values import (
    ClientId,
    CorrelationId,
    Count,
    Few,
    InstanceId,
    PlacementName,
    PrincipalName,
    SequenceNumber,
    Time,
    Version,
)
from expectations.conversation.progress import ApiVersion, Progress, Shown

SERVED_LIMIT = 32
"""API versions that are remembered because the broker responded to them before it advertised any."""
NULL_CLIENT_IDS = 3
"""Requests without the client ID of the first one after which the client surely leaves it out."""

CLOSES_WITHIN = 10_000_000_000
"""Nanoseconds, at most, until a broker closes upon a version that it cannot read. It does so at once; a load
balancer takes half a minute of silence or more."""


class FirstAnswer(enum.IntEnum):
    """What the server sent first on a connection: nothing yet, a TLS alert, or anything else.

    UNSEEN means that its first bytes may have been missed.
    """

    NONE = 0
    UNSEEN = 1
    TLS_ALERT = 2
    OTHER = 3


class FirstRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request that later ones are compared with. `has_header` is False where its header was not read."""

    sequence: SequenceNumber
    has_header: bool
    header_version: Version | None
    client_id: ClientId | None
    instance_id: InstanceId | None

    @classmethod
    def of(cls, request: Observation) -> FirstRequest:
        """Note what later requests are compared with."""
        header = request.has_header, request.header_version, request.client_id, request.instance_id
        return cls(request.first_sequence, *header)


class Conversation(msgspec.Struct, array_like=True):
    """The facts of one connection.

    **How it began.** A connection is `joined` if it began before `opened_at`: it was joined midway, or its
    opening is not known, as where a topic lost records. `unbroken` means that nothing was missed since the
    opening, neither bytes nor the API of a request. `first_request` is the first request seen, with the
    correlation ID `first_correlation_id`. `first_identified` is the first that is neither SaslHandshake nor a
    raw SASL token: its client instance ID binds the connection (KIP-1313, Client Instance ID). Both are the
    connection's true first requests only if `beginning_seen`. `first_answer` is what the server sent first.

    **Who the client is.** `client_id` and `instance_id` are the first ones seen. `client_id_repeated` means
    that a request after the first has a client ID, or may: its header was cut. `null_client_ids` counts up to
    NULL_CLIENT_IDS the requests that owe a client ID and have none; it stops where one is given again, header
    v3 is used, or something was missed. `shares_clients` means that requests gave several client IDs, as
    where a proxy shares one connection among clients: the sender of one may not know what another was told.
    `claimed_principal` is the name under which the client logs in, as anybody may; `principal` is one that
    the broker believed: it responded to a request other than OPENING_APIS since. `placement` is where the
    client runs, by Kubernetes' API.

    **What the broker said.** `advertised` are the version ranges in force, `superseded` those that the latest
    observation replaced or took back. `told_before_login` means that it advertised ranges before a login had
    begun, or may have, `admitted` that it serves the connection: it accepted a login, or responded to a
    request other than OPENING_APIS. `served_unadvertised` are API versions that it responded to, other than
    with error 35, before it advertised any. `described` is what the broker said of itself, `configured` what
    the user's configuration says of its listener.

    **What was missed.** `requests_missed` and `responses_missed` mean that bytes of that direction were lost,
    or that the connection was joined midway, and that no request since then has its response.
    `negotiations_in_doubt` counts the ApiVersions requests from before a loss that may still be in flight.

    **How it ended.** `closed_by_broker` means that the broker closed first. `closed_upon` is then the API
    version of the only request in flight, None if there were more, some may have been missed, or the
    connection had been silent for CLOSES_WITHIN.

    Rules read the facts, and of the `progress` only what `is_certain` and `silence_of` say.
    """

    connection: bytes
    cluster: str
    client: str
    server: str
    run: int
    progress: Progress = msgspec.field(default_factory=Progress)
    software: SoftwareClaim | None = None
    advertised: Advertised | None = None
    beginning_seen: bool = False
    first_request: FirstRequest | None = None
    first_identified: FirstRequest | None = None
    uses_header_v3: bool = False
    layout: Layout | None = None
    client_id: ClientId | None = None
    instance_id: InstanceId | None = None
    instance_id_sequence: SequenceNumber = 0
    closing: Closing = Closing.NONE
    opened_at: Time = 0
    unbroken: bool = False
    latest_handshake: SequenceNumber = 0
    superseded: Advertised | None = None
    described: ClusterDescription | None = None
    configured: ClusterDescription | None = None
    negotiation: Negotiation = msgspec.field(default_factory=Negotiation)
    members: Members = msgspec.field(default_factory=Members)
    closed_by_broker: bool = False
    closed_upon: ApiVersion | None = None
    requests_missed: bool = True
    responses_missed: bool = True
    client_id_repeated: bool = False
    joined: bool = True
    negotiations_in_doubt: Count = 0
    served_unadvertised: list[ApiVersion] = []
    admitted: bool = False
    first_answer: FirstAnswer = FirstAnswer.UNSEEN
    told_before_login: bool = False
    first_correlation_id: CorrelationId | None = None
    null_client_ids: Few = 0
    shares_clients: bool = False
    claimed_principal: PrincipalName | None = None
    principal: PrincipalName | None = None
    placement: PlacementName | None = None

    def process(self, observation: Observation) -> None:
        """Update the facts and the progress by one observation."""
        self.superseded = None
        self.opened_at = self.opened_at or observation.first_captured_at
        match observation.kind:
            case Kind.REQUEST:
                self._process_request(observation)
            case Kind.RESPONSE:
                self._process_response(observation)
            case Kind.OPENED:
                self.opened_at = observation.first_captured_at
                self.beginning_seen = self.unbroken = not observation.mid_stream
                self.joined = observation.mid_stream
                self.requests_missed = self.responses_missed = observation.mid_stream
                self.first_answer = FirstAnswer.UNSEEN if observation.mid_stream else FirstAnswer.NONE
            case Kind.CLOSED:
                self.closing = observation.closing
                self.closed_by_broker = observation.direction is Direction.TO_CLIENT
                if self.was_refused_by_closing and not self.requests_missed and not self.responses_missed:
                    self.closed_upon = self._closed_at_once_upon(observation)
            case Kind.GAP | Kind.INVALID_SIZE:
                self._process_loss(observation)
            case Kind.PRINCIPAL | Kind.PLACEMENT:
                self._process_name(observation)
        self.negotiation.process(observation, self.advertised.ranges if self.advertised else {})
        member = self.members.process(observation, self.progress)
        self.progress.advance(observation.statement, observation.occurrence, member)

    def _closed_at_once_upon(self, closing: Observation) -> ApiVersion | None:
        """Return the only request in flight, unless the connection was silent for long: then it timed out."""
        upon = self.progress.in_flight.only_one
        if upon is None or closing.first_captured_at > self.progress.captured_at + CLOSES_WITHIN:
            return None
        return upon

    def _process_name(self, shown: Observation) -> None:
        if isinstance(shown.body, Principal):
            self.claimed_principal = shown.body.name
        elif isinstance(shown.body, Placement):
            self.placement = shown.body.name or None

    def _process_loss(self, loss: Observation) -> None:
        """Take back what the lost bytes may have changed: the first request, or the advertised ranges."""
        if loss.direction is not Direction.TO_CLIENT and self.first_identified is None:
            self.beginning_seen = False
        if loss.direction is not Direction.TO_BROKER and self.first_answer is FirstAnswer.NONE:
            self.first_answer = _first_answer(loss)
        self.unbroken = False
        self.negotiations_in_doubt += self.progress.lose(loss.last_sequence).get(API_VERSIONS, 0)
        if self._may_hide_advertisement(loss.direction):
            self.advertised = None
        self.requests_missed = self.requests_missed or loss.direction is not Direction.TO_CLIENT
        self.responses_missed = self.responses_missed or loss.direction is not Direction.TO_BROKER

    def _may_hide_advertisement(self, lost: Direction) -> bool:
        """Whether an ApiVersions response may be lost: its request is in flight, or was lost, too."""
        if lost is Direction.TO_BROKER:
            return self.responses_missed
        if lost is Direction.TO_CLIENT:
            return self.requests_missed or self.negotiations_in_doubt > 0
        return True

    def _process_request(self, request: Observation) -> None:
        if self.first_request is None:
            self.first_request = FirstRequest.of(request)
            self.first_correlation_id = request.correlation_id
        if self.first_identified is None and request.api_key != SASL_HANDSHAKE:
            self.first_identified = FirstRequest.of(request)
        if lacks_api(request):
            self.unbroken = False
        if request.api_key == SASL_HANDSHAKE:
            if not self.admitted:
                self.latest_handshake = request.last_sequence
            # A client that logs in by SASL is not known by its certificate.
            self.claimed_principal = None
        self.uses_header_v3 = self.uses_header_v3 or request.uses_header_v3
        self.layout = request.layout or self.layout
        self._process_ids(request)
        if isinstance(request.body, SoftwareClaim):
            self.software = request.body

    def _process_ids(self, request: Observation) -> None:
        if request.client_id is not None or (request.cut and not request.has_header):
            self.client_id_repeated = self.client_id_repeated or not self.is_first(request)
        elif self.unbroken and not self.client_id_repeated and self.owes_client_id(request):
            self.null_client_ids = min(self.null_client_ids + request.count, NULL_CLIENT_IDS)
        if self.client_id is None:
            self.client_id = request.client_id
        elif request.client_id not in (None, self.client_id):
            self.shares_clients = True
        if self.client_id and self.progress.client is None:
            self.progress.client = Shown(request.first_captured_at, request.first_captured_at)
        if self.instance_id is None and request.instance_id is not None:
            self.instance_id, self.instance_id_sequence = request.instance_id, request.first_sequence
            self.progress.instance = Shown(request.first_captured_at, request.first_captured_at)

    def _process_response(self, response: Observation) -> None:
        if self.first_answer is FirstAnswer.NONE:
            self.first_answer = FirstAnswer.OTHER
        if self.is_certain(response):
            # A broker responds in order, so nothing that was sent before is in flight.
            self.requests_missed = self.responses_missed = False
            self.negotiations_in_doubt = 0
        elif response.is_matched and response.api_key == API_VERSIONS:
            self.negotiations_in_doubt -= response.count
        if response.api_key == SASL_AUTHENTICATE and response.errors not in (None, (), (NO_ERROR,)):
            self.claimed_principal = self.principal = None
        is_read = response.is_matched and isinstance(response.body, Advertisement)
        if response.api_key == API_VERSIONS and not is_read:
            self.superseded, self.advertised = self.advertised, None
            self.told_before_login = self.told_before_login or self.latest_handshake == 0
        if response.is_matched:
            self._process_matched(response)

    def _process_matched(self, response: Observation) -> None:
        body, version = response.body, (response.api_key, response.api_version)
        if isinstance(body, Advertisement) and body.error_code == NO_ERROR and body.ranges:
            before_login = self.latest_handshake == 0
            self.superseded = self.advertised
            self.advertised = Advertised.by(response, body, before_login)
            self.told_before_login = self.told_before_login or before_login
        elif isinstance(body, ClusterDescription):
            self.described = body
        if response.api_key not in OPENING_APIS:
            self.admitted, self.principal = True, self.claimed_principal or self.principal
        elif response.api_key == SASL_AUTHENTICATE and response.errors == (NO_ERROR,):
            self.admitted = True
        served = self.served_unadvertised
        is_served = UNSUPPORTED_VERSION not in (response.errors or ()) and response.api_key != API_VERSIONS
        if is_served and self.advertised is None and version not in served and len(served) < SERVED_LIMIT:
            served.append(version)

    def has_served(self, version: ApiVersion) -> bool:
        """Whether the broker responded to an API version before it advertised any, or may have."""
        return version in self.served_unadvertised or len(self.served_unadvertised) == SERVED_LIMIT

    @property
    def gives_client_id_once(self) -> bool:
        """Whether the client gave its client ID in the first request only, on older headers, as far as seen.

        Three requests without it suffice, or one if the connection has ended.
        """
        if self.null_client_ids == NULL_CLIENT_IDS:
            return True
        is_over = self.ended and self.unbroken and not self.client_id_repeated and not self.uses_header_v3
        return is_over and self.null_client_ids > 0

    def owes_client_id(self, request: Observation) -> bool:
        """Whether a later request on an older header needs the client ID that the first one gave.

        Those of OPENING_APIS do not: no quota applies to them.
        """
        first = self.first_request
        if first is None or not first.client_id or self.uses_header_v3:
            return False
        return request.has_header and not self.is_first(request) and request.api_key not in OPENING_APIS

    @property
    def withheld_before_login(self) -> tuple[int, ...] | None:
        """The keys of the APIs of which the list before the login lacked versions.

        None unless the latest observation is the first list since the login, and nothing else was missed.
        """
        before, now = self.superseded, self.advertised
        if before is None or now is None or not self.unbroken or not before.before_login or now.before_login:
            return None
        return before.lacks(now)

    @property
    def heartbeats_seen(self) -> bool:
        """Whether no heartbeat was missed: nothing was, and all of them could be read, with the responses."""
        return self.unbroken and not self.members.hidden

    def silence_of(self, group_id: str, member_id: str, request: Observation) -> int:
        """Return how long before a request a member sent its latest heartbeat, in nanoseconds.

        0 for a member that is not followed. Reads the progress.
        """
        member = self.progress.members.get(member_name(group_id, member_id))
        return request.last_captured_at - member.until if member else 0

    def is_first(self, request: Observation) -> bool:
        """Whether this is the very first request seen."""
        return self.first_request is not None and request.first_sequence == self.first_request.sequence

    def is_first_identified(self, request: Observation) -> bool:
        """Whether this is the first request seen that could carry a client instance ID."""
        first = self.first_identified
        return first is not None and request.first_sequence == first.sequence

    @property
    def closed(self) -> bool:
        """Whether nothing more will be seen of the connection."""
        return self.closing is not Closing.NONE

    @property
    def ended(self) -> bool:
        """Whether the connection itself ended, rather than the capture of it."""
        return self.closing in (Closing.FIN, Closing.RST, Closing.REPLACED)

    @property
    def was_refused_by_closing(self) -> bool:
        """Whether the broker closed the connection, so that requests in flight stay without a response."""
        return self.ended and self.closed_by_broker

    @property
    def first_is_known(self) -> bool:
        """Whether the first request seen was the connection's first, and its header is certain."""
        return self.beginning_seen and self.first_request is not None and self.first_request.has_header

    def is_certain(self, response: Observation) -> bool:
        """Whether a response surely belongs to its request. Reads the progress.

        Correlation IDs repeat, so a match with a request from before a loss may really answer a lost request.
        """
        return response.is_matched and response.paired_sequence > self.progress.loss


def _first_answer(loss: Observation) -> FirstAnswer:
    """Name the first bytes of the server, which are no frame."""
    if loss.kind is Kind.GAP:
        return FirstAnswer.UNSEEN
    return FirstAnswer.TLS_ALERT if is_tls_alert(loss.size) else FirstAnswer.OTHER
