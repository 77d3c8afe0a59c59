"""`kipwatch decode FILE`: show every frame of a capture, or where the bytes of each connection went."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from decoders.frame.record import Record
from decoders.schema.registry import Schemas
from decoders.tls.key_log import KeyLog
from expectations.conversation.texts import identifier_bytes
from streaming.check.examination import records_of
from streaming.commands.check import SEE, key_logs_of, parse_ports
from streaming.feeder.capture_stream import shown
from streaming.feeder.key_log_files import read_key_logs
from streaming.feeder.source import open_capture, run_of_file
from streaming.settings.configuration import add_flags, configure
from streaming.settings.release import load_schemas
from streaming.transcript.frame import (
    ConnectedClient,
    ConnectedClients,
    DecodedFrame,
    Shows,
    connections_of,
    decode_frame,
    hide_secrets,
    shows_group,
    shows_instance,
)
from streaming.transcript.text import accounts, event_line, frame_lines
from streaming.user_error import UserError, did_you_mean

SETTINGS = ("schemas", "max_request_bytes", "tls_keylog")
Entry = tuple[Record, ConnectedClient, DecodedFrame | None]
"""A record, the client of its connection, and the frame it holds, if any."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a capture, a folder of rotated ones, or - for standard input",
    )
    parser.add_argument(
        "--ports",
        default="",
        help="broker ports, separated by commas (default: those that accept connections)",
    )
    parser.add_argument(
        "--jsonl",
        action="store_true",
        help="print one JSON object per frame, or per connection with --ledger",
    )
    parser.add_argument(
        "--ledger",
        action="store_true",
        help="show the bytes of each connection by fate instead of its frames",
    )
    parser.add_argument("--api", help="only frames of this API (name or key)")
    parser.add_argument("--client-id", help="only frames of clients with this client ID, responses included")
    parser.add_argument(
        "--instance-id",
        metavar="ID",
        help="only connections that show this client instance ID: in headers, telemetry, or as a member ID",
    )
    parser.add_argument("--group", metavar="ID", help="only connections that name this group")
    parser.add_argument(
        "--kind", choices=["request", "response", "sasl_token"], help="only frames of this kind"
    )
    parser.add_argument(
        "--show-secrets",
        action="store_true",
        help="show passwords, tokens, keys and configuration values, which are hidden otherwise",
    )
    add_flags(parser, SETTINGS)


class _Capture(NamedTuple):
    """A file, and how to read it."""

    path: Path
    ports: list[int]
    max_frame: int
    key_log: KeyLog


def run(arguments: argparse.Namespace) -> int:
    """Print frames or byte accounts. Raises UserError if frames are wanted and the capture has none."""
    configuration = configure(arguments, SETTINGS)
    schemas = load_schemas(configuration.schemas)
    if arguments.show_secrets:
        print("kipwatch: the output may hold passwords and tokens: do not share it", file=sys.stderr)
    show = _show_ledger if arguments.ledger else _show_frames
    key_log = read_key_logs(key_logs_of(configuration))
    ports = parse_ports(arguments.ports)
    show(arguments, schemas, _Capture(arguments.file, ports, configuration.max_request_bytes, key_log))
    return 0


def _show_ledger(arguments: argparse.Namespace, schemas: Schemas, capture: _Capture) -> None:
    if _chooses_frames(arguments) or _followed(arguments):
        raise UserError(
            "--ledger shows all connections: leave --api, --client-id, --instance-id, --group and --kind out"
        )
    path, ports, max_frame, key_log = capture
    with open_capture(path, key_log) as packets:
        for account in accounts(schemas, packets.batches(), ports, max_frame, key_log):
            line = msgspec.json.encode(account).decode() if arguments.jsonl else account.line
            sys.stdout.write(f"{line}\n")


def _show_frames(arguments: argparse.Namespace, schemas: Schemas, capture: _Capture) -> None:
    is_wanted = _filter(arguments, schemas, _connections(arguments, schemas, capture))
    write = (
        _write_object if arguments.jsonl else _writer_of_text(schemas, events=not _chooses_frames(arguments))
    )
    found = shows = False
    for entry in _entries(schemas, capture):
        found = found or entry[2] is not None
        if is_wanted(entry):
            shows = True
            if entry[2] is not None and not arguments.show_secrets:
                hide_secrets(schemas, entry[2])
            write(entry)
    if not found:
        raise UserError(f"{shown(arguments.file)}: it holds no Kafka frame; {SEE}")
    if not shows:
        print("kipwatch: no frame is one that the flags choose", file=sys.stderr)


def _entries(schemas: Schemas, capture: _Capture) -> Iterator[Entry]:
    clients, (path, ports, max_frame, key_log) = ConnectedClients(), capture
    with open_capture(path, key_log) as packets:
        records = records_of(schemas, packets, ports, run_of_file(path), max_frame, key_log=key_log)
        for record in records:
            client = clients.of(record)
            yield record, client, decode_frame(schemas, record, client)


def _followed(arguments: argparse.Namespace) -> list[Shows]:
    """Return the identifiers to follow. Raises UserError for an ID that is no UUID."""
    followed = []
    if arguments.instance_id is not None:
        identifier = identifier_bytes(arguments.instance_id)
        if identifier is None:
            raise UserError(
                f"--instance-id must be a UUID, as Kafka writes it or in hex, not {arguments.instance_id!r}"
            )
        followed.append(shows_instance(identifier))
    if arguments.group is not None:
        followed.append(shows_group(arguments.group))
    return followed


def _connections(arguments: argparse.Namespace, schemas: Schemas, capture: _Capture) -> set[str] | None:
    """Find the connections that show what is followed; None if nothing is followed."""
    followed = _followed(arguments)
    if not followed:
        return None
    return connections_of((frame for _, _, frame in _entries(schemas, capture) if frame), *followed)


def _chooses_frames(arguments: argparse.Namespace) -> bool:
    """Whether flags choose frames. Beginnings and ends of connections are hidden then."""
    return bool(arguments.api or arguments.kind or arguments.client_id is not None)


def _filter(
    arguments: argparse.Namespace, schemas: Schemas, connections: set[str] | None
) -> Callable[[Entry], bool]:
    """Whether to show a record. `connections` are the followed ones, None for all."""
    wanted = {"api_key": _api_key(schemas, arguments.api), "kind": arguments.kind}
    given = {name: value for name, value in wanted.items() if value is not None}
    client_id = arguments.client_id

    def is_wanted(entry: Entry) -> bool:
        record, client, frame = entry
        if connections is not None and record.connection.hex() not in connections:
            return False
        return client_id in (None, client.client_id) and all(
            getattr(frame, name, None) == value for name, value in given.items()
        )

    return is_wanted


def _api_key(schemas: Schemas, text: str | None) -> int | None:
    if text is None or text.isdecimal():
        return text if text is None else int(text)
    api = schemas.api_named(text)
    if api is None:
        hint = did_you_mean(text, schemas.api_names.values(), "see `kipwatch schemas`")
        raise UserError(f"there is no API {text!r}; {hint}")
    return api.key


def _write_object(entry: Entry) -> None:
    frame = entry[2]
    if frame is not None:
        sys.stdout.write(msgspec.json.encode(frame).decode() + "\n")


def _writer_of_text(schemas: Schemas, *, events: bool) -> Callable[[Entry], None]:
    names = schemas.api_names

    def write(entry: Entry) -> None:
        record, _, frame = entry
        if frame is not None:
            sys.stdout.writelines(f"{line}\n" for line in frame_lines(frame, names))
        elif events and (line := event_line(record)):
            sys.stdout.write(f"{line}\n")

    return write
