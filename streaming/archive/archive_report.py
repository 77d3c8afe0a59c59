"""The report on an archive: versions that clients use and brokers advertise, and the history of its weeks.

`archived_usage` reads from an archive what `report` shows of captures, except for one thing. A capture tells
which versions were offered on the connection that used one, an archive does not. So a version counts as the
highest offered if it was the highest of the ranges advertised to any connection of the client.
`archived_history` adds up, week by week, the requests of each client software, the checks of rules and the
findings of owners.

Tables of months do not fit into memory as Python objects. Rows are added up while they are read; of the
connections only the needed columns are held, as Arrow columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import acero
from rich.console import Console
from rich.markup import escape

from expectations.report.client import Software, software_order
from expectations.report.fleet import ClientUsage, RequestCount, UsedVersions
from expectations.report.history_page import History
from expectations.report.matrix import versions_tables
from expectations.report.terminal import counted, upgrade_list, upgrade_summary
from expectations.report.upgrade import UpgradeReport
from expectations.report.versions import AdvertisingBroker, Ranges, VersionsView
from streaming.archive.batch_files import readable
from streaming.archive.tables import TABLES, VERSION, VERSION_KEY
from streaming.user_error import UserError

_SCHEMAS: Final = {table.name: table.schema for table in TABLES}
_WHO: Final = ["client_software_name", "client_software_version", "client_id"]
_USE: Final = [*_WHO, "api_key", "api_version", "folded"]
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
"""In nanoseconds."""
_OF_CLIENTS: Final = (pc.field("role") == "client") & ~pc.field("suppressed")
MOST_WEEKS: Final = 26
"""Weeks of the history, the latest."""
_Who = tuple[Software, str | None]


class ArchivedUsage(NamedTuple):
    """What an archive holds for a report. `folded` counts requests of clients that are not told apart."""

    clients: list[ClientUsage]
    brokers: list[AdvertisingBroker]
    requests: int
    folded: int


def is_archive(folder: Path) -> bool:
    """Whether a folder is an archive: it has one of its tables, by day."""
    return any(next((folder / name).glob("day=*"), None) for name in _SCHEMAS)


def archive_among(paths: Sequence[Path]) -> Path | None:
    """Return the archive among paths of archives and captures. Raises UserError if it is not alone."""
    archive = next((path for path in paths if path.is_dir() and is_archive(path)), None)
    if archive is not None and len(paths) > 1:
        raise UserError(f"{archive} is an archive: name it alone, or captures")
    return archive


def archived_usage(folder: Path) -> ArchivedUsage:
    """Read an archive. Raises UserError if it cannot be read, or is of another version."""
    with readable(folder):
        usage, connections, brokers = (
            _opened_table(folder, name) for name in ("usage", "connections", "brokers")
        )
        uses, clients = _added_up(usage), _counted(connections.to_table(columns=_CONNECTION))
        offers = _latest(brokers.to_table(), ["cluster", "broker", "ranges_id"], "last_seen")
    found = _used(uses)
    ranges = {row["ranges_id"]: _ranges(row) for row in offers.to_pylist()}
    _add_connections(found, clients, ranges)
    order = sorted(found, key=lambda who: (software_order(who[0]), who[1] is None, who[1] or ""))
    return ArchivedUsage(
        [ClientUsage(*who, found[who]) for who in order if found[who].uses],
        [
            AdvertisingBroker(row["cluster"], row["broker"], ranges[row["ranges_id"]])
            for row in _latest(offers, ["cluster", "broker"], "last_seen").to_pylist()
        ],
        sum(row["requests"] for row in uses),
        sum(row["requests"] for row in uses if row["folded"]),
    )


def _opened_table(folder: Path, table: str) -> ds.Dataset:
    """Open a table; an empty one if the archive lacks it."""
    if not (folder / table).is_dir():
        return ds.dataset(_SCHEMAS[table].empty_table())
    # Older files lack columns that came later.
    dataset = ds.dataset(folder / table, format="parquet", schema=_SCHEMAS[table])
    for fragment in dataset.get_fragments():
        found = (fragment.physical_schema.metadata or {}).get(VERSION_KEY, b"none").decode()
        if found != str(VERSION):
            raise UserError(
                f"{fragment.path} is a table of version {found}, and this release reads version {VERSION}: "
                "read it with the release that wrote it"
            )
    return dataset


def _added_up(usage: ds.Dataset) -> list[dict[str, Any]]:
    """Add up the requests of each client by API version, and find the last minute of each."""
    scan = acero.ScanNodeOptions(usage, columns=[*_USE, "requests", "minute"])
    sums = [("requests", "hash_sum", None, "requests"), ("minute", "hash_max", None, "minute")]
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("scan", scan),
            acero.Declaration("aggregate", acero.AggregateNodeOptions(sums, keys=_USE)),
        ]
    )
    rows: list[dict[str, Any]] = plan.to_table().to_pylist()
    return [row for row in rows if row["requests"]]


def _used(uses: list[dict[str, Any]]) -> dict[_Who, UsedVersions]:
    """Return the versions that each client used."""
    found: dict[_Who, UsedVersions] = {}
    for row in uses:
        last = int(row["minute"].timestamp()) * 1_000_000 * _MICROSECOND
        version, of_client = (row["api_key"], row["api_version"]), found.setdefault(_who(row), UsedVersions())
        of_version = of_client.uses.setdefault(version, RequestCount(is_highest_offered=False))
        of_version.add(RequestCount(row["requests"], last))
    return found


def _counted(connections: pa.Table) -> list[dict[str, Any]]:
    """Count each client's connections, and those without ApiVersions, and list the ranges it was offered."""
    latest = _latest(connections, ["connection"], "changed_at")
    never_asked = pc.and_(pc.is_null(latest["versions_asked_at"]), pc.is_valid(latest["first_used_at"]))
    from_start = pc.invert(pc.fill_null(latest["joined"], False))
    counted = latest.append_column("never_asked", pc.cast(pc.and_(never_asked, from_start), pa.int64()))
    sums = [("connection", "count"), ("never_asked", "sum"), ("ranges_id", "distinct")]
    rows: list[dict[str, Any]] = counted.group_by(_WHO).aggregate(sums).to_pylist()
    return rows


def _add_connections(
    found: Mapping[_Who, UsedVersions], clients: list[dict[str, Any]], ranges: Mapping[str, Ranges]
) -> None:
    """Add the connections of each client, and note which versions were the highest offered to it."""
    for row in clients:
        used = found.get(_who(row))
        if used is None:
            continue
        used.connections += row["connection_count"]
        used.without_api_versions += row["never_asked_sum"]
        offered = [ranges[identifier] for identifier in row["ranges_id_distinct"] if identifier in ranges]
        for (api_key, version), use in used.uses.items():
            use.is_highest_offered = any(each.get(api_key, (0, -1))[1] == version for each in offered)


def _latest(table: pa.Table, subject: list[str], time: str) -> pa.Table:
    """Return the latest row of each subject, without folded rows, which have no subject."""
    table = table.filter(pc.is_valid(table[subject[-1]]))
    order = pc.sort_indices(table[time]).to_numpy()
    rank = np.empty(len(table), np.int64)
    rank[order] = np.arange(len(table))
    ranked = table.select(subject).append_column("rank", pa.array(rank))
    latest = ranked.group_by(subject).aggregate([("rank", "max")])["rank_max"].to_numpy()
    return table.take(pa.array(order[latest]))


def _ranges(row: Mapping[str, Any]) -> Ranges:
    return {each["api_key"]: (each["lowest"], each["highest"]) for each in row["ranges"]}


def _who(row: Mapping[str, Any]) -> _Who:
    name, version, client_id = (row[column] for column in _WHO)
    return (name, version), client_id


def show_archive(
    folder: Path, usage: ArchivedUsage, versions: VersionsView, upgrade: UpgradeReport | None
) -> None:
    """Print the report as text: the upgrade, or the versions."""
    console = Console(highlight=False)
    folded = f", {usage.folded} of them of clients that it does not tell apart" if usage.folded else ""
    requests = counted(usage.requests, "request")
    console.print(f"[bold]{escape(str(folder))}[/]: {requests}{folded}", soft_wrap=True)
    console.print()
    if upgrade is None:
        console.print(versions_tables(versions))
        return
    console.print(upgrade_list(upgrade))
    console.print(upgrade_summary(upgrade), soft_wrap=True)


def archived_history(folder: Path) -> History:
    """Read an archive. Raises UserError if it cannot be read, or is of another version."""
    with readable(folder):
        names = ["client_software_name", "client_software_version"]
        usage = _sums(_opened_table(folder, "usage"), "minute", names, "requests")
        checks = _sums(_opened_table(folder, "coverage"), "captured_at", ["rule", "verdict"], "checks")
        found = _sums(
            _opened_table(folder, "findings"), "captured_at", ["owner", "level"], "id", of_clients=True
        )
    weeks = sorted({row["week"] for row in (*usage, *checks)})[-MOST_WEEKS:]
    software: dict[tuple[str | None, str | None], dict[str, int]] = {}
    by_rule: dict[str, dict[tuple[str, str], int]] = {week: {} for week in weeks}
    for row in usage:
        if row["week"] in by_rule and row["sum"]:
            name, version = (row[column] for column in names)
            software.setdefault((name, version), {})[row["week"]] = row["sum"]
    for row in checks:
        if row["week"] in by_rule:
            by_rule[row["week"]][row["rule"], row["verdict"]] = row["sum"]
    owners: dict[str | None, dict[str, dict[str, int]]] = {}
    for row in found:
        if row["week"] in by_rule:
            owners.setdefault(row["owner"], {}).setdefault(row["week"], {})[row["level"]] = row["sum"]
    return History(weeks, software, by_rule, owners if owners.keys() != {None} else {})


def _sums(
    table: ds.Dataset, time: str, keys: list[str], amount: str, *, of_clients: bool = False
) -> list[dict[str, Any]]:
    """Sum a column by keys and week, or count its distinct texts. A week is named by its Monday, in UTC.

    With `of_clients` only findings against clients count that are not suppressed.
    """
    function = "hash_count_distinct" if pa.types.is_string(table.schema.field(amount).type) else "hash_sum"
    week = pc.floor_temporal(pc.field(time), unit="week")
    fields = [pc.field(name) for name in (*keys, amount)]
    columns = [time, *keys, amount, *(("role", "suppressed") if of_clients else ())]
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("scan", acero.ScanNodeOptions(table, columns=columns)),
            *([acero.Declaration("filter", acero.FilterNodeOptions(_OF_CLIENTS))] if of_clients else []),
            acero.Declaration("project", acero.ProjectNodeOptions([week, *fields], ["week", *keys, amount])),
            acero.Declaration(
                "aggregate",
                acero.AggregateNodeOptions([(amount, function, None, "sum")], keys=["week", *keys]),
            ),
        ]
    )
    rows: list[dict[str, Any]] = plan.to_table().to_pylist()
    return [{**row, "week": row["week"].date().isoformat()} for row in rows]
