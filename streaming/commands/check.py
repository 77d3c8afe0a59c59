"""`kipwatch check FILE…`: judge captures, without Spark and without Java."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console

from expectations.judging.finding import Finding
from expectations.report.junit import junit_report
from expectations.rules.base.rule import Level
from streaming.check.evidence import Source, write_evidence
from streaming.check.examination import Examination, examine
from streaming.check.reading_progress import showing_progress
from streaming.check.summary import Summary, summary_of
from streaming.check.text import show_summary
from streaming.settings.configuration import add_flags, configure
from streaming.settings.decisions import Decisions
from streaming.settings.release import load_schemas
from streaming.user_error import UserError

CLEAN, VIOLATED, INCOMPLETE = 0, 1, 2
NEVER = "never"
SETTINGS = ("schemas", "spec", "max_request_bytes")
_GRAVEST_FIRST = list(Level)


class Checked(NamedTuple):
    """What a check came to, and what it was made of."""

    summary: Summary
    examination: Examination
    source: Source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_capture_flags(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON object")
    output.add_argument("--jsonl", action="store_true", help="print one JSON object a finding")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit report: a test case a rule")
    parser.add_argument(
        "--evidence",
        type=Path,
        metavar="DIR",
        help="write a small pcap for each finding, which gives the same finding when it is checked by itself",
    )
    parser.add_argument(
        "--fail-on",
        choices=[*map(str, Level), NEVER],
        default=str(Level.VIOLATION),
        help="the least grave level that makes the exit status 1 (default: %(default)s)",
    )


def add_capture_flags(parser: argparse.ArgumentParser) -> None:
    """Declare what names captures and says how to read them."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a capture, or a folder of rotated ones"
    )
    parser.add_argument(
        "--ports", default="", help="broker ports, separated by commas (default: whoever accepts)"
    )
    add_flags(parser, SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Judge all files as one capture. Status 2 where one is not whole, 1 where findings are too grave."""
    checked = check(arguments)
    summary = checked.summary
    _print(summary, arguments)
    failing = [found for found in summary.findings if _is_too_grave(found, arguments.fail_on)]
    if arguments.junit:
        _write_junit(arguments.junit, summary, failing)
    if arguments.evidence:
        _write_evidence(arguments.evidence, checked)
    troubles = list(_troubles(summary, arguments.files))
    for trouble in troubles:
        print(f"kipwatch: {trouble}", file=sys.stderr)
    if troubles:
        return INCOMPLETE
    return VIOLATED if failing else CLEAN


def parse_ports(text: str) -> list[int]:
    """Read `9092,9093`. Raises UserError."""
    try:
        return [int(port) for port in text.split(",") if port.strip()]
    except ValueError:
        raise UserError(f"--ports takes port numbers separated by commas, not {text!r}") from None


def check(arguments: argparse.Namespace) -> Checked:
    """Judge captures as the flags of `add_capture_flags` say. Raises UserError."""
    settings = {name: getattr(arguments, name) for name in ("config", *SETTINGS)}
    configuration = configure(argparse.Namespace(**settings))
    decisions = Decisions(configuration)
    schemas, ports = load_schemas(configuration.schemas), parse_ports(arguments.ports)
    source = Source(arguments.files, schemas, ports, decisions.terms, configuration.max_request_bytes)
    examination = examine(*source, through=showing_progress(source.paths))
    return Checked(summary_of(examination, decisions), examination, source)


def _print(summary: Summary, arguments: argparse.Namespace) -> None:
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
    elif arguments.jsonl:
        for finding in (*summary.findings, *summary.suppressed):
            sys.stdout.write(msgspec.json.encode(finding).decode() + "\n")
    else:
        show_summary(summary, Console(highlight=False))
        return
    for use in summary.suppressions:
        if use.complaint:
            print(f"kipwatch: {use.complaint}", file=sys.stderr)


def _is_too_grave(finding: Finding, least: str) -> bool:
    return least != NEVER and _GRAVEST_FIRST.index(Level(finding.level)) <= _GRAVEST_FIRST.index(Level(least))


def _write_junit(path: Path, summary: Summary, failing: Sequence[Finding]) -> None:
    others = [finding for finding in summary.findings if finding not in failing]
    others += summary.suppressed
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    try:
        path.write_bytes(junit_report(failing, others, summary.coverage, now))
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _write_evidence(folder: Path, checked: Checked) -> None:
    for finding in write_evidence(folder, checked.source, checked.examination):
        lacking = f"no pcap by itself gives {finding.rule} of {finding.client} again"
        print(f"kipwatch: {finding.evidence.source}: {lacking}", file=sys.stderr)


def _troubles(summary: Summary, named: Sequence[Path]) -> Iterator[str]:
    """Say why the judgement is not one of all that was named. Of a folder, some files may be quiet."""
    silent = {path for path in named if not path.is_dir()} if summary.frames else set(named)
    silent -= {Path(each.file) for each in summary.files if each.frames}
    for path in sorted(silent):
        yield f"{path}: no Kafka frame is in it; check the file and --ports"
    for each in summary.files:
        if each.truncated and Path(each.file) not in silent:
            yield f"{each.file} ends inside a packet; what is whole was read"
