"""The upgrade report as a section of the fleet's HTML page."""

from __future__ import annotations

from html import escape

from expectations.judging.finding import printable
from expectations.report.tables import counted
from expectations.report.upgrade import UpgradedClient, UpgradeReport
from expectations.report.upgrade_text import remarks_on, upgrade_summary


def upgrade_section(report: UpgradeReport) -> str:
    """Return the content of the section, as HTML."""
    summary = f"<p><b>{escape(upgrade_summary(report).plain)}</b></p>\n"
    return summary + "\n".join(map(_client, report.clients))


def _client(client: UpgradedClient) -> str:
    remarks = list(remarks_on(client))
    state, word = ("violation", "breaks") if client.breaks else ("improvement", "look at it")
    if not remarks:
        state, word = "conforms", "goes on"
    amount = f"{counted(client.connections, 'connection')}, {counted(client.requests, 'request')}"
    items = "".join(f"<li>{escape(remark)}</li>" for remark in remarks)
    return (
        f'<h3><span class="level {state}">{word}</span> {escape(printable(client.name))} '
        f"<small>{amount}</small></h3>\n<ul>{items}</ul>"
    )
