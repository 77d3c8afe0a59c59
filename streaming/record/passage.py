"""One connection's way through a relay that rewrites answers. Pure: bytes in, bytes out.

Requests pass as they are and are only looked at. An answer is held back until it is whole if the request
of its correlation ID asked an API whose answers name brokers; all else passes as it comes. What is no
Kafka, such as TLS, passes unchanged.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from decoders.frame.record import Direction
from decoders.schema.registry import Schemas
from decoders.wire.assembly import MAX_FRAME
from streaming.record.rewriting import Replace, UnreadableAnswerError, holds_addresses, rewrite

MOST_AWAITED = 10_000
"""Requests whose answers are waited for; beyond it the oldest is taken for one without, as acks 0 asks."""

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">ihhi")
_RESPONSE = struct.Struct(">ii")


Change = Callable[[bytes], bytes]
"""Makes another frame of a frame without its length prefix."""


class _Asked(NamedTuple):
    api_key: int
    api_version: int


class RewritingPassage:
    """Replaces the broker addresses that pass to the client. `complain` is told what could not be read."""

    def __init__(self, schemas: Schemas, replace: Replace, complain: Callable[[str], None]) -> None:
        self._schemas, self._replace, self._complain = schemas, replace, complain
        self._awaited: OrderedDict[int, _Asked] = OrderedDict()
        self._ways = {
            Direction.TO_BROKER: _Way(_REQUEST.size, self._hear_request),
            Direction.TO_CLIENT: _Way(_RESPONSE.size, self._hear_response),
        }

    def take(self, direction: Direction, chunk: bytes) -> bytes:
        """Give what goes on now, after a chunk came in one direction."""
        return self._ways[direction].take(chunk)

    def end(self, direction: Direction) -> bytes:
        """Give what was held back, when the sender of a direction has ended."""
        return self._ways[direction].end()

    def _hear_request(self, lead: bytes) -> None:
        _, api_key, api_version, correlation_id = _REQUEST.unpack(lead)
        if holds_addresses(self._schemas, api_key):
            self._awaited[correlation_id] = _Asked(api_key, api_version)
            if len(self._awaited) > MOST_AWAITED:
                self._awaited.popitem(last=False)

    def _hear_response(self, lead: bytes) -> Change | None:
        _, correlation_id = _RESPONSE.unpack(lead)
        asked = self._awaited.pop(correlation_id, None)
        if asked is None:
            return None
        return lambda frame: self._rewritten(frame, asked)

    def _rewritten(self, frame: bytes, asked: _Asked) -> bytes:
        try:
            return rewrite(self._schemas, frame, *asked, self._replace)
        except UnreadableAnswerError as error:
            self._complain(f"{error}; the brokers it names are talked to without the relay")
            return frame


class _Way:
    """One direction: its frames, told apart by their lengths.

    `hear` is given the first `lead` bytes of each frame, and gives the function that makes another of the
    whole frame, or None where it may pass as it comes.
    """

    def __init__(self, lead: int, hear: Callable[[bytes], Change | None]) -> None:
        self._lead, self._hear = lead, hear
        self._held = bytearray()
        self._change: Change | None = None
        self._left = 0
        """Bytes of the frame under way that have not gone on."""
        self._is_opaque = False

    def take(self, chunk: bytes) -> bytes:
        self._held += chunk
        passed = bytearray()
        while self._is_under_way() and (ready := self._ready()):
            passed += ready
        return bytes(passed) + (self.end() if self._is_opaque else b"")

    def end(self) -> bytes:
        return self._take_off(len(self._held))

    def _is_under_way(self) -> bool:
        """Whether a frame is, or has just begun."""
        if self._left or self._is_opaque or len(self._held) < self._lead:
            return self._left > 0
        self._left = _LENGTH.size + _LENGTH.unpack_from(self._held)[0]
        if self._lead <= self._left <= _LENGTH.size + MAX_FRAME:
            self._change = self._hear(bytes(self._held[: self._lead]))
        else:
            self._left, self._is_opaque = 0, True
        return self._left > 0

    def _ready(self) -> bytes:
        """Take off what may go on now; nothing where the frame has to be whole first."""
        if self._change is None:
            passed = self._take_off(self._left)
            self._left -= len(passed)
            return passed
        if len(self._held) < self._left:
            return b""
        changed = self._change(self._take_off(self._left)[_LENGTH.size :])
        self._left = 0
        return _LENGTH.pack(len(changed)) + changed

    def _take_off(self, size: int) -> bytes:
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken
