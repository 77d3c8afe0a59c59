"""The bytes of one connection through a relay that rewrites responses. Pure: bytes in, bytes out.

Requests pass unchanged. A response to an API that names brokers is held back until it is complete, then
rewritten; other responses pass as they arrive. Anything else than Kafka, such as TLS, passes unchanged.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from decoders.frame.record import Direction
from decoders.schema.registry import Schemas
from decoders.wire.assembly import MAX_FRAME
from streaming.record.rewriting import Replace, UnreadableResponseError, holds_addresses, rewrite

MAX_IN_FLIGHT = 10_000
"""Requests in flight; beyond it the oldest is taken for one without a response, as with acks=0."""

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">ihhi")
_RESPONSE = struct.Struct(">ii")


Change = Callable[[bytes], bytes]
"""Rewrites a frame, without its length prefix."""


class _RequestInFlight(NamedTuple):
    api_key: int
    api_version: int


class RewritingPassage:
    """Replaces broker addresses in responses. `warn` is called for a response that cannot be read."""

    def __init__(self, schemas: Schemas, replace: Replace, warn: Callable[[str], None]) -> None:
        self._schemas, self._replace, self._warn = schemas, replace, warn
        self._in_flight: OrderedDict[int, _RequestInFlight] = OrderedDict()
        self._streams = {
            Direction.TO_BROKER: _FrameStream(_REQUEST.size, self._inspect_request),
            Direction.TO_CLIENT: _FrameStream(_RESPONSE.size, self._inspect_response),
        }

    def process(self, direction: Direction, chunk: bytes) -> bytes:
        """Return the bytes to forward now that a chunk of one direction has arrived."""
        return self._streams[direction].process(chunk)

    def end(self, direction: Direction) -> bytes:
        """Return the bytes held back, when the sender of a direction has ended."""
        return self._streams[direction].end()

    def _inspect_request(self, start: bytes) -> None:
        _, api_key, api_version, correlation_id = _REQUEST.unpack(start)
        if holds_addresses(self._schemas, api_key):
            self._in_flight[correlation_id] = _RequestInFlight(api_key, api_version)
            if len(self._in_flight) > MAX_IN_FLIGHT:
                self._in_flight.popitem(last=False)

    def _inspect_response(self, start: bytes) -> Change | None:
        _, correlation_id = _RESPONSE.unpack(start)
        request = self._in_flight.pop(correlation_id, None)
        if request is None:
            return None
        return lambda frame: self._rewritten(frame, request)

    def _rewritten(self, frame: bytes, request: _RequestInFlight) -> bytes:
        try:
            return rewrite(self._schemas, frame, *request, self._replace)
        except UnreadableResponseError as error:
            self._warn(f"{error}; traffic with the brokers it names is not recorded")
            return frame


class _FrameStream:
    """The frames of one direction, separated by their lengths.

    `inspect` is called with the first `start_size` bytes of each frame, length included. It returns the
    function that rewrites the complete frame, or None if the frame may pass as it arrives.
    """

    def __init__(self, start_size: int, inspect: Callable[[bytes], Change | None]) -> None:
        self._start_size, self._inspect = start_size, inspect
        self._held = bytearray()
        self._change: Change | None = None
        self._left = 0
        """Bytes of the current frame that have not been forwarded."""
        self._is_opaque = False

    def process(self, chunk: bytes) -> bytes:
        self._held += chunk
        passed = bytearray()
        while self._is_in_frame() and (ready := self._ready()):
            passed += ready
        return bytes(passed) + (self.end() if self._is_opaque else b"")

    def end(self) -> bytes:
        return self._pop(len(self._held))

    def _is_in_frame(self) -> bool:
        """Whether a frame is incomplete; begins the next one if its first bytes are there."""
        if self._left or self._is_opaque or len(self._held) < self._start_size:
            return self._left > 0
        self._left = _LENGTH.size + _LENGTH.unpack_from(self._held)[0]
        if self._start_size <= self._left <= _LENGTH.size + MAX_FRAME:
            self._change = self._inspect(bytes(self._held[: self._start_size]))
        else:
            self._left, self._is_opaque = 0, True
        return self._left > 0

    def _ready(self) -> bytes:
        """Remove and return the bytes that may pass now; none of an incomplete frame to be rewritten."""
        if self._change is None:
            passed = self._pop(self._left)
            self._left -= len(passed)
            return passed
        if len(self._held) < self._left:
            return b""
        changed = self._change(self._pop(self._left)[_LENGTH.size :])
        self._left = 0
        return _LENGTH.pack(len(changed)) + changed

    def _pop(self, size: int) -> bytes:
        popped = bytes(self._held[:size])
        del self._held[:size]
        return popped
