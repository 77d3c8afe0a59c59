"""What an archive holds week by week: requests of each client software, checks of rules, findings of owners.

Rows are added up while they are read: an archive of months does not fit into memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import acero

from expectations.report.history_page import History
from streaming.archive.archive_report import opened_table
from streaming.archive.batch_files import readable

MOST_WEEKS: Final = 26
"""Weeks that are shown, the latest."""
_OF_CLIENTS: Final = (pc.field("role") == "client") & ~pc.field("suppressed")


def archived_history(folder: Path) -> History:
    """Read an archive. Raises UserError if it cannot be read, or is of another version."""
    with readable(folder):
        names = ["client_software_name", "client_software_version"]
        usage = _sums(opened_table(folder, "usage"), "minute", names, "requests")
        checks = _sums(opened_table(folder, "coverage"), "captured_at", ["rule", "verdict"], "checks")
        found = _sums(
            opened_table(folder, "findings"), "captured_at", ["owner", "level"], "id", of_clients=True
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
    """Add up a column by keys and week, or count its texts, each once. A week is named by its Monday, in UTC.

    `of_clients` are findings of clients that are not suppressed.
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
