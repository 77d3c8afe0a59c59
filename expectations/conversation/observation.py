"""What frames say, and when: statements, occurrences, observations and windows.

A *statement* is what a frame or event says. Most frames of a connection differ only in time, sequence and
correlation ID, which a statement leaves out. It is frozen and hashable, so equal statements are decoded,
folded and judged once. An *occurrence* is when, how often and where a statement was captured. Both together
are an *observation*, which rules read. A *window* has what one connection said in one batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import msgspec

from decoders.frame.record import Closing, Direction, Kind, Pairing
from decoders.schema.header_versions import Layout
from expectations.conversation.bodies import Body
from expectations.conversation.own_values import Bytes, CorrelationId, Count, SequenceNumber, Time


class Failure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why a complete frame could not be decoded, or what is odd about it: where, by path and byte offset."""

    reason: str
    path: str
    offset: int

    @property
    def context(self) -> dict[str, str]:
        """The failure as the context of a finding. The path "-" is the frame as a whole."""
        return {"reason": self.reason, "path": self.path or "-", "offset": str(self.offset)}


class Statement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one frame or event says, as far as rules read it.

    **Frames.** `known` is False where the schemas do not have the API version; then only key, version and
    correlation ID are read, and the client ID if the API `shows_header`. `failure` says why a frame cannot be
    decoded; that of an unknown version is one that no release would read. `oddity` is what remains of a frame
    that decodes: bytes after the body, or a tagged field of another size than announced. `encoding` is the
    first part that is encoded as Kafka never encodes it.

    `read_whole` means that the feeder read a frame that is `cut`, and found nothing wrong in it.

    **Requests.** `header_version`, `client_id`, `client_instance_id` (16 bytes, None where the header has no
    such field) and `layout` (how the header carries that ID) are set only where the header is certain.
    `draft_instance_id` are the 16 bytes in tagged field 0 of header v2. `other_header` is the only header
    version under which the request can be read, if it is not the assigned one. `unproven` marks a request of
    an overlay version whose proving bytes were cut away. `expects_response` is False for Produce with acks=0.
    `settled` means that the client sent the request after it had read the latest ApiVersions response.
    `informed` means that its host had that response and every later one, and that it does not pipeline: it
    has probably read it, but a request that TCP held back shows the same. No request is both.

    **Responses.** `api_key` and `api_version` are those of the request that it is paired with. `errors` are
    the distinct error codes of a response that was read whole, empty where it has none.

    **Events.** `size` is the length that an impossible length prefix announces, or the first four bytes of a
    connection that is not Kafka, as an unsigned number; then `named_port` means that the user names its port,
    and `responded` that the server sent something.
    """

    kind: Kind
    direction: Direction = Direction.NONE
    pairing: Pairing = Pairing.NONE
    closing: Closing = Closing.NONE
    mid_stream: bool = False
    settled: bool = False
    known: bool = True
    cut: bool = False
    api_key: int = -1
    api_version: int = -1
    header_version: int | None = None
    client_id: str | None = None
    client_instance_id: bytes | None = None
    failure: Failure | None = None
    body: Body | None = None
    oddity: Failure | None = None
    errors: tuple[int, ...] | None = None
    layout: Layout | None = None
    other_header: int | None = None
    expects_response: bool = True
    size: int = 0
    unproven: bool = False
    encoding: Failure | None = None
    named_port: bool = False
    informed: bool = False
    draft_instance_id: bytes | None = None
    responded: bool = False
    read_whole: bool = False

    @property
    def has_header(self) -> bool:
        """Whether the request's header is certain."""
        return self.header_version is not None

    @property
    def is_matched(self) -> bool:
        """Whether the response is known to belong to its request."""
        return self.pairing is Pairing.MATCHED

    @property
    def is_partly_read(self) -> bool:
        """Whether a frame was cut before all its bytes were read, so that something may be wrong in them."""
        return self.cut and not self.read_whole

    @property
    def is_clean(self) -> bool:
        """Whether a frame is read whole, has nothing odd in it, and its header or its request is certain.

        A `draft_instance_id` is odd.
        """
        if not self.known or self.is_partly_read or self.failure is not None:
            return False
        if self.oddity is not None or self.encoding is not None:
            return False
        if self.kind is Kind.RESPONSE:
            return self.pairing is Pairing.MATCHED
        is_usual = self.other_header is None and self.draft_instance_id is None
        return self.kind is Kind.REQUEST and self.header_version is not None and is_usual

    @property
    def uses_header_v3(self) -> bool:
        """Whether the request carries KIP-1313's header."""
        return self.header_version == 3

    @property
    def instance_id(self) -> bytes | None:
        """The client instance ID, None where there is none or it is zero."""
        return self.client_instance_id if self.client_instance_id and any(self.client_instance_id) else None


EVIDENCE_BYTES = 64
"""Bytes of a frame that evidence keeps."""


class Evidence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a frame is stored, and its first bytes.

    In a capture file: the file's name and the byte `position` of the packet. In a topic: its name, the
    `partition` and the `offset` of the block, and the `row` in that. `beginning` holds the frame's first
    EVIDENCE_BYTES bytes.
    """

    source: str
    beginning: bytes
    position: int | None = None
    partition: int | None = None
    offset: int | None = None
    row: int | None = None


NO_EVIDENCE = Evidence("", b"")


class Occurrence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One frame or event, or `count` folded ones with equal statements.

    Sequences and times are those of the first and the last; times are in nanoseconds since the epoch.
    `previous_captured_at` is the time of the last but one, 0 if there is only one. `paired_sequence` is the
    first sequence of the request that a response belongs to, 0 if it is unknown. `size` is the sum of the
    frames' lengths on the wire, without their prefixes.
    """

    first_sequence: SequenceNumber
    last_sequence: SequenceNumber
    first_captured_at: Time
    last_captured_at: Time
    evidence: Evidence
    previous_captured_at: Time = 0
    count: Count = 1
    correlation_id: CorrelationId | None = None
    paired_sequence: SequenceNumber = 0
    size: Bytes = 0

    def without_size(self) -> Occurrence:
        """Return the same without its size."""
        return msgspec.structs.replace(self, size=0) if self.size else self


def _stated(name: str) -> Any:
    """Read an attribute of the statement. A property around `attrgetter` costs no Python frame."""
    return property(attrgetter(f"statement.{name}"))


def _occurred(name: str) -> Any:
    """Read an attribute of the occurrence."""
    return property(attrgetter(f"occurrence.{name}"))


class Observation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A statement and its occurrence. The attributes of both are read by their own names."""

    statement: Statement
    occurrence: Occurrence

    kind: ClassVar[Kind] = _stated("kind")
    direction: ClassVar[Direction] = _stated("direction")
    pairing: ClassVar[Pairing] = _stated("pairing")
    closing: ClassVar[Closing] = _stated("closing")
    mid_stream: ClassVar[bool] = _stated("mid_stream")
    settled: ClassVar[bool] = _stated("settled")
    known: ClassVar[bool] = _stated("known")
    cut: ClassVar[bool] = _stated("cut")
    api_key: ClassVar[int] = _stated("api_key")
    api_version: ClassVar[int] = _stated("api_version")
    header_version: ClassVar[int | None] = _stated("header_version")
    client_id: ClassVar[str | None] = _stated("client_id")
    client_instance_id: ClassVar[bytes | None] = _stated("client_instance_id")
    failure: ClassVar[Failure | None] = _stated("failure")
    body: ClassVar[Body | None] = _stated("body")
    oddity: ClassVar[Failure | None] = _stated("oddity")
    errors: ClassVar[tuple[int, ...] | None] = _stated("errors")
    layout: ClassVar[Layout | None] = _stated("layout")
    other_header: ClassVar[int | None] = _stated("other_header")
    expects_response: ClassVar[bool] = _stated("expects_response")
    size: ClassVar[int] = _stated("size")
    unproven: ClassVar[bool] = _stated("unproven")
    encoding: ClassVar[Failure | None] = _stated("encoding")
    named_port: ClassVar[bool] = _stated("named_port")
    informed: ClassVar[bool] = _stated("informed")
    draft_instance_id: ClassVar[bytes | None] = _stated("draft_instance_id")
    responded: ClassVar[bool] = _stated("responded")
    read_whole: ClassVar[bool] = _stated("read_whole")
    has_header: ClassVar[bool] = _stated("has_header")
    is_matched: ClassVar[bool] = _stated("is_matched")
    is_partly_read: ClassVar[bool] = _stated("is_partly_read")
    is_clean: ClassVar[bool] = _stated("is_clean")
    uses_header_v3: ClassVar[bool] = _stated("uses_header_v3")
    instance_id: ClassVar[bytes | None] = _stated("instance_id")

    first_sequence: ClassVar[int] = _occurred("first_sequence")
    last_sequence: ClassVar[int] = _occurred("last_sequence")
    first_captured_at: ClassVar[int] = _occurred("first_captured_at")
    last_captured_at: ClassVar[int] = _occurred("last_captured_at")
    previous_captured_at: ClassVar[int] = _occurred("previous_captured_at")
    evidence: ClassVar[Evidence] = _occurred("evidence")
    count: ClassVar[int] = _occurred("count")
    correlation_id: ClassVar[int | None] = _occurred("correlation_id")
    paired_sequence: ClassVar[int] = _occurred("paired_sequence")


NOT_CAPTURED = -1
"""The API key or version of a request of which too little was captured."""


def lacks_api(request: Observation) -> bool:
    """Whether a request was cut before its API key: it may be any request, as if its bytes had been lost."""
    return request.cut and request.api_key == NOT_CAPTURED


def lacks_version(request: Observation) -> bool:
    """Whether a request was cut before its API version. A negative version that was read is a failure."""
    return request.cut and request.failure is None and request.api_version == NOT_CAPTURED


class ConnectionKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The connection of a window: its 16-byte ID, cluster, both addresses, and the feeder's run."""

    id: bytes
    cluster: str
    client: str
    server: str
    run: int


class Window(NamedTuple):
    """Occurrences on one connection, ordered by their first sequence.

    `numbers[i]` is the number of the statement of `occurrences[i]` in `statements`. The windows of a batch
    share one table of statements.
    """

    connection: ConnectionKey
    numbers: list[int]
    occurrences: list[Occurrence]
    statements: Mapping[int, Statement]

    @property
    def first_sequence(self) -> int:
        """The first sequence of the first occurrence, 0 if there is none."""
        return self.occurrences[0].first_sequence if self.occurrences else 0

    @property
    def observations(self) -> list[Observation]:
        """The occurrences with their statements, as rules read them.

        They have no sizes: rules keep observations, and equal conversations are stored alike.
        """
        statements = self.statements
        return [
            Observation(statements[number], occurrence.without_size())
            for number, occurrence in zip(self.numbers, self.occurrences, strict=True)
        ]
