"""A frame as one object: its record, header, body, remarks, and why it could not be decoded."""

from __future__ import annotations

from typing import Any

import msgspec

from decoders.codec.failure import DecodeFailure, Remark
from decoders.codec.request import Request, read_request
from decoders.codec.response import Response, read_response
from decoders.frame.record import Direction, Kind, Pairing, Record
from decoders.schema.registry import Api, Schemas
from expectations.conversation.identifier import identifier_text
from streaming.transcript.client import ConnectedClient

NO_API = -1


class Oddness(msgspec.Struct):
    """A remark or failure: the reason, the field ("" for the whole frame) and the byte, null if unknown."""

    reason: str
    path: str = ""
    offset: int | None = None


class DecodedFrame(msgspec.Struct):
    """One frame of a capture. `decode --jsonl` prints these fields in this order.

    `kind` is `request`, `response` or `sasl_token`; a token has no header and is secret, so its
    `body` holds only sender and length. `captured_at` is in nanoseconds since the epoch. API and version of
    a response are those of its request. A field of the header is null if it could not be read, or the header
    has no such field; `client_id` may also be null on the wire. `body` and `failure` are never both null:
    `failure` says why a body could not be read.
    """

    connection: str
    client: str
    server: str
    kind: str
    sequence: int
    captured_at: int
    api_key: int | None = None
    api: str | None = None
    api_version: int | None = None
    header_version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    client_instance_id: str | None = None
    body: dict[str, Any] | None = None
    remarks: list[Oddness] = []
    failure: Oddness | None = None
    client_software_name: str | None = None
    client_software_version: str | None = None


def decode_frame(schemas: Schemas, record: Record, client: ConnectedClient) -> DecodedFrame | None:
    """Decode the frame that a record holds, and update the client of its connection.

    None for a record that holds no frame: an event of the connection.
    """
    if record.kind is Kind.REQUEST:
        request = read_request(schemas, record.frame, cut=record.is_cut)
        client.update(request)
        fields = _of_request(request, record)
    elif record.kind is Kind.RESPONSE:
        key = NO_API if record.pairing is Pairing.UNKNOWN else record.paired_api_key
        version = record.paired_api_version
        fields = _read(read_response(schemas, record.frame, key, version, cut=record.is_cut), record)
    elif record.kind is Kind.SASL_TOKEN:
        fields = {"body": {"sender": _sender(record), "length": record.true_length}}
    else:
        return None
    return DecodedFrame(
        connection=record.connection.hex(),
        client=str(record.client),
        server=str(record.server),
        kind=record.kind.name.lower(),
        sequence=record.sequence,
        captured_at=record.captured_at,
        client_software_name=client.software_name,
        client_software_version=client.software_version,
        **fields,
    )


def _sender(record: Record) -> str:
    return "broker" if record.direction is Direction.TO_CLIENT else "client"


def _of_request(request: Request, record: Record) -> dict[str, Any]:
    found = request.client_instance_id
    return _read(request, record) | {
        "client_id": request.client_id,
        "client_instance_id": None if found is None else identifier_text(found),
    }


def _read(read: Request | Response, record: Record) -> dict[str, Any]:
    return {
        "api_key": None if read.api_key == NO_API else read.api_key,
        "api": read.api.name if read.api else None,
        "api_version": None if read.api_key == NO_API else read.api_version,
        "header_version": read.header_version,
        "correlation_id": read.correlation_id,
        "body": read.body,
        "remarks": [_remark(remark) for remark in read.remarks],
        "failure": _failure(read, record),
    }


def _remark(remark: Remark) -> Oddness:
    return Oddness(remark.oddity.value, remark.path, remark.offset)


def _failure(read: Request | Response, record: Record) -> Oddness | None:
    if read.failure is not None:
        return _of_codec(read.failure)
    if not read.known:
        return Oddness(_why_unknown(read, read.api))
    return Oddness("cut", "", len(record.frame)) if read.body is None else None


def _of_codec(failure: DecodeFailure) -> Oddness:
    return Oddness(failure.reason.value, failure.path, failure.offset)


def _why_unknown(read: Request | Response, api: Api | None) -> str:
    """Return why the API version of a frame is unknown: the schemas lack it, or its layout is unproven."""
    if read.api_key == NO_API:
        return "unpaired"
    if api is None:
        return "unknown-api"
    return "unproven" if read.api_version in api.versions else "unknown-version"
