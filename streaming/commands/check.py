"""`kipwatch check FILE…`: judge captures without Spark or Java."""

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
from expectations.rules.base.rule import Level, gravity
from streaming.check.evidence import CheckedCapture, write_evidence
from streaming.check.examination import Examination
from streaming.check.recording import showing_progress
from streaming.check.summary import Summary, incomplete, show_summary, show_verdict, summary_of
from streaming.commands.main import path_of
from streaming.feeder.capture_stream import path_text, shown
from streaming.feeder.key_log_files import exposed_key_logs
from streaming.process import forbid_core_dumps, reader_may_leave
from streaming.settings.address import HIGHEST_PORT
from streaming.settings.configuration import Configuration, add_flags, configure
from streaming.settings.decisions import Decisions
from streaming.settings.release import load_schemas
from streaming.user_error import UserError

PASSED, FAILED, INCOMPLETE = 0, 1, 2
NEVER = "never"
SEE = "check the file and --ports, and if it is TLS, --tls-keylog"
"""What to do if there is no frame."""
SETTINGS = ("schemas", "spec", "max_request_bytes", "tls_keylog", "owners", "keep")


class Checked(NamedTuple):
    """The result of a check, and the examination and capture that it sums up."""

    summary: Summary
    examination: Examination
    capture: CheckedCapture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_capture_flags(parser)
    add_report_flags(parser)


def add_report_flags(parser: argparse.ArgumentParser) -> None:
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON object")
    output.add_argument("--jsonl", action="store_true", help="print one JSON object per finding")
    output.add_argument("--quiet", action="store_true", help="print only the verdict, one line")
    output.add_argument(
        "--coverage",
        action="store_true",
        help="also list the rules that had nothing to judge, and what they need",
    )
    parser.add_argument(
        "--junit", type=report_path, metavar="FILE", help="write a JUnit report with one test case per rule"
    )
    parser.add_argument(
        "--evidence",
        type=Path,
        metavar="DIR",
        help="write a small pcap for each finding, from which `check` makes the same finding again",
    )
    add_failing_flags(parser)


def add_failing_flags(parser: argparse.ArgumentParser) -> None:
    """Define the flag that says what fails a build."""
    parser.add_argument(
        "--fail-on",
        choices=[*map(str, Level), NEVER],
        default=str(Level.VIOLATION),
        help="exit 1 if there are findings of this level or a more severe one (default: %(default)s)",
    )


def add_capture_flags(parser: argparse.ArgumentParser, *, without: Sequence[str] = ()) -> None:
    """Define the arguments that name captures, and the flags of reading them but for some settings."""
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="a capture, a folder of rotated ones, or - for standard input",
    )
    parser.add_argument(
        "--ports",
        default="",
        help="broker ports, separated by commas (default: those that accept connections)",
    )
    add_flags(parser, [name for name in SETTINGS if name not in without])


def key_logs_of(configuration: Configuration) -> list[Path]:
    """Return the key logs, with a warning for each that every user can read. Forbids core dumps.

    Dumps are forbidden without a key log, too: a capture may contain secrets (pcapng), and passwords.
    """
    forbid_core_dumps()
    paths = [Path(name) for name in configuration.tls_keylog]
    for line in exposed_key_logs(paths):
        print(f"kipwatch: {line}", file=sys.stderr)
    return paths


def run(arguments: argparse.Namespace) -> int:
    """Judge all files as one capture. Returns 2 if a file is incomplete, 1 if there are failing findings."""
    checked = check(arguments)
    summary = checked.summary
    failing = [found for found in summary.findings if fails(found, arguments.fail_on)]
    # Write files first: the reader of standard output may have gone.
    if arguments.junit:
        _write_junit(arguments.junit, summary, failing)
    if arguments.evidence:
        _write_evidence(arguments.evidence, checked)
    with reader_may_leave():
        _print(summary, arguments)
    problems = list(_problems(summary, arguments.files))
    for problem in problems:
        print(f"kipwatch: {problem}", file=sys.stderr)
    if not (arguments.json or arguments.jsonl):
        with reader_may_leave():
            show_verdict(summary, Console(highlight=False))
    if problems:
        return INCOMPLETE
    return FAILED if failing else PASSED


def parse_ports(text: str) -> list[int]:
    """Parse ports such as `9092,9093`. Raises UserError."""
    ports = [port.strip() for port in text.split(",") if port.strip()]
    if not all(port.isdecimal() and 0 < int(port) <= HIGHEST_PORT for port in ports):
        raise UserError(
            f"--ports must be numbers from 1 to {HIGHEST_PORT}, separated by commas, not {text!r}"
        )
    return [int(port) for port in ports]


def decided(arguments: argparse.Namespace) -> tuple[Configuration, Decisions]:
    """Read the configuration, and the decisions in it. Raises UserError."""
    configuration = configure(arguments, SETTINGS)
    decisions = Decisions(configuration)
    if getattr(arguments, "evidence", None) and decisions.terms.pseudonyms:
        raise UserError('--evidence writes plain frames: leave it out, or write identities = "plain"')
    return configuration, decisions


def check(arguments: argparse.Namespace) -> Checked:
    """Judge captures as the flags of `add_capture_flags` require. Raises UserError."""
    configuration, decisions = decided(arguments)
    schemas, ports = load_schemas(configuration.schemas), parse_ports(arguments.ports)
    capture = CheckedCapture(
        arguments.files,
        schemas,
        ports,
        decisions.terms,
        configuration.max_request_bytes,
        key_logs_of(configuration),
        keeps_principals=configuration.keeps_principals,
    )
    folder = getattr(arguments, "archive", None)
    archive = None
    if folder:
        # Tables of Parquet load pandas, which takes a second.
        from streaming.archive.archive import CaptureArchive  # noqa: PLC0415

        archive = CaptureArchive(folder, schemas.api_names)
    examination = capture.examine(showing_progress(capture.paths), archive)
    return Checked(summary_of(examination, decisions), examination, capture)


def _print(summary: Summary, arguments: argparse.Namespace) -> None:
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
    elif arguments.jsonl:
        for finding in (*summary.findings, *summary.suppressed):
            sys.stdout.write(msgspec.json.encode(finding).decode() + "\n")
    elif not arguments.quiet:
        console = Console(highlight=False)
        show_summary(summary, console, every_rule=arguments.coverage)
        if arguments.coverage:
            # Kafka's client, which the probe's settings need, takes a tenth of a second to load.
            from streaming.probe.duties import unexercised  # noqa: PLC0415

            for line in unexercised(summary.coverage):
                console.print(line, style="dim", markup=False)
            console.print()
        return
    for use in summary.suppressions:
        if use.warning:
            print(f"kipwatch: {use.warning}", file=sys.stderr)


def fails(finding: Finding, least: str) -> bool:
    """Whether a finding has the least level that fails a build, or a more severe one."""
    return least != NEVER and gravity(finding.level) <= gravity(least)


def _write_junit(path: Path, summary: Summary, failing: Sequence[Finding]) -> None:
    others = [finding for finding in summary.findings if finding not in failing]
    others += summary.suppressed
    write_report(path, junit_report(failing, others, summary.coverage, now()))


def now() -> str:
    """Return the present time in the form of JUnit: ISO 8601 in UTC, without a time zone."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def report_path(text: str) -> Path:
    """Read where a report is to be written. The folder must be there: what it is about may take an hour."""
    path = path_of(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"cannot write {text!r}: there is no folder {str(path.parent)!r}")
    return path


def write_report(path: Path, content: bytes) -> None:
    """Write a report. Raises UserError if the file cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _write_evidence(folder: Path, checked: Checked) -> None:
    for finding in write_evidence(folder, checked.capture, checked.examination):
        lacking = f"no small pcap shows {finding.rule} of {finding.client} again"
        print(f"kipwatch: {finding.evidence.source}: {lacking}", file=sys.stderr)


def _problems(summary: Summary, named: Sequence[Path]) -> Iterator[str]:
    """Yield the reasons why the check is incomplete. In a folder, some files may hold no frames."""
    # A file may be named twice, by different paths.
    full = {Path(each.file).resolve() for each in summary.files if each.frames}
    empty = {
        path for path in named if Path(path_text(path)).resolve() not in full and not (full and path.is_dir())
    }
    yield from incomplete([each for each in summary.files if Path(each.file) not in empty], summary.unread)
    has_packets = sum(summary.packets.values()) > 0
    for path in sorted(empty):
        if any(problem.startswith(f"{shown(path)}: ") for problem in summary.unread):
            continue
        if has_packets:
            yield f"{shown(path)}: it holds no Kafka frame; {SEE}"
        else:
            yield f"{shown(path)} is empty: it holds no packet"
