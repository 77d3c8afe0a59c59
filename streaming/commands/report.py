"""`kipwatch report FILE…`: client software by rule, or brokers' versions, as text, JSON or an HTML page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from decoders.schema.registry import Schemas, default_schemas
from expectations.conversation.texts import printable
from expectations.report.history_page import History, history_page
from expectations.report.junit import junit_upgrade
from expectations.report.matrix import fleet_facts, fleet_matrix, versions_tables
from expectations.report.page import fleet_page
from expectations.report.terminal import counted, upgrade_list, upgrade_summary
from expectations.report.upgrade import UpgradeReport, upgrade_report
from expectations.report.versions import FeatureMap, VersionsView, versions_view
from streaming.archive.archive_report import archive_among, archived_history, archived_usage, show_archive
from streaming.archive.batch_files import missing_siblings, readable
from streaming.check.summary import Summary, frame_counts, incomplete
from streaming.commands.check import (
    FAILED,
    INCOMPLETE,
    PASSED,
    SEE,
    add_capture_flags,
    check,
    now,
    report_path,
    write_report,
)
from streaming.feeder.capture_stream import path_text
from streaming.process import reader_may_leave
from streaming.settings.configuration import configure
from streaming.settings.release import RELEASE_HELP, load_schemas
from streaming.user_error import UserError, did_you_mean

NAMED = 3
"""How many missing files of an archive to name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_capture_flags(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--html",
        type=report_path,
        metavar="FILE",
        help="write the report as an HTML page; that of an archive is by week",
    )
    parser.add_argument(
        "--versions",
        action="store_true",
        help="show the versions that each broker advertises, and those common to all",
    )
    parser.add_argument(
        "--features",
        type=Path,
        metavar="FILE",
        help="TOML file of features by API and lowest version, such as `share-groups = {76 = 1, 78 = 1}`",
    )
    parser.add_argument(
        "--upgrade-to",
        metavar="RELEASE",
        help=f"show which clients break if the brokers are upgraded, and exit 1 if any does; {RELEASE_HELP}",
    )
    parser.add_argument(
        "--from",
        dest="since",
        metavar="RELEASE",
        help="the release that the brokers run now: what it refuses, too, is left out",
    )
    parser.add_argument(
        "--junit",
        type=report_path,
        metavar="FILE",
        help="write the upgrade as a JUnit report, a test case a client",
    )
    parser.add_argument(
        "--archive", metavar="FOLDER", help="write what the captures hold as Parquet tables, as `run` does"
    )


def run(arguments: argparse.Namespace) -> int:
    """Judge the captures, or read an archive, and report. Returns 1 if a client breaks."""
    _refuse_flags_without_upgrade(arguments)
    named = arguments.upgrade_to, arguments.since
    to, since = (None if name is None else load_schemas(name) for name in named)
    archive = _archive_among(arguments)
    if archive is not None:
        return _run_on_archive(archive, to, since, arguments)
    checked = check(arguments)
    summary, schemas = checked.summary, checked.capture.schemas
    features = read_features(arguments.features, schemas)
    brokers = checked.examination.brokers
    versions = versions_view(brokers, summary.clients, features, schemas.api_names)
    upgrade = upgrade_report(checked.examination.usage, to, since) if to else None
    if arguments.html:
        _write_page(arguments.html, summary, versions, upgrade)
    if upgrade and arguments.junit:
        write_report(arguments.junit, junit_upgrade(upgrade, now()))
    with reader_may_leave():
        _print(summary, versions, upgrade, arguments)
    lines = list(incomplete(summary.files, summary.unread))
    for line in lines:
        print(f"kipwatch: {line}", file=sys.stderr)
    if not summary.frames:
        print(f"kipwatch: no capture holds a Kafka frame; {SEE}", file=sys.stderr)
        return INCOMPLETE
    if lines:
        return INCOMPLETE
    return FAILED if upgrade and upgrade.breaking else PASSED


def _refuse_flags_without_upgrade(arguments: argparse.Namespace) -> None:
    for flag, value in (("--from", arguments.since), ("--junit", arguments.junit)):
        if value is not None and arguments.upgrade_to is None:
            raise UserError(f"{flag} belongs to --upgrade-to: name the release that the brokers will run")


def _archive_among(arguments: argparse.Namespace) -> Path | None:
    """Return the archive to read, None for captures. Raises UserError for both, or for two archives."""
    archive = archive_among(arguments.files)
    if archive is None:
        return None
    for flag in ("features", "archive"):
        if getattr(arguments, flag):
            raise UserError(f"--{flag} needs captures, and {archive} is an archive; leave it out")
    if arguments.upgrade_to is None and not arguments.versions and not arguments.html:
        raise UserError(
            f"{archive} is an archive, which has no verdicts by client: "
            "add --upgrade-to, --versions or --html"
        )
    return archive


def _run_on_archive(
    folder: Path, to: Schemas | None, since: Schemas | None, arguments: argparse.Namespace
) -> int:
    usage = archived_usage(folder)
    _warn_of_missing(folder)
    upgrade = upgrade_report(usage.clients, to, since) if to else None
    versions = versions_view(usage.brokers, (), {}, default_schemas().api_names)
    if upgrade and arguments.junit:
        write_report(arguments.junit, junit_upgrade(upgrade, now()))
    if arguments.html:
        source = f"{path_text(folder)}: {counted(usage.requests, 'request')}"
        page = history_page(source, _history(folder, arguments), versions, upgrade)
        write_report(arguments.html, page.encode())
    with reader_may_leave():
        if arguments.json:
            read = {"archive": path_text(folder), "requests": usage.requests, "folded": usage.folded}
            _print_json({**read, "versions": versions, **(upgrade.fields() if upgrade else {})})
        else:
            show_archive(folder, usage, versions, upgrade)
    if not usage.requests:
        print(f"kipwatch: the archive {folder} holds no request", file=sys.stderr)
        return INCOMPLETE
    return FAILED if upgrade and upgrade.breaking else PASSED


def _history(folder: Path, arguments: argparse.Namespace) -> History:
    """Read what an archive holds by week, and validate that by the policies of the configuration."""
    configuration = configure(arguments, ("schemas",))
    history = archived_history(folder)
    if not configuration.policies:
        return history
    if find_spec("great_expectations") is None:
        raise UserError("policies need the extra [audit]: pip install 'kipwatch[audit]'")
    from streaming.audit.audit import policies_by_week, policies_of  # noqa: PLC0415  # it takes seconds to load

    schemas, policies = load_schemas(configuration.schemas), policies_of(Path(configuration.policies))
    return history._replace(policies=policies_by_week(folder, history.weeks, schemas, policies))


def _warn_of_missing(folder: Path) -> None:
    """Warn of missing files of the archive, whose content the report lacks. Raises UserError."""
    with readable(folder):
        missing = sorted({file for files in missing_siblings(folder).values() for file in files})
    if missing:
        further = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        print(
            f"kipwatch: {folder} lacks {', '.join(missing[:NAMED])}{further}: the report is without them; "
            "`kipwatch audit --archive` names all",
            file=sys.stderr,
        )


def _print(
    summary: Summary, versions: VersionsView, upgrade: UpgradeReport | None, arguments: argparse.Namespace
) -> None:
    if arguments.json:
        report = {"summary": summary, "versions": versions, **(upgrade.fields() if upgrade else {})}
        _print_json(versions if arguments.versions else report)
        return
    console = Console(highlight=False)
    for each in summary.files:
        console.print(f"[bold]{escape(printable(each.file))}[/]: {frame_counts(each)}", soft_wrap=True)
    console.print()
    if upgrade:
        console.print(upgrade_list(upgrade))
        console.print(upgrade_summary(upgrade), soft_wrap=True)
    elif arguments.versions or arguments.features:
        console.print(versions_tables(versions))
    else:
        console.print(fleet_matrix(summary.clients, console.width))
        console.print()
        console.print(fleet_facts(summary.clients))


def _print_json(report: object) -> None:
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")


def read_features(path: Path | None, schemas: Schemas) -> FeatureMap:
    """Read a map of features; its APIs are keys or names. Raises UserError."""
    if path is None:
        return {}
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=dict[str, dict[str, int]])
    except OSError as error:
        raise UserError(f"cannot read the features {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}; write a feature as `name = {{76 = 1, 78 = 1}}`") from error
    return {feature: _keyed(path, needed, schemas) for feature, needed in found.items()}


def _keyed(path: Path, needed: Mapping[str, int], schemas: Schemas) -> dict[int, int]:
    keyed = {}
    for name, version in needed.items():
        api: Any = schemas.api(int(name)) if name.isdecimal() else schemas.api_named(name)
        if api is None:
            hint = did_you_mean(name, schemas.api_names.values(), "see `kipwatch schemas`")
            raise UserError(f"{path}: there is no API {name!r}; {hint}")
        keyed[api.key] = version
    return keyed


def _write_page(path: Path, summary: Summary, versions: VersionsView, upgrade: UpgradeReport | None) -> None:
    findings = [*summary.findings, *summary.suppressed]
    read = [f"{each.file}: {frame_counts(each)}" for each in summary.files]
    write_report(path, fleet_page(summary.clients, findings, versions, read, upgrade).encode())
