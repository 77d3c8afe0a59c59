"""`kipwatch check FILE…`: judge captures, without Spark and without Java."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console

from decoders.schema.registry import Schemas
from expectations.finding import Finding
from expectations.report.junit import junit_report
from expectations.rule import Level, Rule
from streaming.audience import Audience
from streaming.check_text import show_summary
from streaming.configuration import configure
from streaming.evidence import Source, write_evidence
from streaming.examination import Examination, examine
from streaming.failure import UserError
from streaming.reading_progress import showing_progress
from streaming.readings import add_spec_flag, chosen_rules
from streaming.release import add_schemas_flag, load_schemas
from streaming.summary import Summary, summary_of
from streaming.suppression import Decisions

CLEAN, VIOLATED, INCOMPLETE = 0, 1, 2
NEVER = "never"
_GRAVEST_FIRST = list(Level)


class Checked(NamedTuple):
    """What a check came to, and what it was made with."""

    summary: Summary
    examined: Sequence[tuple[Path, Examination]]
    schemas: Schemas
    ports: Sequence[int]
    rules: Sequence[Rule]


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
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML file with `disable`, `levels`, `[[suppress]]` and `[[listener]]`",
    )
    add_schemas_flag(parser)
    add_spec_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judge all files. Status 2 where one could not be judged whole, 1 where findings are too grave."""
    checked = examine_all(arguments)
    summary = checked.summary
    _print(summary, arguments)
    failing = [found for found in summary.findings if _is_too_grave(found, arguments.fail_on)]
    if arguments.junit:
        _write_junit(arguments.junit, summary, failing)
    if arguments.evidence:
        _write_evidence(arguments.evidence, checked)
    troubles = [f"{path}{trouble}" for path, each in checked.examined if (trouble := _trouble(each))]
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


def examine_all(arguments: argparse.Namespace) -> Checked:
    """Judge all captures as the flags of `add_capture_flags` say. Raises UserError."""
    configuration = configure(argparse.Namespace(config=arguments.config))
    decisions = Decisions(configuration)
    rules = decisions.rules(chosen_rules(arguments.spec))
    schemas = load_schemas(arguments.schemas or configuration.schemas)
    ports = parse_ports(arguments.ports)
    listeners = {each.address: each.name or each.address for each in configuration.listener}
    audience = Audience(rules, schemas.api_names)

    def examined(path: Path) -> Examination:
        through = showing_progress(path)
        return examine(path, schemas, ports, listeners, rules=rules, through=through, audience=audience)

    all_ = [(path, examined(path)) for path in arguments.files]
    findings = [finding for _, examination in all_ for finding in examination.findings]
    ruling = decisions.rule_on(findings, datetime.now(UTC).date())
    return Checked(summary_of(all_, ruling, decisions.disabled), all_, schemas, ports, rules)


def _print(summary: Summary, arguments: argparse.Namespace) -> None:
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
    elif arguments.jsonl:
        for finding in summary.findings:
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
    others += [suppressed.finding for suppressed in summary.suppressed]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    try:
        path.write_bytes(junit_report(failing, others, summary.coverage, now))
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _write_evidence(folder: Path, checked: Checked) -> None:
    for path, examination in checked.examined:
        source = Source(path, checked.schemas, checked.ports, checked.rules)
        for finding in write_evidence(folder, source, examination):
            lacking = f"no pcap by itself gives {finding.rule} of {finding.client} again"
            print(f"kipwatch: {path}: {lacking}", file=sys.stderr)


def _trouble(examination: Examination) -> str:
    """Say why the judgement is not one of the whole file; "" where it is."""
    if not examination.frames:
        return ": no Kafka frame is in it; check the file and --ports"
    return " ends inside a packet; what is whole was read" if examination.truncated else ""
