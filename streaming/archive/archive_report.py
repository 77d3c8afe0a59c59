"""The report on an archive: what it tells of an upgrade, and of brokers' versions, as text and JSON."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from expectations.report.matrix import versions_tables
from expectations.report.tables import counted
from expectations.report.upgrade import UpgradedClient, UpgradeReport, UpgradeRow
from expectations.report.upgrade_text import upgrade_list, upgrade_summary
from expectations.report.versions import VersionsView
from streaming.archive.archived_usage import ArchivedUsage


class ArchiveReport(msgspec.Struct, frozen=True):
    """What `report ARCHIVE --json` prints. `folded` counts requests whose clients are not told apart."""

    archive: str
    requests: int
    folded: int
    versions: VersionsView
    upgrade_to: str | msgspec.UnsetType = msgspec.UNSET
    upgrade_from: str | msgspec.UnsetType | None = msgspec.UNSET
    upgrade: list[UpgradeRow] | msgspec.UnsetType = msgspec.UNSET
    upgrade_clients: list[UpgradedClient] | msgspec.UnsetType = msgspec.UNSET


def archive_report(
    folder: Path, usage: ArchivedUsage, versions: VersionsView, upgrade: UpgradeReport | None
) -> ArchiveReport:
    """Return what `--json` prints."""
    report = ArchiveReport(str(folder), usage.requests, usage.folded, versions)
    if upgrade is None:
        return report
    return msgspec.structs.replace(
        report,
        upgrade_to=upgrade.upgrade_to,
        upgrade_from=upgrade.upgrade_from,
        upgrade=upgrade.rows,
        upgrade_clients=upgrade.clients,
    )


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
