"""Reads from an archive what `report` shows of captures: what each client used, and what brokers offer.

Captures tell which versions were offered on the connection that used one. Here a version counts as the
highest offered if it is that of any ranges which a connection of the client was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from expectations.report.broker import Broker, Ranges
from expectations.report.client import Software, software_order
from expectations.report.usage import ClientUsage, RequestCount, UsedVersions
from streaming.archive.table import VERSION, VERSION_KEY
from streaming.archive.tables import TABLES
from streaming.user_error import UserError

_SCHEMAS: Final = {table.name: table.schema for table in TABLES}
_WHO: Final = ["client_software_name", "client_software_version", "client_id"]
_CONNECTION: Final = [
    *_WHO,
    "connection",
    "changed_at",
    "joined",
    "ranges_id",
    "versions_asked_at",
    "first_used_at",
]
"""The columns of connections that are read."""
_MICROSECOND: Final = 1000
"""Nanoseconds."""
_Who = tuple[Software, str | None]


class ArchivedUsage(NamedTuple):
    """What the archive holds for a report. `folded` counts requests whose clients it does not tell apart."""

    clients: list[ClientUsage]
    brokers: list[Broker]
    requests: int
    folded: int


def is_archive(folder: Path) -> bool:
    """Whether a folder is an archive: it has one of its tables, by day."""
    return any(next((folder / name).glob("day=*"), None) for name in _SCHEMAS)


def archived_usage(folder: Path) -> ArchivedUsage:
    """Read an archive. Raises UserError if it cannot be read, or is of another version."""
    try:
        usage, connections, brokers = (_read(folder, name) for name in ("usage", "connections", "brokers"))
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"cannot read the archive {folder}: {str(error).splitlines()[0]}") from error
    found = _used(usage)
    ranges = {row["ranges_id"]: _ranges(row) for row in _rows(brokers, "ranges_id", "ranges")}
    _add_connections(found, _latest(connections.select(_CONNECTION), ["connection"], "changed_at"), ranges)
    order = sorted(found, key=lambda who: (software_order(who[0]), who[1] is None, who[1] or ""))
    folded = pc.sum(usage.filter(usage["folded"])["requests"]).as_py() or 0
    return ArchivedUsage(
        [ClientUsage(*who, found[who]) for who in order if found[who].uses],
        [
            Broker(row["cluster"], row["broker"], ranges[row["ranges_id"]])
            for row in _latest(
                brokers.filter(pc.is_valid(brokers["ranges_id"])), ["cluster", "broker"], "last_seen"
            )
        ],
        pc.sum(usage["requests"]).as_py() or 0,
        folded,
    )


def _read(folder: Path, table: str) -> pa.Table:
    """Read a table whole, without rows if there is none."""
    if not (folder / table).is_dir():
        return _SCHEMAS[table].empty_table()
    # Older files lack columns that came later.
    dataset = ds.dataset(folder / table, format="parquet", schema=_SCHEMAS[table])
    for fragment in dataset.get_fragments():
        found = (fragment.physical_schema.metadata or {}).get(VERSION_KEY, b"none").decode()
        if found != str(VERSION):
            raise UserError(
                f"{fragment.path} is a table of version {found}, and this release reads version {VERSION}: "
                "read it with the release that wrote it"
            )
    return dataset.to_table(columns=_SCHEMAS[table].names)


def _used(usage: pa.Table) -> dict[_Who, UsedVersions]:
    """Add up the requests of each client by API version."""
    keys = [*_WHO, "api_key", "api_version"]
    sums = usage.group_by(keys).aggregate([("requests", "sum"), ("minute", "max")])
    found: dict[_Who, UsedVersions] = {}
    for row in sums.to_pylist():
        if not row["requests_sum"]:
            continue
        uses = found.setdefault(_who(row), UsedVersions()).uses
        last = int(row["minute_max"].timestamp()) * 1_000_000 * _MICROSECOND
        uses[row["api_key"], row["api_version"]] = RequestCount(row["requests_sum"], last, False)
    return found


def _add_connections(
    found: Mapping[_Who, UsedVersions], connections: list[dict[str, Any]], ranges: Mapping[str, Ranges]
) -> None:
    """Count the connections of each client, and note which versions were the highest offered to it."""
    told: dict[_Who, set[str]] = {}
    for row in connections:
        who = _who(row)
        if who not in found:
            continue
        found[who].connections += 1
        never_asked = row["versions_asked_at"] is None and row["first_used_at"] is not None
        found[who].without_api_versions += int(never_asked and not row["joined"])
        if row["ranges_id"] is not None:
            told.setdefault(who, set()).add(row["ranges_id"])
    for who, identifiers in told.items():
        offered = [ranges[identifier] for identifier in identifiers if identifier in ranges]
        for (api_key, version), use in found[who].uses.items():
            use.is_highest_offered = any(each.get(api_key, (0, -1))[1] == version for each in offered)


def _latest(table: pa.Table, subject: list[str], time: str) -> list[dict[str, Any]]:
    """Return the latest row of each subject. Folded rows have none."""
    table = table.filter(pc.is_valid(table[subject[-1]])).sort_by(time)
    row = pa.array(range(len(table)))
    latest = table.append_column("row", row).group_by(subject).aggregate([("row", "max")])["row_max"]
    rows: list[dict[str, Any]] = table.take(latest).to_pylist()
    return rows


def _rows(table: pa.Table, *columns: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.filter(pc.is_valid(table[columns[0]])).select(columns).to_pylist()
    return rows


def _ranges(row: Mapping[str, Any]) -> Ranges:
    return {each["api_key"]: (each["lowest"], each["highest"]) for each in row["ranges"]}


def _who(row: Mapping[str, Any]) -> _Who:
    name, version, client_id = (row[column] for column in _WHO)
    return (name, version), client_id
