"""`kipwatch decode FILE`: show every frame of a capture, whole, in the order of the wire."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from decoders.codec.request import Request, read_request
from decoders.codec.response import Response, read_response
from decoders.frame.record import Direction, Kind, Record
from decoders.schema.registry import Schemas
from expectations.conversation.identifier import identifier_text
from expectations.finding import printable
from streaming.commands.check import parse_ports
from streaming.examination import records_of
from streaming.failure import UserError
from streaming.feeder.source import open_capture, run_of_file

_HEADER_FIELDS = (
    "api_key",
    "api",
    "api_version",
    "header_version",
    "correlation_id",
    "client_id",
    "client_instance_id",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("file", type=Path, metavar="FILE", help="pcap file")
    parser.add_argument(
        "--ports", default="", help="broker ports, separated by commas (default: whoever accepts)"
    )
    parser.add_argument("--jsonl", action="store_true", help="print one JSON object a frame")
    parser.add_argument("--api", help="only this API, by name")
    parser.add_argument(
        "--kind", choices=["request", "response", "sasl_token"], help="only frames of this kind"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the frames that are asked for. Raises UserError when the file holds none at all."""
    schemas = Schemas.load()
    if arguments.api and schemas.api_named(arguments.api) is None:
        raise UserError(f"there is no API {arguments.api!r}; names are written as in `ApiVersions`")
    show = json.dumps if arguments.jsonl else _line
    frame = None
    for frame in _frames(schemas, arguments.file, parse_ports(arguments.ports)):
        if arguments.api in (None, frame["api"]) and arguments.kind in (None, frame["kind"]):
            sys.stdout.write(show(frame) + "\n")
    if frame is None:
        raise UserError(f"{arguments.file}: no Kafka frame is in it; check the file and --ports")
    return 0


def _frames(schemas: Schemas, path: Path, ports: list[int]) -> Iterator[dict[str, Any]]:
    with open_capture(path) as packets:
        records, _ = records_of(schemas, packets, ports, run_of_file(path))
        for record in records:
            if record.kind in _CONTENTS:
                yield {**_envelope(record), **_CONTENTS[record.kind](schemas, record)}


def _envelope(record: Record) -> dict[str, Any]:
    return {
        "connection": record.connection.hex(),
        "client": str(record.client),
        "server": str(record.server),
        "kind": record.kind.name.lower(),
        "sequence": record.sequence,
        "captured_at": record.captured_at,
    }


def _request(schemas: Schemas, record: Record) -> dict[str, Any]:
    request = read_request(schemas, record.frame, cut=record.is_cut)
    instance_id = request.client_instance_id
    return _described(request) | {
        "client_id": request.client_id,
        "client_instance_id": identifier_text(instance_id) if instance_id else None,
    }


def _response(schemas: Schemas, record: Record) -> dict[str, Any]:
    key, version = record.paired_api_key, record.paired_api_version
    return _described(read_response(schemas, record.frame, key, version, cut=record.is_cut))


def _described(read: Request | Response) -> dict[str, Any]:
    """What requests and responses have alike; the fields that only requests have are null."""
    return {
        "api_key": read.api_key,
        "api": read.api.name if read.api else None,
        "api_version": read.api_version,
        "header_version": read.header_version,
        "correlation_id": read.correlation_id,
        "client_id": None,
        "client_instance_id": None,
        "body": read.body,
        "remarks": [str(remark) for remark in read.remarks],
        "failure": str(read.failure) if read.failure else None,
    }


def _token(_schemas: Schemas, record: Record) -> dict[str, Any]:
    """A raw SASL token has no header, and its bytes are a secret: only its sender and length are told."""
    sender = "broker" if record.direction is Direction.TO_CLIENT else "client"
    told: dict[str, Any] = dict.fromkeys(_HEADER_FIELDS)
    return told | {"body": {"sender": sender, "length": record.true_length}, "remarks": [], "failure": None}


_CONTENTS: dict[Kind, Callable[[Schemas, Record], dict[str, Any]]] = {
    Kind.REQUEST: _request,
    Kind.RESPONSE: _response,
    Kind.SASL_TOKEN: _token,
}


def _line(frame: dict[str, Any]) -> str:
    body, is_token = frame["body"], frame["kind"] == "sasl_token"
    from_broker = body["sender"] == "broker" if is_token else frame["kind"] == "response"
    arrow = "←" if from_broker else "→"
    what = "SASL token" if is_token else f"{frame['api'] or frame['api_key']} v{frame['api_version']}"
    header = f"h{frame['header_version']}" if frame["header_version"] is not None else "  "
    names = " ".join(
        f"{name}={printable(frame[name])}"
        for name in ("client_id", "client_instance_id")
        if frame[name] is not None
    )
    told = frame["failure"] or json.dumps(body)
    return (
        f"{frame['sequence']:>6} {frame['client']} {arrow} {frame['server']}  "
        f"{what:<28} {header} #{frame['correlation_id']} {names} {told}"
    )
