"""Validates a table with a suite, in memory."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import great_expectations
import pandas

from expectations.suites.expectation import Expectation, Suite


@dataclass(frozen=True, slots=True)
class ExpectationOutcome:
    """The result of one expectation: how many rows do not meet it, how severe that is, and what to do."""

    id: str
    success: bool
    unexpected_count: int
    severity: str
    meaning: str
    action: str


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The results of all expectations on a table of `rows` rows."""

    table: str
    rows: int
    outcomes: tuple[ExpectationOutcome, ...]

    @property
    def success(self) -> bool:
        """Whether every expectation is met."""
        return all(outcome.success for outcome in self.outcomes)


def validate(suite: Suite, table: pandas.DataFrame) -> SuiteResult:
    """Validate the rows of a table. Writes no file and uses no network."""
    known = {expectation.id: expectation for expectation in suite.expectations}
    outcomes = [
        outcome_of(
            known[identifier(result)], success=bool(result.success), unexpected_count=unexpected(result)
        )
        for result in run_suite(suite, table)
    ]
    return SuiteResult(suite.table, len(table), tuple(sorted(outcomes, key=lambda each: each.id)))


def run_suite(suite: Suite, table: pandas.DataFrame) -> Sequence[Any]:
    """Return what Great Expectations says of each expectation on the rows of a table."""
    context = great_expectations.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    source = context.data_sources.add_pandas("kipwatch")
    # Great Expectations takes an expectation for one run.
    checks = [copy.copy(expectation.check) for expectation in suite.expectations]
    validation = great_expectations.ValidationDefinition(
        name=suite.table,
        data=source.add_dataframe_asset(suite.table).add_batch_definition_whole_dataframe("slice"),
        suite=context.suites.add(great_expectations.ExpectationSuite(suite.table, expectations=checks)),
    )
    validated = context.validation_definitions.add(validation).run(
        batch_parameters={"dataframe": table}, result_format="BASIC"
    )
    found: Sequence[Any] = validated.results
    return found


def identifier(result: Any) -> str:
    """Return the id of the expectation that a result of Great Expectations is about."""
    return str(result.expectation_config.meta["id"])


def unexpected(result: Any) -> int:
    """Return how many rows do not meet an expectation; 1 if it is about the whole table and is not met."""
    return int(result.result.get("unexpected_count", int(not result.success)))


def outcome_of(expectation: Expectation, *, success: bool, unexpected_count: int) -> ExpectationOutcome:
    """Return the result of an expectation."""
    return ExpectationOutcome(
        expectation.id,
        success,
        unexpected_count,
        expectation.severity,
        expectation.meaning,
        expectation.action,
    )
