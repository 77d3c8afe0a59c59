"""The last survey of bugs: each was found or says why not, and none where it was fixed."""

from __future__ import annotations

from collections import Counter

import pytest

from expectations.rules.catalogue import RULES
from tests.clients.rediscovered import provoked
from tests.clients.rediscovered.attempt import Attempt, outcome
from tests.clients.rediscovered.bug import Bug, bugs
from tests.clients.rediscovered.page import PAGE, page
from tests.clients.rediscovered.survey import RESULTS
from tests.clients.running import Found

DONE, PROVOKED = RESULTS.read(), provoked.RESULTS.read()
REPRODUCED, FOUND = 15, 12
"""How many bugs are reproduced, and found, at least."""


def test_the_page_has_not_drifted() -> None:
    """`make docs` writes it anew."""
    assert PAGE.read_text() == page(DONE, PROVOKED)


@pytest.mark.parametrize("bug", bugs(), ids=lambda bug: bug.name)
def test_each_bug_is_found_or_says_why_not(bug: Bug) -> None:
    assert outcome(bug, DONE) == ("found" if bug.rules else "missed")
    assert bool(bug.rules) != bool(bug.missed)
    assert set(bug.rules) <= {rule.id for rule in RULES}


@pytest.mark.parametrize("bug", bugs(), ids=lambda bug: bug.name)
def test_only_an_affected_version_fails(bug: Bug) -> None:
    failed = [each.version for each in DONE if each.bug == bug.name and each.failed]
    assert set(failed) <= {bug.affected}


@pytest.mark.parametrize("bug", [bug for bug in bugs() if bug.provoked], ids=lambda bug: bug.name)
def test_a_provocation_brings_a_bug_about_in_the_affected_version_only(bug: Bug) -> None:
    for name, rules in bug.provoked.items():
        by_version = {
            each.version: each for each in PROVOKED if (each.bug, each.provocation) == (bug.name, name)
        }
        affected, fixed = (by_version[version].rules & set(rules) for version in bug.versions)
        assert (affected, fixed) == (set(rules), set())


def test_enough_bugs_were_reproduced_and_found() -> None:
    outcomes = Counter(outcome(bug, DONE) for bug in bugs())
    assert outcomes["found"] >= FOUND
    assert outcomes["found"] + outcomes["missed"] >= REPRODUCED
    assert outcomes["false"] == 0


def test_outcomes() -> None:
    bug = next(bug for bug in bugs() if bug.rules)
    guilty = [Found(rule, "violation", 1, "", "", "") for rule in bug.rules]
    innocent: list[Found] = []
    seen = {
        "found": (guilty, innocent),
        "missed": (innocent, innocent),
        "false": (guilty, guilty),
    }
    for expected, (affected, fixed) in seen.items():
        attempts = [_attempt(bug, bug.affected, affected), _attempt(bug, bug.fixed, fixed)]
        assert outcome(bug, attempts) == expected
        assert outcome(bug, attempts[:1]) == "not run"


def _attempt(bug: Bug, version: str, findings: list[Found]) -> Attempt:
    return Attempt(bug=bug.name, version=version, date="", frames=1, findings=findings)
