"""Compiled: tells whether a request expects a response. All do, except a Produce with acks 0.

It knows the layouts of released versions. A Produce of any other version is undecided and left to the scalar
form, `expects_response` of `codec/request.py`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import DecodedFrames
from decoders.codec.program import compile_message
from decoders.compilation import compiled, inlined
from decoders.memory import int16, wide
from decoders.protocol import PRODUCE, REQUEST_LEAD
from decoders.schema.registry import Api, Schemas

UNDECIDED: Final = -1
"""Only the scalar form can decide; it may have to read the whole request."""
UNKNOWN_LAYOUT: Final = 0
PLAIN: Final = 1
"""acks follows the client ID and the transactional ID."""
FLEXIBLE: Final = 2
"""acks follows the client ID, the header's tagged fields and the transactional ID, a compact string."""

_HEADER: Final = ["requestApiKey", "requestApiVersion", "correlationId", "clientId"]


def produce_layouts(schemas: Schemas) -> NDArray[np.int64]:
    """Return the layout (int64) of every version of Produce from 0 on."""
    api = schemas.api(PRODUCE)
    if api is None or api.release_versions is None:
        return np.zeros(1, np.int64)
    versions = range(api.release_versions.highest + 1)
    return np.array([_layout(schemas, api, version) for version in versions], np.int64)


def _layout(schemas: Schemas, api: Api, version: int) -> int:
    header = compile_message(schemas.request_header, api.request_header_version(version))
    if version not in api.versions or [field.name for field in header.fields] != _HEADER:
        return UNKNOWN_LAYOUT
    body = compile_message(api.request, version)
    names = [field.name for field in body.fields]
    if names[:2] != ["transactionalId", "acks"] or body.flexible != header.flexible:
        return UNKNOWN_LAYOUT
    return FLEXIBLE if body.flexible else PLAIN


def expected_responses(decoded: DecodedFrames, layouts: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return for each frame whether it expects a response: 0 or 1, or UNDECIDED; 1 for a response itself."""
    frames = decoded.frames
    (produces,) = np.nonzero(frames.is_request & (decoded.heads["api_key"] == PRODUCE))
    begins, decided = frames.begins[produces], np.empty(len(produces), np.int8)
    _decide(frames.data, begins, begins + frames.lengths[produces], layouts, decided)
    expected = np.ones(len(frames), np.int8)
    expected[produces] = decided
    return expected


@compiled(None)
def _decide(data: Any, begins: Any, ends: Any, layouts: Any, decided: Any) -> None:
    for number in range(len(begins)):
        if ends[number] - begins[number] < REQUEST_LEAD:
            decided[number] = UNDECIDED
        else:
            decided[number] = expects_response(data, begins[number], ends[number], layouts)


@inlined
def expects_response(data: Any, start: Any, end: Any, layouts: Any) -> Any:
    """Return whether the request at `data[start:end]` expects a response: 0 or 1, or UNDECIDED.

    The request has at least the REQUEST_LEAD bytes up to and including its correlation ID.
    """
    if int16(data, start) != PRODUCE:
        return 1
    version = wide(int16(data, start + 2))
    layout = layouts[version] if 0 <= version < len(layouts) else UNKNOWN_LAYOUT
    place = _place_of_acks(data, start + REQUEST_LEAD, end, layout)
    return UNDECIDED if place < 0 else int(int16(data, place) != 0)


@inlined
def _place_of_acks(data: Any, at: Any, end: Any, layout: Any) -> Any:
    """Return the offset of acks; -1 if it is not where the layout says, or is not in the bytes."""
    if layout == UNKNOWN_LAYOUT or at + 2 > end:
        return -1
    at += 2 + max(0, wide(int16(data, at)))
    if at + 2 > end:
        return -1
    if layout == FLEXIBLE:
        # No tagged fields, and a transactional ID whose length takes one byte.
        if data[at] != 0 or data[at + 1] > 0x7F:
            return -1
        at += 2 + max(0, wide(data[at + 1]) - 1)
    else:
        at += 2 + max(0, wide(int16(data, at)))
    return at if at + 2 <= end else -1
