"""`kipwatch report FILE…`: the fleet in captures, as text, JSON or a page; or the versions of its brokers."""

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
from expectations.report.broker import Features, VersionsView, versions_view
from expectations.report.matrix import fleet_facts, fleet_matrix, versions_tables
from expectations.report.page import fleet_page
from streaming.check.summary import Summary, told_of
from streaming.commands.check import add_capture_flags, check
from streaming.user_error import UserError

NOTHING_READ = 2


class FleetReport(msgspec.Struct, frozen=True):
    """What `report --json` prints: the check's summary, and what brokers offer."""

    summary: Summary
    versions: VersionsView


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_capture_flags(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as one page")
    parser.add_argument(
        "--versions", action="store_true", help="show what each broker offers and what all have in common"
    )
    parser.add_argument(
        "--features",
        type=Path,
        metavar="FILE",
        help="TOML file of features, such as `share-groups = {76 = 1, 78 = 1}`: API = lowest version",
    )


def run(arguments: argparse.Namespace) -> int:
    """Judge the captures and report on who spoke in them."""
    checked = check(arguments)
    summary, schemas = checked.summary, checked.source.schemas
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
        print("kipwatch: no Kafka frame is in them; check the files and --ports", file=sys.stderr)
        return NOTHING_READ
    return 0


def read_features(path: Path | None, schemas: Schemas) -> Features:
    """Read a feature map, APIs by key or name. Raises UserError."""
    if path is None:
        return {}
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=dict[str, dict[str, int]])
    except OSError as error:
        raise UserError(f"cannot read the features {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}; a feature is written `name = {{76 = 1, 78 = 1}}`") from error
    return {feature: _keyed(path, needed, schemas) for feature, needed in found.items()}


def _keyed(path: Path, needed: Mapping[str, int], schemas: Schemas) -> dict[int, int]:
    keyed = {}
    for name, version in needed.items():
        api: Any = schemas.api(int(name)) if name.isdecimal() else schemas.api_named(name)
        if api is None:
            raise UserError(f"{path}: there is no API {name!r}; see `kipwatch schemas`")
        keyed[api.key] = version
    return keyed


def _write_page(path: Path, report: FleetReport) -> None:
    summary = report.summary
    findings = [*summary.findings, *summary.suppressed]
    read = [f"{each.file}: {told_of(each)}" for each in summary.files]
    try:
        path.write_text(fleet_page(summary.clients, findings, report.versions, read), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _show(report: FleetReport, console: Console, *, versions: bool) -> None:
    for each in report.summary.files:
        console.print(f"[bold]{escape(each.file)}[/]: {told_of(each)}", soft_wrap=True)
    console.print()
    if versions:
        console.print(versions_tables(report.versions))
        return
    console.print(fleet_matrix(report.summary.clients, console.width))
    console.print()
    console.print(fleet_facts(report.summary.clients))
