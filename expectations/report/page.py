"""The fleet report as one self-contained HTML page: `page.css` is its style, and it loads nothing.

The page of a running kipwatch (`live_page.py`) is made of the same parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby

import numpy as np

from expectations.conversation.texts import printable
from expectations.judging.finding import Finding
from expectations.report.client import EMPTY, Client, Software, software_text
from expectations.report.coverage import FAMILY_NAMES, RULE_LEVELS, Coverage, state_in_words
from expectations.report.matrix import cell_text, facts_of, feature_lines
from expectations.report.terminal import (
    FindingGroup,
    counted,
    counted_level,
    groups_of,
    remarks_on,
    times_seen,
    upgrade_summary,
)
from expectations.report.upgrade import UpgradedClient, UpgradeReport
from expectations.report.versions import FeatureUse, VersionsView, ranges_by_key
from expectations.rules.base.rule import Level, Role, gravity
from expectations.rules.catalogue import RULES

_SUMMARIES = {rule.id: rule.summary for rule in RULES}

Section = tuple[str, str, str]
"""A section of a page: its ID, its heading and its content as HTML."""


def fleet_page(
    clients: Sequence[Client],
    findings: Sequence[Finding],
    versions: VersionsView,
    read: Sequence[str],
    upgrade: UpgradeReport | None = None,
) -> str:
    """Return the page. Each line of `read` names a file that was read and its frames."""
    anchors = Anchors([client.software for client in clients], findings)
    sections = (
        *planned(upgrade),
        ("findings", f"Findings ({len(findings)})", findings_list(findings, anchors)),
        ("matrix", "Client software and rules", _matrix(clients, anchors)),
        ("facts", "Facts", _facts(clients, anchors)),
        ("versions", "What brokers offer", offers(versions)),
    )
    return document("kipwatch: the fleet", _heading(read, findings), sections)


def document(title: str, header: str, sections: Iterable[Section], head: str = "") -> str:
    """Return a page: a header, links to its sections, the sections. `head` goes into the HTML's own head."""
    style = (files("expectations.report") / "page.css").read_text(encoding="utf-8")
    sections = list(sections)
    links = "".join(f'<a href="#{place}">{heading}</a>' for place, heading, _ in sections)
    body = "\n".join([header, f"<nav>{links}</nav>", *(_section(*section) for section in sections)])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{head}'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def planned(upgrade: UpgradeReport | None) -> list[Section]:
    """Return the section on the upgrade, if one is planned."""
    if upgrade is None:
        return []
    return [("upgrade", f"Upgrade to {text(upgrade.upgrade_to)}", upgrade_section(upgrade))]


class Anchors:
    """The names by which parts of the page link to each other."""

    def __init__(self, clients: Iterable[Software], findings: Iterable[Finding]) -> None:
        self._clients = {software: f"client-{number}" for number, software in enumerate(clients)}
        self._findings: dict[tuple[Software, str], str] = {}
        for finding in findings:
            place = f"finding-{len(self._findings)}"
            self._findings.setdefault((finding.software, finding.rule), place)

    def client(self, software: Software) -> str:
        """Return where the facts of a client software are, "" if nowhere."""
        return self._clients.get(software, "")

    def findings(self, software: Software, rule: str) -> str:
        """Return where the findings of a client software and a rule begin, "" if there are none."""
        return self._findings.get((software, rule), "")

    @classmethod
    def rules_findings(cls, rule: str) -> str:
        """Return where the findings of a rule begin. Alerts lead there."""
        return f"findings-{cls.rule(rule)}"

    @staticmethod
    def rule(rule: str) -> str:
        """Return where a rule's row of the matrix is."""
        return rule.replace("/", "-")


def link(place: str, content: str) -> str:
    """Return content, already escaped, that leads to a place, if there is one."""
    return f'<a href="#{place}">{content}</a>' if place else content


def text(from_wire: str) -> str:
    """Return text from the wire as HTML, in one line."""
    return escape(printable(from_wire))


def level_mark(level: str, word: str = "") -> str:
    """Return a level in its colour, or another word in it."""
    return f'<span class="level {level}">{word or level}</span>'


def level_totals(totals: Mapping[str, int]) -> str:
    """Return a paragraph with the number of each level, the gravest first."""
    marks = (level_mark(level, counted_level(level, totals[level])) for level in Level if totals.get(level))
    return f'<p class="totals">{" ".join(marks)}</p>\n'


def _section(place: str, heading: str, content: str) -> str:
    return f'<section id="{place}">\n<h2>{heading}</h2>\n{content}\n</section>'


def _heading(read: Sequence[str], findings: Sequence[Finding]) -> str:
    lines = "".join(f"<li>{text(line)}</li>" for line in read)
    totals = level_totals(Counter(finding.level for finding in findings if not finding.suppressed))
    return f'<header>\n<h1>The fleet</h1>\n<ul class="read">{lines}</ul>\n{totals}</header>'


def _legend() -> str:
    words = (
        ("violation", "3/9 ✕", "violated, 3 of 9 checks"),
        ("improvement", "3/9 !", "improvement: a recommendation was not followed"),
        ("information", "3/9 i", "information: worth knowing, no offence"),
        ("conforms", "9 ✓", "conforms"),
        ("undecided", "2 ?", "undecided: it depends on something that was not seen"),
        ("silent", "·", "not exercised: nothing to judge, neither good nor bad"),
    )
    items = (f'<li><span class="cell {name}">{sign}</span> {meaning}</li>' for name, sign, meaning in words)
    return f'<ul class="legend">{"".join(items)}</ul>\n'


def _matrix(clients: Sequence[Client], anchors: Anchors) -> str:
    return rules_matrix(
        [_client_head(client, anchors) for client in clients],
        [client.coverage for client in clients],
        lambda column, rule: anchors.findings(clients[column].software, rule),
    )


def rules_matrix(
    heads: Sequence[str],
    columns: Sequence[Sequence[Coverage]],
    place: Callable[[int, str], str] = lambda column, rule: "",
) -> str:
    """Return a table with a row for each rule, as HTML, and what its signs mean.

    Each column has the coverage of the same rules. `heads` are HTML. `place` says where the cell of a column
    and a rule leads.
    """
    shown = "".join(f'<th scope="col">{head}</th>' for head in heads)
    families = groupby(zip(*columns, strict=True), key=lambda rows: rows[0].family)
    bodies = "".join(_family(family, list(rows), place) for family, rows in families)
    return (
        f'{_legend()}<div class="wide"><table class="matrix">\n'
        f'<thead><tr><th scope="col">rule</th>{shown}</tr></thead>\n{bodies}</table></div>'
    )


def _client_head(client: Client, anchors: Anchors) -> str:
    name, version = client.software
    shown = "unknown" if name is None else name or EMPTY
    title = f"<b>{text(shown)}</b> {text(EMPTY if version == '' else version or '')}"
    title = link(anchors.client(client.software), title)
    return f"{title}<small>{counted(client.connections, 'connection')}</small>"


def _family(family: str, rows: Sequence[tuple[Coverage, ...]], place: Callable[[int, str], str]) -> str:
    width = len(rows[0])
    head = f'<tr class="family"><th scope="rowgroup" colspan="{width + 1}">{FAMILY_NAMES[family]}</th></tr>\n'
    return f"<tbody>{head}{''.join(_row(each, place) for each in rows)}</tbody>\n"


def _row(rows: tuple[Coverage, ...], place: Callable[[int, str], str]) -> str:
    rule = rows[0].rule
    cells = "".join(_cell(row, place(column, rule)) for column, row in enumerate(rows))
    offence = escape(rule.partition("/")[2])
    silent = all(state_in_words(row) == "not exercised" for row in rows)
    name = ' class="silent"' if silent else ""
    head = f'<th scope="row" title="{escape(_SUMMARIES[rule])}">{offence}</th>'
    return f'<tr{name} id="{Anchors.rule(rule)}">{head}{cells}</tr>\n'


def _cell(row: Coverage, place: str) -> str:
    state = state_in_words(row)
    counts = f"{row.conforms} conform, {row.violates} violate, {row.undecided} undecided"
    name = RULE_LEVELS[row.rule] if row.violates else state.replace("not exercised", "silent")
    shown = f'<span class="cell {name}" title="{state}: {counts}">{cell_text(row)}</span>'
    return f"<td>{link(place, shown)}</td>"


def findings_list(findings: Sequence[Finding], anchors: Anchors) -> str:
    """Return findings as HTML, the gravest first, the first few of each client software and rule."""
    if not findings:
        return "<p>None.</p>"
    shown, begun = [], set[str]()
    for group in sorted(groups_of(findings), key=_gravest_first):
        place = "" if group.rule in begun else f'<a id="{anchors.rules_findings(group.rule)}"></a>'
        shown.append(place + _group(group, anchors))
        begun.add(group.rule)
    return "\n".join(shown)


def _gravest_first(group: FindingGroup) -> tuple[int, str]:
    return gravity(group.shown[0].level), group.rule


def _group(group: FindingGroup, anchors: Anchors) -> str:
    remainder = f'<p class="more">{group.remainder}</p>' if group.remainder else ""
    shown = "\n".join(_finding(finding, anchors) for finding in group.shown)
    return f'<div id="{anchors.findings(group.software, group.rule)}">{shown}{remainder}</div>'


def _finding(finding: Finding, anchors: Anchors) -> str:
    software = finding.software
    entries = (
        ("connection", f"{finding.client} to {finding.listener}"),
        ("client ID", finding.client_id or ""),
        ("principal", finding.principal or ""),
        ("runs in", finding.workload or finding.node or ""),
        ("owner", finding.owner or ""),
        ("expected", finding.expected),
        ("observed", finding.observed),
        ("frame", _place(finding)),
        ("begins with", finding.evidence.bytes),
        ("demanded by", finding.demanded_by),
        ("suppressed", str(finding.suppressed or "")),
    )
    client = link(anchors.client(software), text(software_text(software)))
    rows = f"<dt>client</dt><dd>{client}</dd><dt>rule</dt>"
    rows += f"<dd>{link(anchors.rule(finding.rule), escape(finding.rule))}</dd>"
    rows += "".join(f"<dt>{name}</dt><dd>{text(value)}</dd>" for name, value in entries if value)
    at_fault = text(software_text(software))
    seen = f"{times_seen(finding)}, last {moment(finding.last_captured_at)}"
    if finding.role == Role.BROKER:
        at_fault = f"{text(finding.listener)} to {at_fault}"
    return (
        f"<details><summary>{level_mark(finding.level)} <code>{escape(finding.rule)}</code> "
        f"<b>{at_fault}</b> {text(finding.message)} <small>{seen}</small></summary>"
        f"<dl>{rows}</dl></details>"
    )


def _place(finding: Finding) -> str:
    evidence = finding.evidence
    if evidence.packet:
        return f"{finding.sequence}, in packet {evidence.packet} of {evidence.source}"
    if evidence.row is not None:
        block = f"{evidence.source} {evidence.partition}:{evidence.offset}"
        return f"{finding.sequence}, row {evidence.row} of the block {block}"
    return f"{finding.sequence} of {evidence.source}"


def moment(captured_at: int) -> str:
    """Return a capture time, in nanoseconds since the epoch, as day and second in UTC."""
    return f"{np.datetime64(captured_at, 'ns').astype('datetime64[s]')}".replace("T", " ") + " UTC"


def _facts(clients: Sequence[Client], anchors: Anchors) -> str:
    return "\n".join(_client_facts(client, anchors.client(client.software)) for client in clients)


def _client_facts(client: Client, place: str) -> str:
    facts = "".join(f"<li>{escape(fact)}</li>" for fact in facts_of(client))
    seen = f"{counted(client.connections, 'connection')}, {counted(client.requests, 'request')}"
    used = "".join(
        f"<tr><td>{escape(use.api)}</td><td>{', '.join(map(str, use.versions))}</td>"
        f"<td>{'' if use.highest_offered is None else use.highest_offered}</td><td>{use.requests:,}</td></tr>"
        for use in client.versions
    )
    return (
        f'<h3 id="{place}">{text(software_text(client.software))} <small>{seen}</small></h3>\n'
        f"<ul>{facts}</ul>\n"
        "<details><summary>API versions in use</summary>\n<table><thead><tr><th>API</th><th>used</th>"
        f"<th>newest offered</th><th>requests</th></tr></thead><tbody>{used}</tbody></table></details>"
    )


def offers(view: VersionsView) -> str:
    """Return what each broker advertises, as HTML."""
    if not view.brokers:
        return "<p>No broker advertised its versions.</p>"
    heads = "".join(f'<th scope="col">{text(offer.broker)}</th>' for offer in view.brokers)
    names = {each.api_key: each.api for offer in view.brokers for each in offer.ranges}
    columns = [ranges_by_key(view.common), *(ranges_by_key(offer.ranges) for offer in view.brokers)]
    rows = "".join(_api_row(key, names[key], columns) for key in sorted(names))
    table = f"<thead><tr><th>API</th><th>all</th>{heads}</tr></thead><tbody>{rows}</tbody>"
    return (
        f"{_features(view.features)}<details open><summary>{counted(len(view.brokers), 'broker')}</summary>"
        f'<div class="wide"><table class="versions">{table}</table></div></details>'
    )


def _api_row(key: int, name: str, columns: Sequence[Mapping[int, str]]) -> str:
    cells = "".join(f"<td>{column.get(key, 'none')}</td>" for column in columns)
    return f'<tr><th scope="row">{escape(name)} <small>{key}</small></th>{cells}</tr>\n'


def _features(uses: Sequence[FeatureUse]) -> str:
    items = (f"<li><b>{text(use.feature)}</b>: {text('; '.join(feature_lines(use)))}</li>" for use in uses)
    return f"<ul>{''.join(items)}</ul>" if uses else ""


def upgrade_section(report: UpgradeReport) -> str:
    """Return the content of the section on an upgrade, as HTML."""
    summary = f"<p><b>{escape(upgrade_summary(report).plain)}</b></p>\n"
    return summary + "\n".join(map(_upgraded_client, report.clients))


def _upgraded_client(client: UpgradedClient) -> str:
    remarks = list(remarks_on(client))
    state, word = ("violation", "breaks") if client.breaks else ("improvement", "look at it")
    if not remarks:
        state, word = "conforms", "goes on"
    amount = f"{counted(client.connections, 'connection')}, {counted(client.requests, 'request')}"
    items = "".join(f"<li>{escape(remark)}</li>" for remark in remarks)
    return f"<h3>{level_mark(state, word)} {text(client.name)} <small>{amount}</small></h3>\n<ul>{items}</ul>"
