"""Rewrites responses: broker addresses, so that clients connect to relays, and what a provocation alters.

An `Alter` takes a response and returns what the client gets instead; `in_body` makes one that changes fields.

Pure: bytes in and out. Clients find brokers by Metadata, DescribeCluster and FindCoordinator; KIP-951 added
`nodeEndpoints` to responses that name a new leader. A response to one of these APIs is held back until it
is complete, then rewritten; requests and other responses pass as they arrive. With an `Alter` all responses
are held back until they are complete. Anything but Kafka, such as TLS, passes unchanged.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from decoders.codec.failure import EncodeError
from decoders.codec.response import read_response, write_response
from decoders.frame.record import Direction
from decoders.schema.registry import Schemas
from decoders.wire.framing import MAX_FRAME

Address = tuple[str, int]
Replace = Callable[[Address], Address]

_RESPONSE_ITSELF = ""
ADDRESSES: Mapping[str, tuple[str, ...]] = {
    "Metadata": ("brokers",),
    "DescribeCluster": ("brokers",),
    # Before version 4 the response itself names one coordinator.
    "FindCoordinator": (_RESPONSE_ITSELF, "coordinators"),
    "Produce": ("nodeEndpoints",),
    "Fetch": ("nodeEndpoints",),
    "ShareFetch": ("nodeEndpoints",),
    "ShareAcknowledge": ("nodeEndpoints",),
}
"""The fields of each API's response that hold broker addresses."""
MAX_IN_FLIGHT = 10_000
"""Most requests in flight. Beyond it the oldest counts as one without a response, as with acks=0."""

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">ihhi")
_RESPONSE = struct.Struct(">ii")


class ForwardedRequest(NamedTuple):
    """The request whose response may be altered."""

    api_key: int
    api: str
    version: int


Body = dict[str, Any]
Alter = Callable[[ForwardedRequest, bytes], bytes | None]
"""Takes a response, without its length, and returns what the client gets instead. None closes instead."""


def unaltered(_asked: ForwardedRequest, response: bytes) -> bytes:
    """Leave a response as it is."""
    return response


def in_body(
    schemas: Schemas, change: Callable[[Body], Mapping[str, Any] | None], *apis: str, since: int = 0
) -> Alter:
    """Change the body of responses to some APIs, from a version on. `change` returns None to leave it."""

    def alter(asked: ForwardedRequest, response: bytes) -> bytes:
        if asked.api not in apis or asked.version < since:
            return response
        read = read_response(schemas, response, asked.api_key, asked.version)
        changed = None if read.body is None else change(read.body)
        if changed is None or read.body_version is None:
            return response
        return write_response(schemas, asked.api_key, read.body_version, read.correlation_id or 0, changed)

    return alter


def error_code(before: int, after: int) -> Callable[[Body], Body | None]:
    """Return the change of one error code into another."""
    return lambda body: body | {"errorCode": after} if body["errorCode"] == before else None


Change = Callable[[bytes], bytes | None]
"""Rewrites a frame, without its length prefix. None closes the connection."""


class UnreadableResponseError(ValueError):
    """A response cannot be decoded, so that its addresses cannot be replaced."""


def holds_addresses(schemas: Schemas, api_key: int) -> bool:
    """Whether responses of an API may hold broker addresses."""
    api = schemas.api(api_key)
    return api is not None and api.name in ADDRESSES


def rewrite(schemas: Schemas, frame: bytes, api_key: int, api_version: int, replace: Replace) -> bytes:
    """Return a response with every broker address replaced, or unchanged if it has none.

    Raises UnreadableResponseError if the response cannot be decoded completely or encoded again.
    """
    read = read_response(schemas, frame, api_key, api_version)
    if read.body is None or read.body_version is None or read.correlation_id is None or not read.api:
        raise UnreadableResponseError(f"the response to API {api_key} v{api_version}: {read.failure}")
    brokers = list(_brokers(read.body, ADDRESSES[read.api.name]))
    for broker in brokers:
        broker["host"], broker["port"] = replace((broker["host"], broker["port"]))
    if not brokers:
        return frame
    try:
        return write_response(schemas, api_key, read.body_version, read.correlation_id, read.body)
    except EncodeError as error:
        raise UnreadableResponseError(f"the response to {read.api.name} v{api_version}: {error}") from error


def _brokers(body: dict[str, Any], fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield the structs that name a broker. That of an unknown broker has no host and is left out."""
    for field in fields:
        structs = [body] if field == _RESPONSE_ITSELF else body.get(field) or ()
        yield from (struct for struct in structs if struct.get("host"))


class RewritingPassage:
    """Alters the responses of a connection, and replaces broker addresses in them.

    Calls `warn` for a response that cannot be read.
    """

    def __init__(
        self,
        schemas: Schemas,
        replace: Replace,
        warn: Callable[[str], None],
        alter: Alter = unaltered,
    ) -> None:
        self._schemas, self._replace, self._warn, self._alter = schemas, replace, warn, alter
        self._in_flight: OrderedDict[int, ForwardedRequest] = OrderedDict()
        self._streams = {
            Direction.TO_BROKER: _FrameStream(_REQUEST.size, self._inspect_request),
            Direction.TO_CLIENT: _FrameStream(_RESPONSE.size, self._inspect_response),
        }

    def process(self, direction: Direction, chunk: bytes) -> bytes | None:
        """Return the bytes to forward when a chunk has arrived, None to close the connection."""
        return self._streams[direction].process(chunk)

    def end(self, direction: Direction) -> bytes:
        """Return the bytes held back, when the sender of a direction has ended."""
        return self._streams[direction].end()

    def _inspect_request(self, start: bytes) -> None:
        _, api_key, api_version, correlation_id = _REQUEST.unpack(start)
        if self._alter is not unaltered or holds_addresses(self._schemas, api_key):
            name = self._schemas.api_names.get(api_key, "")
            self._in_flight[correlation_id] = ForwardedRequest(api_key, name, api_version)
            if len(self._in_flight) > MAX_IN_FLIGHT:
                self._in_flight.popitem(last=False)

    def _inspect_response(self, start: bytes) -> Change | None:
        _, correlation_id = _RESPONSE.unpack(start)
        request = self._in_flight.pop(correlation_id, None)
        if request is None:
            return None
        return lambda frame: self._rewritten(frame, request)

    def _rewritten(self, response: bytes, request: ForwardedRequest) -> bytes | None:
        frame = self._alter(request, response)
        if frame is None or request.api not in ADDRESSES:
            return frame
        try:
            return rewrite(self._schemas, frame, request.api_key, request.version, self._replace)
        except UnreadableResponseError as error:
            self._warn(f"{error}; traffic with the brokers it names is not recorded")
            return frame


class _FrameStream:
    """Cuts the bytes of one direction into frames.

    `inspect` gets the first `start_size` bytes of each frame, length included. It returns the function that
    rewrites the complete frame, or None if the frame may pass as it arrives. A length that no frame can have
    makes the rest of the stream opaque: it passes unchanged.
    """

    def __init__(self, start_size: int, inspect: Callable[[bytes], Change | None]) -> None:
        self._start_size, self._inspect = start_size, inspect
        self._held = bytearray()
        self._change: Change | None = None
        self._left = 0
        """Bytes of the current frame that have not been forwarded."""
        self._is_opaque = False

    def process(self, chunk: bytes) -> bytes | None:
        self._held += chunk
        passed = bytearray()
        while self._is_in_frame() and (ready := self._ready()) != b"":
            if ready is None:
                return None
            passed += ready
        return bytes(passed) + (self.end() if self._is_opaque else b"")

    def end(self) -> bytes:
        return self._pop(len(self._held))

    def _is_in_frame(self) -> bool:
        """Whether a frame is incomplete. Begins the next frame if its first bytes have arrived."""
        if self._left or self._is_opaque or len(self._held) < self._start_size:
            return self._left > 0
        self._left = _LENGTH.size + _LENGTH.unpack_from(self._held)[0]
        if self._start_size <= self._left <= _LENGTH.size + MAX_FRAME:
            self._change = self._inspect(bytes(self._held[: self._start_size]))
        else:
            self._left, self._is_opaque = 0, True
        return self._left > 0

    def _ready(self) -> bytes | None:
        """Remove and return the bytes that may pass now: none of an incomplete frame to be rewritten.

        None closes the connection.
        """
        if self._change is None:
            passed = self._pop(self._left)
            self._left -= len(passed)
            return passed
        if len(self._held) < self._left:
            return b""
        changed = self._change(self._pop(self._left)[_LENGTH.size :])
        self._left = 0
        return None if changed is None else _LENGTH.pack(len(changed)) + changed

    def _pop(self, size: int) -> bytes:
        popped = bytes(self._held[:size])
        del self._held[:size]
        return popped
