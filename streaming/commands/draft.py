"""`kipwatch draft FOLDER [CAPTURE…]`: what a draft of messages changes, its frames, and whom it touches."""

from __future__ import annotations

import argparse
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from decoders.frame.record import Direction
from decoders.schema.difference import difference
from decoders.schema.lint import lint
from decoders.schema.model import SchemaError
from decoders.schema.registry import Schemas
from decoders.schema.table import base_of, read_folder
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType, Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from expectations.report.draft import DraftReport, ExampleExchange, draft_report
from expectations.report.fleet import ClientUsage
from expectations.report.terminal import counted
from expectations.report.versions import AdvertisingBroker
from streaming.archive.archive_report import archive_among, archived_usage
from streaming.check.examination import examine
from streaming.check.summary import incomplete
from streaming.commands.check import FAILED, PASSED, parse_ports
from streaming.commands.schemas import difference_lines
from streaming.user_error import UserError

_CLIENT, _FIRST_PORT = bytes([192, 0, 2, 1]), 20_000
_BROKER = SocketAddress(bytes([192, 0, 2, 2]), 9092)
_STEP = 1_000_000
"""Nanoseconds between two examples."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the draft: an overlay of message files")
    parser.add_argument(
        "captures",
        nargs="*",
        type=Path,
        metavar="CAPTURE",
        help="traffic, or one archive, to see who is touched",
    )
    parser.add_argument("--ports", default="", help="broker ports in the captures, separated by commas")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the example frames as a pcap")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Report on a draft. Returns 1 if something is wrong with it. Raises UserError if it cannot be read."""
    try:
        faults = lint(arguments.folder)
        for fault in faults:
            print(fault)
        if faults:
            return FAILED
        table = read_folder(arguments.folder)
        found, drafted = difference(base_of(arguments.folder), table), Schemas.of(table)
    except SchemaError as error:
        raise UserError(str(error)) from error
    report = draft_report(found, drafted, *_traffic(arguments, drafted))
    if arguments.save:
        _save(arguments.save, report)
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print("\n".join(_lines(report, seen=bool(arguments.captures))))
    return PASSED


def _traffic(
    arguments: argparse.Namespace, drafted: Schemas
) -> tuple[Sequence[ClientUsage], Sequence[AdvertisingBroker]]:
    """Read who sends what and which versions are advertised, in captures or in one archive."""
    if not arguments.captures:
        return (), ()
    if archive := archive_among(arguments.captures):
        usage = archived_usage(archive)
        return usage.clients, usage.brokers
    examination = examine(arguments.captures, drafted, parse_ports(arguments.ports))
    for line in incomplete(examination.files, examination.unread):
        print(f"kipwatch: {line}", file=sys.stderr)
    return examination.usage, examination.brokers


def _lines(report: DraftReport, *, seen: bool) -> Iterator[str]:
    yield from difference_lines(report.difference)
    yield f"\n{counted(len(report.examples), 'example')}, each a request and its response:"
    for each in report.examples:
        yield f"{each.api} v{each.api_version}\n    {each.request}\n    {each.response}"
    if not seen:
        return
    yield f"\n{counted(len(report.clients), 'client')} would be touched:"
    for client in report.clients:
        requests = (f"{api} {count}" for api, count in client.requests.items())
        yield f"    {client.name}: {', '.join(requests)}"
    yield f"{counted(len(report.brokers), 'broker')} would be touched:"
    for broker in report.brokers:
        versions = (f"{api} {versions}" for api, versions in broker.advertised.items())
        yield f"    {broker.address}: {', '.join(versions)}"


def _save(path: Path, report: DraftReport) -> None:
    """Write the examples as a capture, each on a connection of its own. Raises UserError."""
    begun_at = time.time_ns()
    try:
        with path.open("wb") as stream:
            writer = PcapWriter(stream, LinkType.ETHERNET)
            for number, each in enumerate(report.examples):
                client = SocketAddress(_CLIENT, _FIRST_PORT + number)
                connection = SyntheticConnection(client, _BROKER)
                for packet in _packets(connection, each, begun_at + number * _STEP):
                    writer.write(packet)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _packets(connection: SyntheticConnection, example: ExampleExchange, at: int) -> Iterator[Packet]:
    yield from connection.opened(at)
    directions = Direction.TO_BROKER, Direction.TO_CLIENT
    for direction, text in zip(directions, (example.request, example.response), strict=True):
        frame = bytes.fromhex(text)
        yield from connection.sent(at, direction, struct.pack(">i", len(frame)) + frame)
    for direction in directions:
        yield from connection.finished(at, direction)
