"""Detects requests with a wrong header version: they decode only with another one than assigned."""

from __future__ import annotations

from collections.abc import Collection

from decoders.codec.program import compile_message
from decoders.codec.reading import Reading, read_frame
from decoders.schema.registry import Api, Schemas

HEADER_VERSIONS = (1, 2, 3)


def other_header(schemas: Schemas, api: Api, version: int, frame: bytes) -> int | None:
    """Return the only header version with which a whole frame decodes to its last byte.

    Returns None if no version or more than one fits, or if the assigned version fits.
    """
    found = read_with_other_header(schemas, api, version, frame)
    return found[0] if found else None


def read_with_other_header(
    schemas: Schemas, api: Api, version: int, frame: bytes, spans: Collection[str] = ()
) -> tuple[int, Reading] | None:
    """Return the header version that `other_header` finds, and the frame as read with it.

    `spans` are the paths of body fields whose places in the frame are requested.
    """
    body = compile_message(api.request, version)
    readings = {
        candidate: read_frame(frame, compile_message(schemas.request_header, candidate), body, False, spans)
        for candidate in HEADER_VERSIONS
    }
    fitting = [(number, each) for number, each in readings.items() if each.is_exact and not each.remarks]
    is_only = len(fitting) == 1 and fitting[0][0] != api.request_header_version(version)
    return fitting[0] if is_only else None
