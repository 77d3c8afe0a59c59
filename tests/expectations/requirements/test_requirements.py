"""The requirements: every rule judges one, and every requirement is judged, shown, or says why not."""

from __future__ import annotations

import re

import pytest

from expectations.requirements.table import LEVELS, Demand, Requirement
from expectations.rules.base.rule import Level, Rule
from expectations.rules.catalogue import RULES
from tests.cases.test_cases import CASES
from tests.expectations.requirements.tables import (
    SHIPPED,
    demands_on,
    is_shown,
    sources_of,
    tables,
)

ROWS = [(table.source, requirement) for table in tables() for requirement in table.requirement]
SHOWN_LEVELS: dict[str, set[Level]] = {rule.id: set() for rule in RULES}
"""The levels of each rule's findings in the cases."""
for level, rule, *_ in (finding.split() for case in CASES for finding in case.findings):
    SHOWN_LEVELS[rule.removesuffix(":")].add(Level(level))
EVERY_ROW = pytest.mark.parametrize(
    ("source", "requirement"), ROWS, ids=[f"{source} {row.says[:40]}" for source, row in ROWS]
)


def test_the_sources_are_the_five_kips_and_released_kafka() -> None:
    assert {table.source for table in tables()} == {
        "KIP-1313",
        "KIP-1082",
        "KIP-511",
        "KIP-35",
        "KIP-1242",
        SHIPPED,
    }


def test_a_rule_judges_a_requirement_of_its_kip_or_of_released_kafka() -> None:
    missing = [rule.id for rule in RULES if not sources_of(rule.id) & {rule.kip, SHIPPED}]
    assert missing == [], "add each to `rules` of a requirement in expectations/requirements/kip_*.toml"


@EVERY_ROW
def test_a_requirement_is_judged_or_shown_or_says_why_it_is_neither(
    source: str, requirement: Requirement
) -> None:
    answers = (requirement.rules, requirement.shown, requirement.not_observable)
    assert sum(map(bool, answers)) == 1


@EVERY_ROW
def test_a_sentence_that_recommends_is_no_must(source: str, requirement: Requirement) -> None:
    recommends = re.search(r"\b(should|recommended)\b", requirement.says, re.I) is not None
    assert recommends == (requirement.demand is not Demand.MUST)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_offence_weighs_more_than_its_requirement_demands(rule: Rule) -> None:
    highest = max((demand.highest_level for demand in demands_on(rule)), key=LEVELS.index)
    heavier = {
        level for level in SHOWN_LEVELS[rule.id] | {rule.level} if LEVELS.index(level) > LEVELS.index(highest)
    }
    assert heavier == set(), f"the requirements of {rule.id} make it at most {highest}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_an_offence_against_a_recommendation_weighs_what_it_demands(rule: Rule) -> None:
    demands = demands_on(rule)
    if Demand.MUST not in demands:
        assert {rule.level} == {demand.highest_level for demand in demands}


@EVERY_ROW
def test_what_shows_a_requirement_exists(source: str, requirement: Requirement) -> None:
    assert [name for name in requirement.shown if not is_shown(name)] == []


def test_what_does_not_exist_shows_nothing() -> None:
    unknown = (
        "metric kipwatch_moons",
        "report Client.moons",
        "report Moon.client_ids",
        "decode moons",
        "moons",
    )
    assert [name for name in unknown if is_shown(name)] == []


@EVERY_ROW
def test_the_rules_of_a_requirement_exist_and_are_named_once(source: str, requirement: Requirement) -> None:
    assert set(requirement.rules) <= {rule.id for rule in RULES}
    assert len(set(requirement.rules)) == len(requirement.rules)


@EVERY_ROW
def test_a_requirement_is_a_sentence_with_a_place(source: str, requirement: Requirement) -> None:
    assert re.fullmatch(r"[A-Z].*\.", requirement.says)
    assert len(requirement.section) > 3


def test_no_requirement_stands_twice() -> None:
    said = [(source, requirement.section, requirement.says) for source, requirement in ROWS]
    assert len(set(said)) == len(said)
