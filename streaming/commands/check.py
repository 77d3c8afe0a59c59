"""`kipwatch check FILE…`: judge captures, without Spark and without Java."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from decoders.schema.registry import Schemas
from expectations.report.tables import coverage_table, findings_list
from streaming.examination import Examination, examine
from streaming.failure import UserError

CLEAN, VIOLATED, INCOMPLETE = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="pcap file")
    parser.add_argument(
        "--ports", default="", help="broker ports, separated by commas (default: whoever accepts)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a file")


def run(arguments: argparse.Namespace) -> int:
    """Judge each file. The worst status of all files is the status."""
    ports = parse_ports(arguments.ports)
    schemas = Schemas.load()
    return max(_check(path, schemas, ports, as_json=arguments.json) for path in arguments.files)


def parse_ports(text: str) -> list[int]:
    """Read `9092,9093`. Raises UserError."""
    try:
        return [int(port) for port in text.split(",") if port.strip()]
    except ValueError:
        raise UserError(f"--ports takes port numbers separated by commas, not {text!r}") from None


def _check(path: Path, schemas: Schemas, ports: list[int], as_json: bool) -> int:
    examination = examine(path, schemas, ports)
    if as_json:
        sys.stdout.write(msgspec.json.encode(examination).decode() + "\n")
    else:
        _show(path, examination, Console())
    trouble = _trouble(examination)
    if trouble:
        print(f"kipwatch: {path}{trouble}", file=sys.stderr)
        return INCOMPLETE
    return VIOLATED if examination.violates else CLEAN


def _trouble(examination: Examination) -> str:
    """Say why the judgement is not one of the whole file; "" where it is."""
    if not examination.frames:
        return ": no Kafka frame could be judged; check the file and --ports"
    return " ends inside a packet; what is whole was judged" if examination.truncated else ""


def _show(path: Path, examination: Examination, console: Console) -> None:
    counts = (
        f"{examination.frames} frames on {examination.connections} connections, "
        f"{len(examination.findings)} findings"
    )
    console.print(f"[bold]{escape(str(path))}[/]: {counts}", soft_wrap=True)
    if examination.findings:
        console.print(findings_list(examination.findings))
    console.print()
    console.print(coverage_table(examination.coverage))
    fates = ", ".join(f"{fate} {count}" for fate, count in examination.ledger.items())
    console.print(f"\n[dim]bytes: {fates}[/]", soft_wrap=True)
    if examination.undecodable:
        reasons = ", ".join(f"{reason} {count}" for reason, count in examination.undecodable.items())
        console.print(f"[dim]frames not decoded: {reasons}[/]", soft_wrap=True)
