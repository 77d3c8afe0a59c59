"""The fleet on a terminal: a matrix of client software and rules, facts, and brokers' versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_uppercase

from rich.console import Group
from rich.table import Table
from rich.text import Text

from expectations.conversation.texts import printable
from expectations.report.client import Client, software_text
from expectations.report.coverage import RULE_LEVELS, Coverage, state_in_words
from expectations.report.terminal import LEVEL_STYLES, STATE_STYLES, counted
from expectations.report.versions import FeatureUse, VersionsView, ranges_by_key
from expectations.rules.catalogue import RULES

_RULE_WIDTH = max(len(rule.id) for rule in RULES)
_COLUMN_WIDTH = 10
"""Room for `123/456 ✕`, and a blank."""
LEVEL_SIGNS = {"violation": "✕", "improvement": "!", "information": "i"}
"""The sign of a rule's findings, by the rule's level: it can be read without colour."""
LEGEND = (
    "✕ violated   ! improvement   i information   (each of how many checks)   "
    "✓ conforms   ? undecided   · not exercised"
)


def fleet_matrix(clients: Sequence[Client], width: int) -> Group:
    """Return a table with a column per client software and a row per rule that any of them exercised.

    The other rules are listed in a line. Columns that do not fit into `width` characters continue in
    another table.
    """
    legend = [Text(f"{column_name(index)}  {client_heading(client)}") for index, client in enumerate(clients)]
    by_rule = list(zip(*(client.coverage for client in clients), strict=True))
    exercised = [rows for rows in by_rule if any(state_in_words(row) != "not exercised" for row in rows)]
    silent = [rows[0].rule for rows in by_rule if rows not in exercised]
    parts: list[Text | Table] = [*legend, Text(f"\n{LEGEND}", "dim")]
    fitting = max((width - _RULE_WIDTH) // _COLUMN_WIDTH, 1)
    for start in range(0, len(clients), fitting):
        parts += [Text(), _matrix_part(exercised, range(start, min(start + fitting, len(clients))))]
    if silent:
        parts.append(Text(f"\nnot exercised on anybody's connection: {', '.join(silent)}", "dim"))
    return Group(*parts)


def _matrix_part(exercised: Sequence[Sequence[Coverage]], columns: range) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("rule", no_wrap=True, min_width=_RULE_WIDTH)
    for index in columns:
        table.add_column(column_name(index), justify="right", no_wrap=True)
    for rows in exercised:
        table.add_row(rows[0].rule, *(_cell(rows[index]) for index in columns))
    return table


def fleet_facts(clients: Sequence[Client]) -> Group:
    """Return the facts of each client software that are worth knowing and no offence."""
    return Group(*(line for client in clients for line in _facts(client)))


def versions_tables(view: VersionsView) -> Group:
    """Return a table of each broker's ranges beside the common ones, and the use of features."""
    table = Table(box=None, pad_edge=False)
    table.add_column("API", no_wrap=True)
    table.add_column("all", no_wrap=True)
    for offer in view.brokers:
        table.add_column(offer.broker)
    common = ranges_by_key(view.common)
    offered = [ranges_by_key(offer.ranges) for offer in view.brokers]
    names = {each.api_key: each.api for offer in view.brokers for each in offer.ranges}
    for key in sorted(names):
        table.add_row(
            f"{names[key]} ({key})", common.get(key, "none"), *(each.get(key, "no") for each in offered)
        )
    return Group(table, *_features(view))


def column_name(index: int) -> str:
    """Return the name of a column as in a spreadsheet: A, B, … Z, AA."""
    before, last = divmod(index, len(ascii_uppercase))
    return (column_name(before - 1) if before else "") + ascii_uppercase[last]


def client_heading(client: Client) -> str:
    """Return the name of a client software and how much of it was seen."""
    name = printable(software_text(client.software))
    return f"{name}: {counted(client.connections, 'connection')}, {counted(client.requests, 'request')}"


def cell_text(row: Coverage) -> str:
    """Return a number and a sign, without colour: the state of a rule for a client software."""
    if row.violates:
        return f"{row.violates}/{row.violates + row.conforms} {LEVEL_SIGNS[RULE_LEVELS[row.rule]]}"
    if row.conforms:
        return f"{row.conforms} ✓"
    return f"{row.undecided} ?" if row.undecided else "·"


def facts_of(client: Client) -> Iterator[str]:
    """Yield the facts of a client software, one line each."""
    if client.owners:
        yield f"owners: {', '.join(map(printable, client.owners))}"
    if client.principals:
        yield f"principals: {', '.join(map(printable, client.principals))}"
    if client.client_ids:
        yield f"client IDs: {', '.join(map(printable, client.client_ids))}"
    if client.without_api_versions:
        yield f"connections without any ApiVersions (it is optional): {client.without_api_versions}"
    if client.old_api_versions:
        yield f"connections with ApiVersions below 3, which names no software: {client.old_api_versions}"
    if client.not_random_member_ids:
        ids = ", ".join(map(printable, client.not_random_member_ids))
        yield f"member IDs that are UUIDs, but not random ones: {ids}"
    yield from _header_facts(client)
    behind = [
        f"{use.api} {use.versions[-1]} of {use.highest_offered}"
        for use in client.versions
        if use.highest_offered is not None and use.versions and use.versions[-1] < use.highest_offered
    ]
    if behind:
        yield f"newest version used, of what a broker offered: {', '.join(behind)}"


def _header_facts(client: Client) -> Iterator[str]:
    """Yield what KIP-1313 saves this client software, or would save it."""
    if client.requests_on_header_v3:
        share = f"{client.requests_on_header_v3:,} of {counted(client.requests, 'request')}"
        saved, costs = client.client_id_bytes_saved, client.instance_id_bytes
        yield f"header 3: {share}; client IDs left out {saved:,} bytes, instance IDs take {costs:,}"
    if client.client_id_bytes_repeated:
        repeated = client.client_id_bytes_repeated
        yield f"client IDs sent again on the same connection: {counted(repeated, 'byte')}"


def feature_lines(use: FeatureUse) -> Iterator[str]:
    """Yield a line on which brokers cannot serve a feature, then lines on the clients that use it."""
    yield "every broker seen can serve it" if use.is_served else f"not served by {', '.join(use.missing)}"
    for words, clients in (("used by", use.used_by), ("used in part by", use.partly_used_by)):
        if clients:
            yield f"{words} {', '.join(printable(software_text(client)) for client in clients)}"


def _cell(row: Coverage) -> Text:
    style = LEVEL_STYLES[RULE_LEVELS[row.rule]] if row.violates else STATE_STYLES[state_in_words(row)]
    return Text(cell_text(row), style)


def _facts(client: Client) -> Iterator[Text]:
    facts = list(facts_of(client))
    if facts:
        yield Text(client_heading(client), "bold")
        yield from (Text(f"  {fact}") for fact in facts)


def _features(view: VersionsView) -> Iterator[Text]:
    for use in view.features:
        served, *used = feature_lines(use)
        style = "green" if use.is_served else "yellow"
        yield Text.assemble("\n", (use.feature, "bold"), ": ", (served, style))
        yield from (Text(f"  {line}") for line in used)
