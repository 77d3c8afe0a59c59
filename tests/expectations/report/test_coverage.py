"""Coverage: silence and conformity are told apart."""

from __future__ import annotations

import pytest

from expectations.report.coverage import Coverage, coverage_of, state_in_words
from expectations.rules.catalogue import RULES

RULE = "kip35/version-out-of-range"


def test_every_rule_has_a_row_in_the_order_of_the_catalogue() -> None:
    assert [row.rule for row in coverage_of({})] == [rule.id for rule in RULES]
    assert not any(row.exercised for row in coverage_of({}))


def test_counts_go_to_their_rule_and_verdict() -> None:
    checks = {
        (RULE, "conforms"): 5,
        (RULE, "violates"): 2,
        (RULE, "cut"): 1,
        (RULE, "not-asked"): 3,
        ("gone/rule", "violates"): 9,
    }
    rows = {row.rule: row for row in coverage_of(checks)}
    assert rows[RULE] == Coverage(RULE, 5, 2, 4, {"not-asked": 3, "cut": 1})
    assert [*rows[RULE].reasons] == ["not-asked", "cut"]
    assert sum(row.violates for row in rows.values()) == 2


@pytest.mark.parametrize(
    ("counts", "word", "exercised"),
    [
        ((0, 0, 0), "not exercised", False),
        ((0, 0, 3), "undecided", False),
        ((1, 0, 3), "conforms", True),
        ((1, 1, 3), "violated", True),
        ((0, 1, 0), "violated", True),
    ],
)
def test_one_word_says_how_it_came_out(counts: tuple[int, int, int], word: str, exercised: bool) -> None:
    coverage = Coverage(RULE, *counts)
    assert state_in_words(coverage) == word
    assert coverage.exercised is exercised
