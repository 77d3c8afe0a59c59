"""Decisions on rules: a suppression holds for what it names and until its day, and never in silence."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from expectations.catalogue import RULES
from expectations.rule import Level
from streaming.configuration import Configuration, Suppression
from streaming.failure import UserError
from streaming.suppression import Decisions, Ruling
from tests.streaming.captures import violating

FINDINGS = violating().judge().findings
RULE = "kip1313/instance-id-changed"
UNTIL = date(2026, 6, 30)


def ruling(today: date = UNTIL, **what: Any) -> Ruling:
    suppression = Suppression(**{"rule": RULE, "reason": "known", "until": UNTIL, **what})
    return Decisions(Configuration(suppress=[suppression])).rule_on(FINDINGS, today)


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"client_software_name": "RP Console"},
        {"client": "10.0.0.1"},
        {"client": "10.0.0.1:40000", "broker": "10.0.0.2:9092"},
        {"client_id": "app", "broker": "10.0.0.2"},
    ],
    ids=str,
)
def test_a_finding_is_suppressed_where_all_that_is_given_matches(what: dict[str, str]) -> None:
    ruled = ruling(**what)
    assert [each.finding.rule for each in ruled.suppressed] == [RULE]
    assert len(ruled.findings) == len(FINDINGS) - 1
    assert [(use.findings, use.complaint) for use in ruled.suppressions] == [(1, "")]


@pytest.mark.parametrize(
    "what",
    [
        {"client_software_name": "another"},
        {"client": "10.0.0.9"},
        {"client_id": "app", "broker": "10.0.0.2:1"},
        {"rule": "kip35/range-inverted"},
    ],
    ids=str,
)
def test_a_suppression_that_matches_nothing_is_told_of(what: dict[str, str]) -> None:
    ruled = ruling(**what)
    assert (ruled.suppressed, ruled.findings) == ([], FINDINGS)
    assert "matches no finding" in ruled.suppressions[0].complaint


@pytest.mark.parametrize(("today", "expired"), [(UNTIL, False), (date(2026, 7, 1), True)])
def test_it_holds_until_and_including_its_day(today: date, expired: bool) -> None:
    ruled = ruling(today)
    assert bool(ruled.suppressed) is not expired
    assert ruled.suppressions[0].expired is expired
    assert ("ended on 2026-06-30" in ruled.suppressions[0].complaint) is expired


def test_a_level_is_overridden() -> None:
    decisions = Decisions(Configuration(levels={RULE: Level.INFORMATION}))
    levels = {finding.rule: finding.level for finding in decisions.rule_on(FINDINGS, UNTIL).findings}
    assert levels == {RULE: "information", "kip511/software-name-malformed": "violation"}


def test_a_rule_that_is_off_is_left_out() -> None:
    decisions = Decisions(Configuration(disable=[RULE]))
    assert {rule.id for rule in RULES} - {rule.id for rule in decisions.rules(RULES)} == {RULE}
    assert decisions.disabled == [RULE]


@pytest.mark.parametrize(
    "configuration",
    [
        Configuration(disable=["kip1313/nonsense"]),
        Configuration(levels={"kip1313/nonsense": Level.VIOLATION}),
        Configuration(suppress=[Suppression("kip1313/nonsense", "why", UNTIL)]),
    ],
    ids=["disable", "levels", "suppress"],
)
def test_a_rule_that_is_none_is_refused(configuration: Configuration) -> None:
    with pytest.raises(UserError, match="names a rule 'kip1313/nonsense'; `kipwatch rules` lists them"):
        Decisions(configuration)
