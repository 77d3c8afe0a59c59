"""The suites over the archive's findings and coverage: known rules, with evidence, and each batch once.

`coverage` counts the verdicts of each rule, so rules with findings have violations there, and the other way
round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from great_expectations import expectations as expect

from expectations.rules.base.rule import Level, Role, Verdict
from expectations.rules.catalogue import RULES
from expectations.suites.suite import (
    CONNECTION_ID,
    CRITICAL,
    OF_A_BATCH,
    WARNING,
    Expectation,
    among,
    counted,
    expected,
    unique,
)

FINDING_ID: Final = r"^[0-9a-f]{24}$"
EVIDENCE: Final = r'"source":"[^"]+"'
_TEXTS: Final = ("message", "kip", "section")
_FAULT: Final = "Report it as a fault of kipwatch, with the finding."


def findings_expectations() -> tuple[Expectation, ...]:
    return (
        expected(
            expect.ExpectColumnValuesToMatchRegex,
            "finding-id",
            CRITICAL,
            "The id of a finding is 24 hex digits, the same whenever it is published.",
            "Another program wrote the row: delete its file.",
            column="id",
            regex=FINDING_ID,
        ),
        expected(
            expect.ExpectColumnValuesToMatchRegex,
            "finding-connection",
            CRITICAL,
            "A finding names its connection, by 32 hex digits.",
            "Another program wrote the row: delete its file.",
            column="connection",
            regex=CONNECTION_ID,
        ),
        unique(
            "finding-published-once",
            ("query", "id", "level", "occurrences"),
            "A finding is published again only if it has grown or weighs more.",
        ),
        among("rule", "rule-in-catalogue", rule_ids(), "A finding is of a rule that this release has."),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "finding-was-counted",
            WARNING,
            "A rule with findings has violations in `coverage`.",
            "A file of `coverage` is missing: restore it, or delete the batch from all tables.",
            column="is_counted",
            value_set=[True],
        ),
        *(
            expected(
                expect.ExpectColumnValueLengthsToBeBetween,
                f"{column}-given",
                CRITICAL,
                f"A finding has a {column}, without which nobody can act on it.",
                _FAULT,
                column=column,
                min_value=1,
            )
            for column in _TEXTS
        ),
        among("level", "level-known", list(map(str, Level)), "A finding has a level."),
        among("role", "role-known", [str(Role.CLIENT), str(Role.BROKER)], "A finding says who is at fault."),
        counted("occurrences", "occurrences-counted"),
        expected(
            expect.ExpectColumnValuesToMatchRegex,
            "evidence-present",
            CRITICAL,
            "A finding says where its frame is.",
            "Report it as a fault of kipwatch: an accusation without evidence must not be published.",
            column="evidence",
            regex=EVIDENCE,
        ),
        expected(
            expect.ExpectColumnPairValuesAToBeGreaterThanB,
            "first-before-last",
            CRITICAL,
            "The first offence is not later than the last.",
            _FAULT,
            column_A="last_captured_at",
            column_B="first_captured_at",
            or_equal=True,
        ),
    )


def coverage_expectations() -> tuple[Expectation, ...]:
    return (
        among("rule", "covered-rule-in-catalogue", rule_ids(), "A check is of a rule that this release has."),
        among("verdict", "verdict-known", list(map(str, Verdict)), "A check has one of three verdicts."),
        counted("checks", "checks-counted"),
        unique(
            "coverage-once",
            ("file", "rule", "verdict"),
            "A batch counts a rule's verdict in one row.",
            row_condition=OF_A_BATCH,
        ),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "violation-was-found",
            WARNING,
            "A rule with violations has findings.",
            "A file of `findings` is missing: read the findings of that time from their topic.",
            column="is_found",
            value_set=[True],
        ),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "checked-was-used",
            CRITICAL,
            "A batch in which requests were checked has usage.",
            "A file of `usage` is missing: restore it, or delete the batch from all tables.",
            column="is_used",
            value_set=[True],
        ),
    )


def rule_ids() -> Sequence[str]:
    return [rule.id for rule in RULES]
