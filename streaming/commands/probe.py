"""`kipwatch probe HOST:PORT`: play each duty of a broker with one under test, and judge how it responds.

It is a client for tests and no part of the monitor: it sends requests, some of them wrong on purpose.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import track

from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType
from expectations.judging.finding import Finding
from expectations.report.duties import DutiesReport, DutyReport, DutyState, duties_table, duties_verdict
from expectations.report.junit import junit_duties
from streaming.commands.check import (
    FAILED,
    INCOMPLETE,
    PASSED,
    add_failing_flags,
    fails,
    now,
    report_path,
    write_report,
)
from streaming.probe.connection import Target, security_of
from streaming.probe.duties import DUTIES
from streaming.probe.probing import Probing
from streaming.process import reader_may_leave
from streaming.settings.address import host_and_port
from streaming.settings.confidential import open_save
from streaming.settings.configuration import add_flags, configure
from streaming.settings.decisions import Decisions
from streaming.settings.release import load_schemas

SETTINGS = ("schemas", "spec")
_DECIDED = (DutyState.CONFORMS, DutyState.VIOLATES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="HOST:PORT", help="the broker or proxy under test")
    parser.add_argument(
        "--writes",
        action="store_true",
        help="also ask what changes something: join groups named kipwatch-probe-…, and leave them",
    )
    parser.add_argument(
        "--save",
        type=Path,
        default=Path("kipwatch-probe.pcap"),
        metavar="FILE",
        help="pcap file for the traffic, passwords included, readable by you only (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--junit", type=report_path, metavar="FILE", help="write a JUnit report with one test case per duty"
    )
    add_failing_flags(parser)
    add_flags(parser, SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Probe. Returns 2 if the broker could not be judged, 1 if there are failing findings."""
    configuration = configure(arguments, SETTINGS)
    target = Target(
        load_schemas(configuration.schemas),
        host_and_port(arguments.address),
        security_of(arguments.address, configuration.kafka),
    )
    probing = Probing(target, Decisions(configuration).terms)
    with open_save(arguments.save) as stream:
        try:
            probing.open()
            duties = list(_with_progress(probing.run(DUTIES, writes=arguments.writes)))
        finally:
            writer = PcapWriter(stream, LinkType.ETHERNET)
            for packet in probing.packets:
                writer.write(packet)
    return tell(DutiesReport(arguments.address, str(arguments.save), target.requests, duties), arguments)


def _with_progress(duties: Iterable[DutyReport]) -> Iterable[DutyReport]:
    """Show on a terminal how many duties were asked for: a slow broker takes minutes."""
    console = Console(stderr=True)
    silent = not console.is_terminal
    return track(duties, "asking", len(DUTIES), console=console, transient=True, disable=silent)


def tell(report: DutiesReport, arguments: argparse.Namespace) -> int:
    """Write the reports that the flags ask for. Returns 2 if nothing was judged, 1 if a finding fails."""
    duties = report.duties
    failing = {duty.duty: [found for found in duty.findings if _fails(found, arguments)] for duty in duties}
    if arguments.junit:
        write_report(arguments.junit, junit_duties(duties, failing, now()))
    with reader_may_leave():
        _print(report, as_json=arguments.json)
    if not any(duty.state in _DECIDED for duty in duties):
        return INCOMPLETE
    return FAILED if any(failing.values()) else PASSED


def _fails(finding: Finding, arguments: argparse.Namespace) -> bool:
    return not finding.suppressed and fails(finding, arguments.fail_on)


def _print(report: DutiesReport, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return
    console = Console(highlight=False)
    console.print(duties_table(report.duties))
    verdict = f"{duties_verdict(report.duties)}; {report.requests} requests, saved in {report.saved}"
    console.print(verdict, soft_wrap=True)
