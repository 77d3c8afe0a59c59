"""The matrix of clients and rules, and the facts below it, as a terminal shows them."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from decoders.schema.registry import default_schemas
from expectations.report.coverage import Coverage
from expectations.report.matrix import (
    LEGEND,
    cell_text,
    column_name,
    feature_lines,
    fleet_facts,
    fleet_matrix,
    versions_tables,
)
from expectations.report.versions import FeatureUse, versions_view
from expectations.rules.catalogue import RULES
from streaming.check.examination import Examination, examine
from tests.captures import planted, real_clients

FEATURES = {"share-groups": {76: 1, 78: 1}, "time-travel": {9_999: 0}}


@pytest.fixture(scope="module", params=[planted.CAPTURE, real_clients.CAPTURE], ids=["planted", "real"])
def examination(request: pytest.FixtureRequest) -> Examination:
    return examine(request.param, default_schemas())


def printed(examination: Examination) -> str:
    output = io.StringIO()
    console = Console(file=output, width=160)
    view = versions_view(examination.brokers, examination.clients, FEATURES, default_schemas().api_names)
    for part in (
        fleet_matrix(examination.clients, console.width),
        fleet_facts(examination.clients),
        versions_tables(view),
    ):
        console.print(part)
    return output.getvalue()


@pytest.mark.parametrize(("level", "sign"), [("violation", "✕"), ("improvement", "!"), ("information", "i")])
def test_each_level_has_a_sign_of_its_own(level: str, sign: str) -> None:
    rules = [rule.id for rule in RULES if rule.level == level]
    assert rules
    assert {cell_text(Coverage(rule, 6, 3, 0)) for rule in rules} == {f"3/9 {sign}"}
    assert f"{sign} " in LEGEND


def test_the_terminal_tells_apart_what_conforms_and_what_nothing_exercised(examination: Examination) -> None:
    """By signs and words, not by colour."""
    text = printed(examination)
    matrix, _, below = text.partition("not exercised on anybody's connection:")
    rows = {line.split()[0]: line for line in matrix.splitlines() if re.match(r"(kip\d+|wire)/", line)}
    assert "✓" in rows["wire/trailing-bytes"]
    silent = " ".join(below.split())
    for rule in (rule.id for rule in RULES):
        assert (rule in rows) is not (rule in re.split(r"[, ]+", silent))


def test_many_clients_take_several_tables_and_no_cell_is_cut_off(examination: Examination) -> None:
    output = io.StringIO()
    clients = examination.clients * 10
    Console(file=output, width=80).print(fleet_matrix(clients, 80))
    headings = [line.split()[1:] for line in output.getvalue().splitlines() if line.startswith("rule ")]
    assert [name for names in headings for name in names] == [
        column_name(index) for index in range(len(clients))
    ]
    assert "…" not in output.getvalue()


def test_features_are_told_with_who_serves_them(examination: Examination) -> None:
    text = printed(examination)
    assert "share-groups: every broker seen can serve it" in text
    assert f"time-travel: not served by {examination.brokers[0].address}" in text


def test_a_feature_is_told_with_who_uses_it_wholly_and_in_part() -> None:
    use = FeatureUse("share-groups", [], [("java", "4.4.0"), (None, None)], [("go\n", "1")])
    assert [*feature_lines(use)] == [
        "every broker seen can serve it",
        "used by java 4.4.0, unknown",
        r"used in part by go\n 1",
    ]


def test_columns_are_named_as_in_spreadsheets() -> None:
    assert [column_name(index) for index in (0, 25, 26, 51, 52, 701, 702)] == [
        "A", "Z", "AA", "AZ", "BA", "ZZ", "AAA",
    ]  # fmt: skip
