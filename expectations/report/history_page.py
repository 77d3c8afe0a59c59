"""The fleet of an archive as one HTML page, week by week: its software, rules, owners and policies.

It is made of the parts of the fleet's page, loads nothing and needs no script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from expectations.report.client import Software, software_text
from expectations.report.coverage import Checks, coverage_of
from expectations.report.matrix import LEVEL_SIGNS
from expectations.report.page import document, level_mark, offers, planned, rules_matrix, text
from expectations.report.terminal import counted
from expectations.report.upgrade import UpgradeReport
from expectations.report.versions import VersionsView
from expectations.rules.base.rule import Level

MOST_SOFTWARE: Final = 100
"""Client software that is listed, the busiest."""


_NONE: Final = '<span class="silent">·</span>'


class PolicyWeek(NamedTuple):
    """How many rows of a week were validated by an expectation, and how many of them do not meet it."""

    rows: int
    unmet: int
    is_met: bool


class PolicyHistory(NamedTuple):
    """An expectation of a policy: what it says, and its results by week. A week may have none."""

    policy: str
    says: str
    weeks: dict[str, PolicyWeek]


class History(NamedTuple):
    """What an archive holds, by week. A week is named by its Monday, such as `2026-06-22`; `weeks` has all.

    `software` has the requests of each client software, `checks` those of all rules. `owners` counts the
    findings of each owner's clients by level; None stands for nobody's clients. Empty if no owners are named.
    """

    weeks: Sequence[str]
    software: Mapping[Software, Mapping[str, int]]
    checks: Mapping[str, Checks]
    owners: Mapping[str | None, Mapping[str, Mapping[str, int]]] = {}
    policies: Sequence[PolicyHistory] = ()


def history_page(
    source: str, history: History, versions: VersionsView, upgrade: UpgradeReport | None = None
) -> str:
    """Return the page. `source` names the archive."""
    sections = [
        *planned(upgrade),
        ("software", "Client software by week", _software(history)),
        ("rules", "Rules by week", _rules(history)),
        ("versions", "What brokers offer", offers(versions)),
    ]
    if history.owners:
        sections.insert(-2, ("owners", "Whose clients offend, by week", _owners(history)))
    if history.policies:
        sections.insert(-1, ("policies", "Policies by week", _policies(history)))
    span = (
        f", {counted(len(history.weeks), 'week')}, the last from {history.weeks[-1]} on"
        if history.weeks
        else ""
    )
    header = f'<header>\n<h1>The fleet</h1>\n<ul class="read"><li>{text(source)}{span}</li></ul>\n</header>'
    return document("kipwatch: the fleet by week", header, sections)


def _software(history: History) -> str:
    if not history.software:
        return "<p>No request.</p>"
    total = {software: sum(weeks.values()) for software, weeks in history.software.items()}
    busiest = sorted(total, key=lambda software: (-total[software], software_text(software)))
    rows = "".join(
        _line(
            text(software_text(software)),
            [_requests(history.software[software].get(week, 0)) for week in history.weeks],
        )
        for software in busiest[:MOST_SOFTWARE]
    )
    left = len(busiest) - MOST_SOFTWARE
    more = f'<p class="more">and {left:,} more with fewer requests</p>' if left > 0 else ""
    return f"<p>Requests of each.</p>\n{_table('client software', history.weeks, rows)}{more}"


def _owners(history: History) -> str:
    named = sorted(history.owners, key=lambda owner: (owner is None, owner))
    rows = "".join(
        _line(
            "<i>nobody's</i>" if owner is None else text(owner),
            [_findings(history.owners[owner].get(week, {})) for week in history.weeks],
        )
        for owner in named
    )
    told = "Findings of each owner's clients that went on in the week, by level."
    return f"<p>{told}</p>\n{_table('owner', history.weeks, rows)}"


def _findings(levels: Mapping[str, int]) -> str:
    marks = (
        level_mark(level, f"{levels[level]:,} {LEVEL_SIGNS[level]}") for level in Level if levels.get(level)
    )
    return " ".join(marks) or _NONE


def _requests(count: int) -> str:
    return f"{count:,}" if count else _NONE


def _rules(history: History) -> str:
    columns = [coverage_of(history.checks.get(week, {})) for week in history.weeks]
    return rules_matrix([escape(week) for week in history.weeks], columns) if columns else "<p>No check.</p>"


def _policies(history: History) -> str:
    rows = "".join(
        _line(
            f"{text(each.says)} <small>{text(each.policy)}</small>",
            [_kept(each.weeks.get(week)) for week in history.weeks],
        )
        for each in history.policies
    )
    return _table("policy", history.weeks, rows)


def _kept(week: PolicyWeek | None) -> str:
    if week is None or not week.rows:
        return '<span class="cell silent" title="no rows">·</span>'
    state, sign = (
        ("conforms", f"{week.rows:,} ✓") if week.is_met else ("violation", f"{week.unmet:,}/{week.rows:,} ✕")
    )
    told = f"{week.unmet:,} of {counted(week.rows, 'row')} do not meet it"
    return f'<span class="cell {state}" title="{told}">{sign}</span>'


def _line(head: str, cells: Sequence[str]) -> str:
    return f'<tr><th scope="row">{head}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n'


def _table(head: str, weeks: Sequence[str], rows: str) -> str:
    heads = "".join(f'<th scope="col">{escape(week)}</th>' for week in weeks)
    return (
        '<div class="wide"><table class="versions">\n'
        f'<thead><tr><th scope="col">{head}</th>{heads}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div>"
    )
