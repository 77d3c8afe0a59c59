"""A check on a terminal: findings, coverage, the verdict in one line, and what an upgrade means.

Findings are grouped by client software and rule, and the first few of a group are listed. Every colour comes
with a word of the same meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from decoders.protocol import METADATA, OPENING_APIS
from expectations.conversation.texts import printable
from expectations.judging.finding import Finding
from expectations.report.client import Client, Software, software_order, software_text
from expectations.report.coverage import RULE_LEVELS, Coverage, state_in_words
from expectations.report.upgrade import UpgradedClient, UpgradeFate, UpgradeReport, UpgradeRow
from expectations.rules.base.rule import Level, Role, gravity

LEVEL_STYLES = {"violation": "bold red", "improvement": "yellow", "information": "cyan"}
STATE_STYLES = {"violated": "bold red", "conforms": "green", "undecided": "magenta", "not exercised": "dim"}
_NANOSECONDS = 1_000_000_000
_INDENT, _NARROW_INDENT = 14, 4
_REMARK_INDENT = 4
_NARROW = 86
"""Columns below which a terminal has no room for the counts of all verdicts beside the longest rule."""
SHOWN = 3
"""Findings of a group that are listed: a broken client may open ten thousand connections."""
_CLIENTS = 20
"""Client software that is listed: a stranger may invent any number."""


class FindingGroup(NamedTuple):
    """`shown` are the first findings, `others` counts the connections not shown, `times` their offences."""

    software: Software
    rule: str
    shown: Sequence[Finding]
    others: int
    times: int

    @property
    def remainder(self) -> str:
        """Return a line that says what is not shown, "" if nothing is left out."""
        if not self.others:
            return ""
        return f"and {self.times:,} times on {counted(self.others, 'more connection')}"


def groups_of(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Group findings by client software, the unknown last, and within it by rule in order of appearance."""
    gathered: dict[tuple[Software, str], list[Finding]] = {}
    for finding in findings:
        gathered.setdefault((finding.software, finding.rule), []).append(finding)
    return [
        FindingGroup(
            software, rule, found[:SHOWN], len(found[SHOWN:]), sum(each.occurrences for each in found[SHOWN:])
        )
        for (software, rule), found in sorted(gathered.items(), key=lambda item: software_order(item[0][0]))
    ]


def finding_line(finding: Finding) -> Text:
    """Return one line: level, rule, connection, with the client's software, and message."""
    line = _level(finding).append(f"{finding.rule:<31} ", "bold")
    owner = f" of {printable(finding.owner)}" if finding.owner else ""
    line.append(f"{_user(finding)}{owner} → {finding.listener}  ", "dim")
    line.append(finding.message)
    return line


def _user(finding: Finding, *, in_group: bool = False) -> str:
    """Return a client's address, its software or else its client ID, where it runs, and its login.

    `in_group` means that its software is said above.
    """
    known_as = "" if in_group else software_text(finding.software)
    named = known_as if finding.client_software_name else finding.client_id
    named = f" ({named})" if named else ""
    place = f" in {finding.workload}" if finding.workload else f" on {finding.node}" if finding.node else ""
    name = f" as {finding.principal}" if finding.principal else ""
    return f"{finding.client}{printable(named + place + name)}"


def counted(count: int, what: str) -> str:
    """Return a number and what it counts, in the plural unless it is one."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _level(finding: Finding) -> Text:
    if finding.suppressed:
        return Text("suppressed  ", "dim")
    return Text(f"{finding.level:<11} ", LEVEL_STYLES[finding.level])


def findings_list(findings: Iterable[Finding], width: int = _NARROW) -> Group:
    """Return the findings, grouped under the client software of their connections, for a terminal's width."""
    indent = _INDENT if width >= _NARROW else _NARROW_INDENT
    parts: list[Text | Padding] = []
    for software, groups in groupby(groups_of(findings), key=lambda group: group.software):
        parts.append(Text(printable(software_text(software)), "bold underline"))
        parts.extend(part for group in groups for part in _group(group, indent))
    return Group(*parts)


def _group(group: FindingGroup, indent: int) -> Iterator[Text | Padding]:
    for finding in group.shown:
        yield from _entry(finding, indent)
    if group.remainder:
        yield Padding(Text(group.remainder, "dim"), (0, 0, 0, indent))


def client_lines(clients: Sequence[Client]) -> Iterator[Text]:
    """Yield a line for each client software, the busiest first: its requests, connections and client IDs."""
    busiest = sorted(clients, key=lambda client: -client.requests)
    for client in busiest[:_CLIENTS]:
        line = Text("client ", "dim").append(printable(software_text(client.software)), "bold")
        line.append(f": {counted(client.requests, 'request')} on {counted(client.connections, 'connection')}")
        if client.client_ids:
            line.append(f", as {', '.join(map(printable, client.client_ids))}", "dim")
        yield line
    if len(busiest) > _CLIENTS:
        yield Text(f"and {len(busiest) - _CLIENTS:,} more; --json lists all", "dim")


def coverage_table(
    coverage: Sequence[Coverage], findings: Iterable[Finding] = (), width: int = _NARROW
) -> Table:
    """Return a table with a row per rule: its verdicts, its state, and why it was undecided.

    The state of a rule with findings is their gravest level. A narrow terminal gets one number, that of the
    checks that made the state.
    """
    levels = _levels_of(findings)
    headings = ("conforms", "violates", "undecided") if width >= _NARROW else ("",)
    table = Table(box=None, pad_edge=False)
    table.add_column("rule", min_width=max((len(row.rule) for row in coverage), default=0))
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for row in coverage:
        counts = [row.conforms, row.violates, row.undecided]
        if width < _NARROW:
            counts = [row.violates or row.conforms or row.undecided]
        table.add_row(_rule(row), *map(str, counts), _state(row, levels), style=_row_style(row))
    return table


def _rule(row: Coverage) -> Text:
    """Return a rule, and below it why it was undecided, with numbers if there are several reasons."""
    reasons = [f"{reason} {count}" for reason, count in row.reasons.items()]
    if len(reasons) == 1:
        reasons = list(row.reasons)
    return Text(row.rule).append(f"\n  undecided: {', '.join(reasons)}" if reasons else "", "dim")


def _levels_of(findings: Iterable[Finding]) -> Mapping[str, str]:
    """Return the gravest level of each rule's findings, which may differ from the rule's own."""
    gravest: dict[str, str] = {}
    for finding in findings:
        gravest[finding.rule] = min(gravest.get(finding.rule, finding.level), finding.level, key=gravity)
    return gravest


def _state(row: Coverage, levels: Mapping[str, str]) -> Text:
    """Return the state of a rule; findings that are improvements or information give it their level."""
    if not row.violates:
        word = state_in_words(row)
        return Text(word, STATE_STYLES[word])
    level = levels.get(row.rule, RULE_LEVELS[row.rule])
    return Text("violated" if level == Level.VIOLATION else level, LEVEL_STYLES[level])


def _row_style(row: Coverage) -> str:
    """Grey out a rule that was not exercised: it is neither good nor bad."""
    return "" if row.exercised or row.undecided else "dim"


def _entry(finding: Finding, indent: int) -> Iterator[Text | Padding]:
    head = Text("  ").append(_level(finding)).append(f"{finding.rule:<31}", "bold")
    yield head.append(f" {times_seen(finding)}", "dim")
    details = Text(f"{_user(finding, in_group=True)} → {finding.listener}{_place(finding)}\n", "dim")
    details.append(f"{finding.message}\n", "default")
    values = (("expected", finding.expected), ("observed", finding.observed))
    if given := "; ".join(f"{name} {printable(value)}" for name, value in values if value):
        details.append(f"{given}\n")
    details.append(finding.demanded_by)
    if finding.suppressed:
        details.append(f"\nsuppressed {printable(str(finding.suppressed))}")
    yield Padding(details, (0, 0, 0, indent), expand=False)


def times_seen(finding: Finding) -> str:
    """Return how often an offence was seen, and in how many seconds from first to last."""
    if finding.occurrences == 1:
        return "seen 1 time"
    seconds = (finding.last_captured_at - finding.first_captured_at) / _NANOSECONDS
    return f"seen {finding.occurrences} times in {seconds:.1f} s"


def _place(finding: Finding) -> str:
    evidence = finding.evidence
    packet = f" in packet {evidence.packet} of {printable(evidence.source)}" if evidence.packet else ""
    return f"  frame {finding.sequence}{packet}"


def verdict_line(findings: Sequence[Finding], suppressed: int, coverage: Sequence[Coverage]) -> Text:
    """Return the verdict, such as `2 violations by 1 client; 31 of 77 rules exercised`.

    `findings` are those that count. A client is a client software by name and version, a broker an address.
    """
    exercised = sum(row.exercised for row in coverage)
    parts = [
        _found(findings),
        f"{counted(suppressed, 'finding')} suppressed" if suppressed else "",
        f"{exercised} of {counted(len(coverage), 'rule')} exercised",
    ]
    return Text("; ".join(filter(None, parts)), _style(findings))


def _found(findings: Sequence[Finding]) -> str:
    if not findings:
        return "no findings"
    levels = Counter(finding.level for finding in findings)
    found = ", ".join(counted_level(level, levels[level]) for level in Level if levels[level])
    return f"{found} by {_at_fault(findings)}"


def counted_level(level: str, count: int) -> str:
    """Return a number of findings of a level. `information` has no plural."""
    return f"{count:,} information" if level == Level.INFORMATION else counted(count, level)


def _at_fault(findings: Sequence[Finding]) -> str:
    brokers = {finding.listener for finding in findings if finding.role == Role.BROKER}
    clients = {finding.software for finding in findings if finding.role != Role.BROKER}
    sides = ((len(clients), "client"), (len(brokers), "broker"))
    return " and ".join(counted(count, side) for count, side in sides if count)


def _style(findings: Sequence[Finding]) -> str:
    gravest = next((level for level in Level if any(each.level == level for each in findings)), None)
    return LEVEL_STYLES[gravest] if gravest else "bold green"


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
        parts.append(Text(f"it keeps every request of {counted(silent, 'other client')}", "dim"))
    if report.refused_before:
        text = f"{counted(report.refused_before, 'request')} that Kafka {report.upgrade_from} refuses, too"
        parts.append(Text(f"left out: {text}", "dim"))
    return Group(*parts)


def remarks_on(client: UpgradedClient) -> Iterator[str]:
    """Yield remarks on a client, one line each; none for a client that the upgrade does not concern."""
    for row in client.rows:
        if row.verdict is not UpgradeFate.KEPT:
            yield row_text(row)
    if client.falls_back:
        yield "its ApiVersions is answered with error 35, and it must ask again with version 0"
    if client.without_api_versions:
        on = counted(client.without_api_versions, "connection")
        yield f"never asks for the versions, on {on}: it cannot choose others"
    if {row.api_key for row in client.rows} <= OPENING_APIS | {METADATA}:
        yield "only opened connections and looked for brokers: what else it sends was not seen"


def row_text(row: UpgradeRow) -> str:
    """Return what happens to the requests of one API version."""
    has = f"it has {row.supported}" if row.supported else "it has no such API"
    fate = "deprecated" if row.verdict is UpgradeFate.DEPRECATED else f"removed; {has}"
    may = ", but the client negotiates and may know others" if row.negotiable else ""
    seen = f"{counted(row.requests, 'request')}, last {day_of(row.last_seen)}"
    return f"{row.api} v{row.version}: {fate}{may if row.verdict is UpgradeFate.REMOVED else ''} ({seen})"


def day_of(time: int) -> str:
    """Return a capture time as a day and minute in UTC."""
    return str(np.datetime64(time, "ns").astype("datetime64[m]")).replace("T", " ")


def _client(client: UpgradedClient) -> Iterator[Text | Padding]:
    sign, style = ("✕", LEVEL_STYLES["violation"]) if client.breaks else ("!", LEVEL_STYLES["improvement"])
    amount = f"{counted(client.connections, 'connection')}, {counted(client.requests, 'request')}"
    yield Text.assemble((f"{sign} ", style), (printable(client.name), "bold"), f": {amount}")
    for remark in remarks_on(client):
        yield Padding(Text(remark), (0, 0, 0, _REMARK_INDENT), expand=False)
