"""Every rule finds every mutant that breaks it, and a mutant breaks nothing but what its page says."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence

import pytest

from expectations.rules.catalogue import RULES, rule_named
from tests.examples import sampled
from tests.mutations.clean import KINDS
from tests.mutations.mutator import MUTATORS, Mutator
from tests.mutations.script import SCHEMAS, Script
from tests.mutations.sweeps import CLEAN, SWEEPS

FILES = (
    "kip_35",
    "kip_35_refusals",
    "kip_511",
    "kip_1082",
    "kip_1242",
    "kip_1313",
    "kip_1313_alignment",
    "wire",
)
RULE_IDS = [rule.id for rule in RULES]
for file in FILES:
    importlib.import_module(f"tests.mutations.{file}")


def mutants_of(rule: str, scripts: Sequence[Script] = CLEAN) -> Iterator[Script]:
    """The mutants of some scripts that break a rule."""
    return (m for mutator in MUTATORS.get(rule, []) for script in scripts for m in mutator(script))


def mutators_of(rule: str) -> str:
    """Return the file that the mutators of a rule's KIP are in."""
    return f"tests/mutations/{rule.partition('/')[0].replace('kip', 'kip_')}.py"


def found_in(script: Script) -> set[str]:
    """The rules that a script breaks."""
    return {finding.rule for finding in script.judge().findings}


def implied_by(rule: str) -> set[str]:
    """A rule and all rules that its offence may also break, by their pages and in turn."""
    implied, pending = set[str](), [rule]
    while pending:
        latest = pending.pop()
        if latest not in implied:
            implied.add(latest)
            pending += rule_named(latest).implies
    return implied


@pytest.mark.parametrize("script", CLEAN, ids=lambda script: script.name)
def test_a_clean_conversation_breaks_no_rule(script: Script) -> None:
    assert found_in(script) == set()


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULE_IDS)
def test_every_mutant_is_found_and_nothing_else(rule: str) -> None:
    """Of the conversations that differ in one version, `make test` breaks a share, each rule another."""
    allowed = implied_by(rule)
    mutants = mutants_of(rule, [*KINDS, *sampled(SWEEPS, RULE_IDS.index(rule))])
    judged = [(mutant.name, found_in(mutant)) for mutant in mutants]
    assert judged, f"add a mutator to {mutators_of(rule)}; then run `make rule RULE={rule}`"
    missed = [name for name, found in judged if rule not in found]
    assert missed == [], "the rule, or its mutator, is wrong"
    others = {other for _, found in judged for other in found - allowed}
    assert others == set(), f"add what else a mutant breaks to `implies` of {rule}, or break less"


def test_every_rule_has_a_mutator_and_nothing_else_has() -> None:
    missing = {rule.id: mutators_of(rule.id) for rule in RULES if rule.id not in MUTATORS}
    assert missing == {}, "add a function with @breaks(RULE) to the file of each, and its file to FILES here"
    assert MUTATORS.keys() == {rule.id for rule in RULES}


def test_every_mutator_breaks_some_clean_conversation() -> None:
    idle = [mutator for of_rule in MUTATORS.values() for mutator in of_rule if not breaks_some(mutator)]
    assert idle == []


def breaks_some(mutator: Mutator) -> bool:
    return any(True for script in CLEAN for _ in mutator(script))


def test_every_version_of_every_api_is_broken_somewhere() -> None:
    """A rule on all APIs has a mutant for every version of every API."""
    asked = {
        (ask.api, ask.version)
        for mutant in mutants_of("wire/correlation-mismatch")
        for _, ask in mutant.asks()
    }
    assert asked == {
        (api.name, version)
        for api in SCHEMAS.apis
        for version in range(api.versions.lowest, api.versions.highest + 1)
    }
