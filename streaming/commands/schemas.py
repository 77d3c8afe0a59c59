"""`kipwatch schemas`: list a release's APIs, compare two releases, check a draft, make the table of a jar."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import rich.table
from rich.console import Console

from decoders.schema.difference import Difference, FieldChange, MessageChange, difference
from decoders.schema.header_versions import remarks
from decoders.schema.lint import lint
from decoders.schema.model import SchemaError, Table
from decoders.schema.registry import Api
from decoders.schema.table import dump_table, messages_of, read_jar
from streaming.settings.release import RELEASE_HELP, load_schemas, load_table
from streaming.user_error import UserError

_WIDE, _NARROW = 100, 80
"""Columns of a terminal: from _WIDE on gaps are wider, below _NARROW not all columns fit."""
_HEADINGS = ("versions", "flexible", "unstable", "overlay", "headers")
_OF_A_NARROW_TABLE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(show=_list, release="", json=False)
    actions = parser.add_subparsers(metavar="ACTION")
    listing = actions.add_parser(
        "list", help="list the APIs of a release, as `schemas` alone does for the committed one"
    )
    listing.add_argument("release", nargs="?", default="", metavar="FILE.jar", help=RELEASE_HELP)
    comparing = actions.add_parser("diff", help="show what changed between two releases")
    for name in ("older", "newer"):
        comparing.add_argument(name, metavar=name.upper(), help=RELEASE_HELP)
    for action, show in ((listing, _list), (comparing, _diff)):
        action.add_argument("--json", action="store_true", help="print one JSON object")
        action.set_defaults(show=show)
    checking = actions.add_parser(
        "lint", help="check drafted messages: what Kafka's generator would refuse, what breaks compatibility"
    )
    checking.add_argument("folder", type=Path, metavar="FOLDER", help="Kafka's message files, or an overlay")
    checking.set_defaults(show=_lint)
    importing = actions.add_parser("import", help="read a kafka-clients jar and print the table")
    importing.add_argument("jar", type=Path, metavar="FILE.jar")
    importing.set_defaults(show=_import)


def run(arguments: argparse.Namespace) -> int:
    """Run the action. Raises UserError for a file that holds no valid schemas."""
    try:
        return int(arguments.show(arguments) or 0)
    except SchemaError as error:
        raise UserError(str(error)) from error


def _lint(arguments: argparse.Namespace) -> int:
    faults = lint(arguments.folder)
    for fault in faults:
        print(fault)
    if not faults:
        print("nothing is wrong")
    return 1 if faults else 0


def _import(arguments: argparse.Namespace) -> None:
    table = read_jar(arguments.jar)
    _remark(table)
    sys.stdout.write(dump_table(table))


def _remark(table: Table) -> None:
    for remark in remarks(messages_of(table)):
        print(f"kipwatch: remark: {remark}", file=sys.stderr)


def _list(arguments: argparse.Namespace) -> None:
    schemas = load_schemas(arguments.release)
    if arguments.json:
        apis = [_described(api) for api in schemas.apis]
        described = {
            "release": schemas.release,
            "digest": schemas.digest,
            "overlay": schemas.overlay,
            "apis": apis,
        }
        print(json.dumps(described))
        return
    overlay = f", with {schemas.overlay} over it" if schemas.overlay else ""
    print(f"Kafka {schemas.release}{overlay}: {len(schemas.apis)} APIs\n")
    _print_table(schemas.apis)


def _described(api: Api) -> dict[str, Any]:
    return {
        "api_key": api.key,
        "api": api.name,
        "versions": str(api.release_versions) if api.release_versions else None,
        "flexible_versions": str(api.request.flexible_versions),
        "overlay_version": _overlay_version(api),
        "unstable_version": api.unstable_version,
        "request_headers": _headers(api),
    }


def _overlay_version(api: Api) -> int | None:
    return api.versions.highest if api.is_overlay(api.versions.highest) else None


def _headers(api: Api) -> dict[int, int]:
    known = range(api.versions.lowest, api.versions.highest + 1)
    return {version: api.request_header_version(version) for version in known}


def _print_table(apis: Iterable[Api]) -> None:
    """Print a row per API; `headers` are those of its requests. A narrow terminal gets the first columns."""
    console = Console()
    shown = _HEADINGS[: _OF_A_NARROW_TABLE if console.width < _NARROW else None]
    table = rich.table.Table(box=None, pad_edge=False, padding=(0, 2 if console.width >= _WIDE else 1, 0, 0))
    table.add_column("key", justify="right")
    for heading in ("API", *shown):
        table.add_column(heading, overflow="fold")
    for api in apis:
        table.add_row(str(api.key), api.name, *_cells(api)[: len(shown)])
    console.print(table)


def _cells(api: Api) -> tuple[str, ...]:
    """Return the cells of an API's row, without key and name."""
    overlay, unstable = _overlay_version(api), api.unstable_version
    return (
        str(api.release_versions or "none"),
        str(api.request.flexible_versions),
        "" if unstable is None else f"v{unstable}",
        "" if overlay is None else f"v{overlay}",
        " ".join(str(header) for header in sorted(set(_headers(api).values()))),
    )


def _diff(arguments: argparse.Namespace) -> None:
    found = difference(load_table(arguments.older), load_table(arguments.newer))
    if arguments.json:
        print(msgspec.json.encode(found).decode())
    else:
        print("\n".join(difference_lines(found)))


def difference_lines(found: Difference) -> list[str]:
    """Return a difference as lines for a terminal."""
    lines = [f"Kafka {found.older} → {found.newer}"]
    for sign, apis in (("+", found.added), ("-", found.removed)):
        lines += [f"{sign} {name} {versions}" for name, versions in apis.items()]
    lines += [f"~ API {one.api_key}: {one.before} is now {one.after}" for one in found.renamed]
    for message in found.messages:
        lines += _message_lines(message)
    return lines if len(lines) > 1 else [*lines, "no change affects the bytes on the wire"]


def _message_lines(message: MessageChange) -> list[str]:
    changes = [
        f"    {change.what}: {change.before or 'none'} → {change.after or 'none'}"
        for change in message.changes
    ]
    # Equal changes of several versions are shown once.
    equal: dict[tuple[str, str | None, str | None, bool], list[FieldChange]] = {}
    for field in message.fields:
        key = (field.path, field.before, field.after, field.version == field.compared_with)
        equal.setdefault(key, []).append(field)
    return ["", message.name, *changes, *(f"    {_field_line(group)}" for group in equal.values())]


def _field_line(equal: list[FieldChange]) -> str:
    field = equal[0]
    versions = ", ".join(f"v{one.version}" for one in equal)
    if field.compared_with != field.version:
        versions = ", ".join(f"v{one.version} against v{one.compared_with}" for one in equal)
    if field.before is None:
        return f"+ {field.path}: {field.after} ({versions})"
    if field.after is None:
        return f"- {field.path}: {field.before} ({versions})"
    return f"~ {field.path}: {field.before} → {field.after} ({versions})"
