"""Whether a request expects a response: all do, but a Produce with acks 0."""

from __future__ import annotations

import functools
import struct
from dataclasses import replace
from typing import Final

from decoders.codec.failure import DecodeFailure
from decoders.codec.program import Program, compile_message
from decoders.codec.reader import Reader
from decoders.codec.request import read_request
from decoders.protocol import PRODUCE
from decoders.schema.model import Message
from decoders.schema.registry import Api, Schemas

_LEAD: Final = struct.Struct(">hh")


def expects_response(schemas: Schemas, frame: bytes) -> bool | None:
    """Return whether a request frame, whole or cut, expects a response.

    None if that is unknown: the frame has no API key, or is a Produce that cannot be read up to its acks. A
    Produce is read no further than that. Only one of a version that the KIP-1313 overlay alone has is read
    whole, to prove its layout.
    """
    if len(frame) < _LEAD.size:
        return None
    key, version = _LEAD.unpack_from(frame)
    if key != PRODUCE:
        return True
    api = schemas.api(key)
    if api is None or version not in api.versions:
        return None
    header = _proven_header(schemas, frame) if api.is_overlay(version) else schemas.request_header
    acks = _acks(header, api, version, frame) if header else None
    return None if acks is None else acks != 0


def _proven_header(schemas: Schemas, frame: bytes) -> Message | None:
    readings = (read_request(schemas, frame, cut=cut) for cut in (False, True))
    layout = next((reading.layout for reading in readings if reading.known), None)
    return schemas.request_headers[layout] if layout else None


def _acks(header: Message, api: Api, version: int, frame: bytes) -> int | None:
    reader = Reader(frame)
    try:
        reader.fill(compile_message(header, api.request_header_version(version)), {})
        acks = reader.fill(_up_to_acks(api, version), {})["acks"]
    except DecodeFailure:
        return None
    return int(acks)


@functools.cache
def _up_to_acks(api: Api, version: int) -> Program:
    program = compile_message(api.request, version)
    names = [instruction.name for instruction in program.fields]
    leading = program.fields[: names.index("acks") + 1]
    return replace(program, fields=leading, flexible=False)
