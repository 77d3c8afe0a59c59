"""`kipwatch report FILE…`: client software by rule, or brokers' versions, as text, JSON or an HTML page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from decoders.schema.registry import Schemas
from expectations.report.matrix import fleet_facts, fleet_matrix, versions_tables
from expectations.report.page import fleet_page
from expectations.report.versions import Features, VersionsView, versions_view
from streaming.check.summary import Summary, frame_counts
from streaming.commands.check import add_capture_flags, check
from streaming.user_error import UserError, did_you_mean

NOTHING_READ = 2


class FleetReport(msgspec.Struct, frozen=True):
    """What `report --json` prints: the summary of the check, and what brokers advertise."""

    summary: Summary
    versions: VersionsView


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the flags."""
    add_capture_flags(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as an HTML page")
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


def run(arguments: argparse.Namespace) -> int:
    """Judge the captures and report on their clients and brokers."""
    checked = check(arguments)
    summary, schemas = checked.summary, checked.capture.schemas
    features = read_features(arguments.features, schemas)
    brokers = checked.examination.brokers
    report = FleetReport(summary, versions_view(brokers, summary.clients, features, schemas.api_names))
    if arguments.html:
        _write_page(arguments.html, report)
    if arguments.json:
        shown = report.versions if arguments.versions else report
        sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
    else:
        _show(report, Console(highlight=False), versions=arguments.versions or bool(arguments.features))
    if not summary.frames:
        print("kipwatch: the captures hold no Kafka frame; check the files and --ports", file=sys.stderr)
        return NOTHING_READ
    return 0


def read_features(path: Path | None, schemas: Schemas) -> Features:
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


def _write_page(path: Path, report: FleetReport) -> None:
    summary = report.summary
    findings = [*summary.findings, *summary.suppressed]
    read = [f"{each.file}: {frame_counts(each)}" for each in summary.files]
    try:
        path.write_text(fleet_page(summary.clients, findings, report.versions, read), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _show(report: FleetReport, console: Console, *, versions: bool) -> None:
    for each in report.summary.files:
        console.print(f"[bold]{escape(each.file)}[/]: {frame_counts(each)}", soft_wrap=True)
    console.print()
    if versions:
        console.print(versions_tables(report.versions))
        return
    console.print(fleet_matrix(report.summary.clients, console.width))
    console.print()
    console.print(fleet_facts(report.summary.clients))
