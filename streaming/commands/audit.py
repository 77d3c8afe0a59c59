"""`kipwatch audit`: validate the frames topic or an archive with the Great Expectations suites."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Console

from streaming.commands.check import FAILED, INCOMPLETE, PASSED, now, report_path, write_report
from streaming.process import reader_may_leave
from streaming.settings.configuration import Configuration, add_flags, configure
from streaming.settings.release import load_schemas
from streaming.user_error import UserError

if TYPE_CHECKING:
    from expectations.suites.suite import SuiteResult

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?)?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--records",
        type=int,
        default=10_000,
        help="maximum number of latest frames to read, without a range (default: 10000)",
    )
    parser.add_argument(
        "--archive",
        dest="folder",
        type=Path,
        metavar="FOLDER",
        help="audit the tables of an archive instead of the topic",
    )
    parser.add_argument(
        "--suite",
        type=Path,
        metavar="PATH",
        help="validate the archive by policies of your own: a suite of Great Expectations, or a folder",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="first day of the archive, such as 2026-06-21; or audit the topic from that day or time on, "
        "such as 2026-06-21T14:30 (UTC), in Spark",
    )
    parser.add_argument(
        "--until", metavar="TIME", help="last day of the archive, or time before which the topic is audited"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--junit", type=report_path, metavar="FILE", help="write a JUnit report, a test case an expectation"
    )
    parser.add_argument("--html", type=report_path, metavar="FILE", help="write the results as an HTML page")
    add_flags(parser, ["bootstrap", "frames_topic", "schemas"])


def run(arguments: argparse.Namespace) -> int:
    """Audit, and show the result of each expectation. Returns 1 if one does not hold."""
    configuration = configure(arguments)
    if arguments.suite is not None and arguments.folder is None:
        raise UserError("--suite judges the tables of an archive: name it with --archive")
    if arguments.records < 1:
        raise UserError("--records must be a number above 0")
    _refuse_range(arguments)
    results = _audit(arguments, configuration)
    source = str(arguments.folder or f"{configuration.frames_topic} at {configuration.bootstrap}")
    with reader_may_leave():
        _write(results, source, arguments)
    if not any(result.rows for result in results):
        print(f"kipwatch: nothing was audited: {source} has no row in this time", file=sys.stderr)
        return INCOMPLETE
    return PASSED if all(result.success for result in results) else FAILED


def _refuse_range(arguments: argparse.Namespace) -> None:
    for flag, time in (("--since", arguments.since), ("--until", arguments.until)):
        if time is not None and arguments.folder is not None and not _DAY.fullmatch(time):
            raise UserError(f"{flag} must be a day of the archive such as 2026-06-21, not {time!r}")
        if time is not None and (not _TIME.fullmatch(time) or _moment(time) is None):
            raise UserError(f"{flag} must be a day or time such as 2026-06-21T14:30, not {time!r}")
    since, until = _moment(arguments.since), _moment(arguments.until)
    if arguments.folder is None and since and until and since >= until:
        raise UserError(f"--until {arguments.until} must be later than --since {arguments.since}")


def _moment(time: str | None) -> datetime | None:
    """Return a time in UTC, None if the calendar has no such time."""
    try:
        return datetime.fromisoformat(time).replace(tzinfo=UTC) if time else None
    except ValueError:
        return None


def _audit(arguments: argparse.Namespace, configuration: Configuration) -> Sequence[SuiteResult]:
    # Great Expectations takes seconds to load.
    if arguments.folder is not None:
        from streaming.audit.audit import Days, audit_archive, policies_of  # noqa: PLC0415

        days = Days(arguments.since, arguments.until)
        policies = policies_of(arguments.suite) if arguments.suite else []
        results = audit_archive(arguments.folder, days, load_schemas(configuration.schemas), policies)
        if results is not None:
            return results
        _demand_spark(f"{arguments.folder} is too large for one process: name fewer days, or install Spark")
        from streaming.large_audit import audit_large_archive  # noqa: PLC0415

        return audit_large_archive(configuration, arguments.folder, days, arguments.suite)
    if arguments.since or arguments.until:
        _demand_spark("a range of the topic is read by Spark")
        from streaming.large_audit import PublishedRange, audit_range  # noqa: PLC0415

        return audit_range(configuration, PublishedRange(_moment(arguments.since), _moment(arguments.until)))
    from streaming.audit.audit import audit  # noqa: PLC0415

    topic, schemas = configuration.frames_topic, load_schemas(configuration.schemas)
    return audit(configuration.bootstrap, topic, arguments.records, configuration.kafka, schemas)


def _demand_spark(reason: str) -> None:
    if find_spec("pyspark") is None:
        raise UserError(f"{reason}: pip install 'kipwatch[audit,run]'")


def _write(results: Sequence[SuiteResult], source: str, arguments: argparse.Namespace) -> None:
    from expectations.suites.suite import audit_page, junit_suites  # noqa: PLC0415
    from streaming.audit.audit import audit_table  # noqa: PLC0415

    if arguments.junit:
        write_report(arguments.junit, junit_suites(results, now()))
    if arguments.html:
        write_report(arguments.html, audit_page(results, source, now()).encode())
    if arguments.json:
        sys.stdout.write(msgspec.json.encode({"source": source, "results": results}).decode() + "\n")
        return
    console = Console()
    for result in results:
        if len(results) > 1:
            console.print(f"[bold]{result.table}[/], {result.rows} rows")
        console.print(audit_table(result))
        for outcome in result.outcomes:
            if not outcome.success:
                console.print(f"[red]{outcome.id}[/]: {outcome.meaning} {outcome.action}")
