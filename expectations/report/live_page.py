"""The page of a running kipwatch, for those who have no Grafana: what is violated now, and whether it judges.

It is made of the parts of the fleet's page, loads nothing and needs no script: it asks the browser to load it
again every REFRESH_SECONDS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from expectations.judging.finding import Finding
from expectations.report.client import Software, software_text
from expectations.report.coverage import FAMILY_NAMES, Coverage, state_in_words
from expectations.report.matrix import LEVEL_SIGNS
from expectations.report.page import (
    Anchors,
    document,
    findings_list,
    level_mark,
    level_totals,
    link,
    moment,
    text,
)
from expectations.report.terminal import counted
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import Level, Role, Verdict, gravity

REFRESH_SECONDS: Final = 10
_CLIENTS: Final = 100
"""Client software that is listed."""
_NANOSECONDS: Final = 1_000_000_000
_MINUTE: Final = 60
_MEANINGS: Final = {str(reason): reason.meaning for reason in Reason}


class Condition(NamedTuple):
    """Whether kipwatch judges, in one sentence; `state` is the CSS class of its colour."""

    state: str
    sentence: str


class Offender(NamedTuple):
    """Offences of the last minutes by one client software against one rule, at listeners of a cluster.

    `last_at` is in seconds since the epoch.
    """

    rule: str
    level: str
    role: str
    software: Software
    cluster: str
    owner: str | None
    listeners: Sequence[str]
    times: int
    last_at: float


class LiveClient(NamedTuple):
    """A client software: its open connections, and its offences by level since the start."""

    software: Software
    connections: int
    offences: Mapping[str, int]


class LiveView(NamedTuple):
    """What is known at `made_at`, in seconds since the epoch. `figures` are names and values.

    `offenders` are those of the last `window`. `levels` has the gravest level of each rule's offences, where
    there are any.
    """

    made_at: float
    condition: Condition
    figures: Sequence[tuple[str, str]]
    offenders: Sequence[Offender]
    window: str
    clients: Sequence[LiveClient]
    coverage: Sequence[Coverage]
    levels: Mapping[str, str]
    findings: Sequence[Finding]


def live_page(view: LiveView, *, refreshes: bool) -> str:
    """Return the page. Without `refreshes` it stays as it is."""
    clients = sorted(view.clients, key=_gravest_first)
    anchors = Anchors([client.software for client in clients[:_CLIENTS]], view.findings)
    offenders = sorted(view.offenders, key=lambda each: (gravity(each.level), -each.times))
    sections = (
        ("now", f"Offences in the last {view.window}", _offenders(offenders, anchors, view)),
        ("findings", "Latest findings since the start", _findings(view, anchors)),
        ("clients", f"Clients since the start ({len(clients):,})", _clients(clients, anchors)),
        ("rules", "Rules", _coverage(view, anchors)),
    )
    head = f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">\n' if refreshes else ""
    return document("kipwatch", _header(view, refreshes), sections, head)


def clock(at: float) -> str:
    """Return a time, in seconds since the epoch, as day and second in UTC."""
    return moment(int(at * _NANOSECONDS))


def _header(view: LiveView, refreshes: bool) -> str:
    figures = "".join(f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in view.figures)
    still, again = ("./?still", "hold it still"), ("./", "refresh it")
    place, word = still if refreshes else again
    often = f"refreshes every {REFRESH_SECONDS} s" if refreshes else "does not refresh"
    return (
        f'<header>\n<h1>kipwatch</h1>\n<p class="read">{clock(view.made_at)}; this page {often}: '
        f'<a href="{place}">{word}</a></p>\n'
        f'<p class="state {view.condition.state}">{text(view.condition.sentence)}</p>\n'
        f'<dl class="figures">{figures}</dl>\n</header>'
    )


def _findings(view: LiveView, anchors: Anchors) -> str:
    where = "The latest three of each rule; <code>kipwatch findings</code> shows all, and earlier ones."
    return f'{findings_list(view.findings, anchors)}<p class="more">{where}</p>'


def _offenders(offenders: Sequence[Offender], anchors: Anchors, view: LiveView) -> str:
    if not offenders:
        return "<p>Nothing.</p>" if view.condition.state == "conforms" else "<p>Nothing is known.</p>"
    totals: dict[str, int] = {}
    for each in offenders:
        totals[each.level] = totals.get(each.level, 0) + each.times
    rows = "".join(_offender(each, anchors, view.made_at) for each in offenders)
    return (
        f'{level_totals(totals)}<div class="wide"><table class="list lines"><thead><tr><th>level</th>'
        f"<th>rule</th><th>by</th><th>at</th><th>times</th><th>last</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _offender(each: Offender, anchors: Anchors, now: float) -> str:
    name = "the broker" if each.role == Role.BROKER else _named(each.software, anchors)
    rule = link(anchors.rule(each.rule), f"<code>{escape(each.rule)}</code>")
    cells = (
        level_mark(each.level),
        rule,
        f"{name} of {text(each.owner)}" if each.owner else name,
        text(": ".join(filter(None, (each.cluster, ", ".join(each.listeners))))),
        counted(each.times, "time"),
        f"{_ago(now - each.last_at)} ago",
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def _ago(seconds: float) -> str:
    return f"{max(0, round(seconds))} s" if seconds < 2 * _MINUTE else f"{seconds / _MINUTE:.0f} min"


def _named(software: Software, anchors: Anchors | None = None) -> str:
    """Return client software as its labels name it.

    Both labels are equal where they stand for software without a label of its own.
    """
    name, version = software
    name = text(software_text((name, None if name == version else version)))
    return link(anchors.client(software), name) if anchors else name


def _gravest_first(client: LiveClient) -> tuple[int, ...]:
    return (*(-client.offences.get(level, 0) for level in Level), -client.connections)


def _clients(clients: Sequence[LiveClient], anchors: Anchors) -> str:
    if not clients:
        return "<p>None has sent a request since the start.</p>"
    heads = "".join(_head(LEVEL_SIGNS[level], level) for level in Level)
    rows = "".join(_client(each, anchors) for each in clients[:_CLIENTS])
    more = f'<p class="more">and {len(clients) - _CLIENTS:,} more</p>' if len(clients) > _CLIENTS else ""
    return (
        f'<div class="wide"><table class="list"><thead><tr><th>client software</th><th>open</th>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>{more}"
    )


def _head(sign: str, word: str) -> str:
    """Return the head of a column; on a phone its sign has to do."""
    return f'<th scope="col" title="{word}">{sign}<span class="word"> {word}</span></th>'


def _client(client: LiveClient, anchors: Anchors) -> str:
    offences = ((level, client.offences.get(level, 0)) for level in Level)
    cells = "".join(
        f'<td><span class="cell {level}">{count:,}</span></td>' if count else '<td class="silent">·</td>'
        for level, count in offences
    )
    return (
        f'<tr id="{anchors.client(client.software)}"><th scope="row">{_named(client.software)}'
        f"</th><td>{client.connections:,}</td>{cells}</tr>\n"
    )


def _coverage(view: LiveView, anchors: Anchors) -> str:
    coverage, levels = view.coverage, view.levels
    bodies = (
        f'<tbody><tr class="family"><th scope="rowgroup" colspan="5">{FAMILY_NAMES[family]}</th></tr>\n'
        f"{''.join(_rule(row, levels.get(row.rule, ''), anchors) for row in rows)}</tbody>\n"
        for family, rows in groupby(coverage, key=attrgetter("family"))
    )
    heads = "".join(_head(sign, verdict) for sign, verdict in zip("✓✕?", Verdict, strict=True))
    exercised = sum(row.exercised for row in coverage)
    return (
        f"<p>{exercised} of {counted(len(coverage), 'rule')} exercised since the start. An undecided check "
        "depends on something that was not seen.</p>"
        '<div class="wide"><table class="matrix"><thead><tr><th>rule</th><th>state</th>'
        f"{heads}</tr></thead>\n{''.join(bodies)}</table></div>"
    )


def _rule(row: Coverage, level: str, anchors: Anchors) -> str:
    """Return the row of a rule; `level` is the gravest of its offences."""
    state = state_in_words(row)
    style = level if row.violates and level else state.replace("not exercised", "silent")
    word = state if style in ("violation", "silent") else style
    silent = ' class="silent"' if style == "silent" else ""
    name = escape(row.rule.partition("/")[2])
    counts = "".join(f"<td>{count:,}</td>" for count in (row.conforms, row.violates, row.undecided))
    return (
        f'<tr{silent} id="{anchors.rule(row.rule)}"><th scope="row">{name}</th>'
        f'<td><span class="cell {style}">{word}</span></td>{counts}</tr>\n{_reasons(row)}'
    )


def _reasons(row: Coverage) -> str:
    """Return a row that says why checks of a rule are undecided, if some are."""
    if not row.undecided:
        return ""
    reasons = "; ".join(f"{_MEANINGS[name]} ({count:,})" for name, count in row.reasons.items())
    return f'<tr class="reasons"><td colspan="5">undecided: {escape(reasons)}</td></tr>\n'
