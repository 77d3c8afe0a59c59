"""Detects requests with a wrong header version: they decode only with another one than assigned."""

from __future__ import annotations

from decoders.codec.program import Program, compile_message
from decoders.codec.reading import read_frame
from decoders.schema.registry import Api, Schemas

HEADER_VERSIONS = (1, 2, 3)


def other_header(schemas: Schemas, api: Api, version: int, frame: bytes) -> int | None:
    """Return the only header version with which a whole frame decodes to its last byte.

    Returns None if no version or more than one fits, or if the assigned version fits.
    """
    body = compile_message(api.request, version)
    fitting = [candidate for candidate in HEADER_VERSIONS if _fits(_header(schemas, candidate), body, frame)]
    assigned = api.request_header_version(version)
    return fitting[0] if len(fitting) == 1 and fitting != [assigned] else None


def _header(schemas: Schemas, version: int) -> Program:
    return compile_message(schemas.request_header, version)


def _fits(header: Program, body: Program, frame: bytes) -> bool:
    reading = read_frame(frame, header, body, cut=False, spans=())
    return reading.is_exact and not reading.remarks
