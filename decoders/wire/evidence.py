"""What shows that bytes are Kafka frames: the codec's answers to the questions of this room.

A boundary that was lost is taken up again only where a whole frame decodes to its last byte and what
follows it, if anything is there, begins like a frame too; or where a frame that was not captured to its
end decodes as far as it is there, and ends just where the missing bytes end. In the direction of the
client the frame must besides answer a request that waits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

from decoders.codec.request import read_request
from decoders.codec.response import read_response
from decoders.schema.registry import Schemas
from decoders.wire.assembly import MAX_FRAME, PREFIX
from decoders.wire.pairing import Owed

MAX_SOUGHT = 1024 * 1024
"""A boundary is not sought at longer frames: their bytes would have to be held meanwhile."""
_HEADER = struct.Struct(">hhi")
_SIZE = struct.Struct(">i")
_SHORTEST_REQUEST = 8
_SHORTEST_ANSWER = 4
_PRODUCE = 0

OwesAnswer = Callable[[Schemas, bytes], bool | None]


class Evidence:
    """Asks the codec on behalf of framing and pairing. No frame is longer than `max_frame` bytes."""

    def __init__(self, schemas: Schemas, owes_answer: OwesAnswer, max_frame: int = MAX_FRAME) -> None:
        self.max_frame = max_frame
        self._schemas = schemas
        self._owes_answer = owes_answer

    def opens(self, data: bytes | bytearray) -> bool | None:
        """Tell whether a connection's first bytes may be a request: length and API key make sense."""
        if len(data) < PREFIX + 2:
            return None
        size, api_key = struct.unpack_from(">ih", data)
        return _SHORTEST_REQUEST <= size <= self.max_frame and self._schemas.api(api_key) is not None

    def is_request(self, frame: bytes, *, cut: bool = False) -> bool:
        """Tell whether a frame decodes, completely or as far as it is there, as a request known.

        Not a whole Produce that produces nothing: its key is 0, so an answer with a small correlation ID
        and little but zeros behind it reads like one.
        """
        request = read_request(self._schemas, frame, cut=cut)
        if not request.known or request.failure is not None:
            return False
        return cut or request.api_key != _PRODUCE or bool(request.body and request.body["topicData"])

    def resumes_requests(self, data: bytes | bytearray, missing: int = 0) -> bool | None:
        """Tell whether bytes begin with a whole request and go on so, or with one that lacks its end."""
        begins = self._begins_request(data)
        return begins and _resumes(data, missing, self.is_request, self._begins_request)

    def resumes_answers(
        self, data: bytes | bytearray, missing: int, find: Callable[[int], Owed | None]
    ) -> bool | None:
        """Tell the same of an answer to a request that `find` knows."""

        def begins(rest: bytes | bytearray) -> bool | None:
            return _begins_answer(rest, find)

        def is_answer(frame: bytes, *, cut: bool) -> bool:
            owed = find(_correlation_id(frame))
            return owed is not None and self._answers(frame, owed, cut)

        verdict = begins(data)
        return verdict and _resumes(data, missing, is_answer, begins)

    def owes_answer(self, frame: bytes) -> bool | None:
        """Tell whether a request is owed an answer, None where its bytes do not tell."""
        return self._owes_answer(self._schemas, frame)

    def _begins_request(self, data: bytes | bytearray) -> bool | None:
        if len(data) < PREFIX + _SHORTEST_REQUEST:
            return None
        (size,) = _SIZE.unpack_from(data)
        api_key, api_version, _ = _HEADER.unpack_from(data, PREFIX)
        api = self._schemas.api(api_key)
        return _SHORTEST_REQUEST <= size <= MAX_SOUGHT and api is not None and api_version in api.versions

    def _answers(self, frame: bytes, owed: Owed, cut: bool) -> bool:
        response = read_response(self._schemas, frame, owed.api_key, owed.api_version, cut=cut)
        return response.known and response.failure is None


class _Decodes(Protocol):
    def __call__(self, frame: bytes, *, cut: bool) -> bool: ...


def _resumes(
    data: bytes | bytearray,
    missing: int,
    decodes: _Decodes,
    begins: Callable[[bytes | bytearray], bool | None],
) -> bool | None:
    end = PREFIX + _SIZE.unpack_from(data)[0]
    if missing:
        return end == len(data) + missing and decodes(bytes(data[PREFIX:]), cut=True)
    if len(data) < end:
        return None
    if not decodes(bytes(data[PREFIX:end]), cut=False):
        return False
    return len(data) == end or begins(data[end:])


def _correlation_id(frame: bytes | bytearray) -> int:
    return int(_SIZE.unpack_from(frame)[0])


def _begins_answer(data: bytes | bytearray, find: Callable[[int], Owed | None]) -> bool | None:
    if len(data) < PREFIX + _SHORTEST_ANSWER:
        return None
    (size,) = _SIZE.unpack_from(data)
    return _SHORTEST_ANSWER <= size <= MAX_SOUGHT and find(_correlation_id(data[PREFIX:])) is not None
