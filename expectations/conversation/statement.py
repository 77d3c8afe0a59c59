"""Statements: what a frame or event says, apart from when it was captured.

Clients repeat themselves: most frames of a connection differ only in time, sequence and correlation ID. A
statement leaves those out. It is frozen and hashable, so equal statements are decoded, folded and judged
once.
"""

from __future__ import annotations

import msgspec

from decoders.frame.record import Closing, Direction, Kind, Pairing
from decoders.schema.header_versions import Layout
from expectations.conversation.bodies import Body


class Failure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why a complete frame could not be decoded: the field's path and its byte offset in the frame."""

    reason: str
    path: str
    offset: int

    @property
    def context(self) -> dict[str, str]:
        """The failure as the context of a finding. The path "-" is the frame as a whole."""
        return {"reason": self.reason, "path": self.path or "-", "offset": str(self.offset)}


class Statement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one frame or event says, as far as rules read it.

    For a response, `api_key` and `api_version` are those of the request it is paired with. `known` is False
    where the schemas do not have the API version; then only key, version and correlation ID are read.
    `header_version`, `client_id`, `client_instance_id` (16 bytes, None where the header has no such field)
    and `layout` (how the header carries that ID) are set only where the header is certain.

    `oddity` is what remains of a frame that decodes: bytes after the body, or a tagged field of another size
    than announced. `encoding` is the first part of a frame that is encoded as Kafka never encodes it. `size`
    is the length that an impossible length prefix announces, or the first four bytes of a connection that is
    not Kafka, as an unsigned number; then `named_port` means that the user names its port, and `responded`
    that the server sent something. `errors` are the distinct error codes of a response that was read whole,
    empty where it has none. `other_header` is the only header version under which a request can be read, if
    it is not the assigned one. `expects_response` is False for Produce with acks=0. `unproven` marks a
    request of an overlay version whose proving bytes were cut away. `settled` means that the client sent the
    request after it had read the latest ApiVersions response.
    `informed` means that its host had that response and every later one, and that it does not pipeline: it
    has probably read it, but a request that TCP held back shows the same. No request is both.
    `draft_instance_id` are the 16 bytes that a request has in tagged field 0 of header 2.
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

    @property
    def has_header(self) -> bool:
        """Whether the request's header is certain."""
        return self.header_version is not None

    @property
    def is_matched(self) -> bool:
        """Whether the response is known to belong to its request."""
        return self.pairing is Pairing.MATCHED

    @property
    def is_clean(self) -> bool:
        """Whether a frame is read whole, nothing in it is odd, and its header or its request is certain.

        A `draft_instance_id` is odd.
        """
        if not self.known or self.cut or self.failure is not None:
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
