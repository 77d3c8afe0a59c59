"""The upgrade report on a terminal: who breaks and by what, who should move, and how many go on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from expectations.judging.finding import printable
from expectations.report.tables import LEVEL_STYLES, counted
from expectations.report.upgrade import Fate, UpgradedClient, UpgradeReport, UpgradeRow

_INDENT = 4


def upgrade_summary(report: UpgradeReport) -> Text:
    """Return the answer in one line."""
    to, breaking = report.upgrade_to, len(report.breaking)
    if not report.clients:
        return Text(f"nothing is known of an upgrade to Kafka {to}: no request was seen", "bold red")
    of = f"{breaking} of {counted(len(report.clients), 'client')}"
    verb = "breaks" if breaking == 1 else "break"
    return Text(f"an upgrade to Kafka {to}: {of} {verb}", "bold red" if breaking else "bold green")


def upgrade_list(report: UpgradeReport) -> Group:
    """Return the clients that break or should move, each with its requests, and a line on the others."""
    shown = [client for client in report.clients if any(remarks_on(client))]
    parts: list[Text | Padding] = []
    for client in shown:
        parts += _client(client)
    if silent := len(report.clients) - len(shown):
        parts.append(Text(f"{counted(silent, 'client')} of which {_nothing(silent)}", "dim"))
    if report.refused_before:
        text = f"{counted(report.refused_before, 'request')} that Kafka {report.upgrade_from} refuses, too"
        parts.append(Text(f"left out: {text}", "dim"))
    return Group(*parts)


def remarks_on(client: UpgradedClient) -> Iterator[str]:
    """Yield what is to be known of a client, one line each; nothing for one that simply goes on."""
    for row in client.rows:
        if row.verdict is not Fate.KEPT:
            yield row_text(row)
    if client.falls_back:
        yield "its ApiVersions is answered with error 35, and it must ask again with version 0"
    if client.without_api_versions:
        on = counted(client.without_api_versions, "connection")
        yield f"never asks for the versions, on {on}: it cannot choose others"


def row_text(row: UpgradeRow) -> str:
    """Return what happens to the requests of one API version."""
    has = f"it has {row.supported}" if row.supported else "it has no such API"
    fate = "deprecated" if row.verdict is Fate.DEPRECATED else f"removed; {has}"
    may = ", but the client negotiates and may know others" if row.negotiable else ""
    seen = f"{counted(row.requests, 'request')}, last {day_of(row.last_seen)}"
    return f"{row.api} v{row.version}: {fate}{may if row.verdict is Fate.REMOVED else ''} ({seen})"


def day_of(time: int) -> str:
    """Return a capture time as a day and minute in UTC."""
    return str(np.datetime64(time, "ns").astype("datetime64[m]")).replace("T", " ")


def _client(client: UpgradedClient) -> Iterator[Text | Padding]:
    sign, style = ("✕", LEVEL_STYLES["violation"]) if client.breaks else ("!", LEVEL_STYLES["improvement"])
    amount = f"{counted(client.connections, 'connection')}, {counted(client.requests, 'request')}"
    yield Text.assemble((f"{sign} ", style), (printable(client.name), "bold"), f": {amount}")
    for remark in remarks_on(client):
        yield Padding(Text(remark), (0, 0, 0, _INDENT), expand=False)


def _nothing(count: int) -> str:
    return "it keeps every request" if count == 1 else "it keeps every request, each"
