"""The suite over the archive's coverage: known rules and verdicts, each batch once."""

from __future__ import annotations

from great_expectations import expectations as expect

from expectations.rules.base.rule import Verdict
from expectations.suites.every_table import OF_A_BATCH, among, counted, unique
from expectations.suites.expectation import CRITICAL, WARNING, Expectation, expected
from expectations.suites.findings import rule_ids


def coverage_expectations() -> tuple[Expectation, ...]:
    """Return the expectations."""
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
