"""Tables that are validated in chunks: which rows belong together, and what the results of all chunks say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pandas
from great_expectations import expectations as expect

from expectations.suites.expectation import Suite
from expectations.suites.validation import SuiteResult, identifier, outcome_of, run_suite, unexpected

LEAST_SHARE: Final = 1.0
"""The share of rows that must meet an expectation which names none."""


@dataclass(frozen=True, slots=True)
class ChunkOutcome:
    """What a chunk of `rows` rows says of an expectation, which concerns `considered` of them."""

    id: str
    success: bool
    rows: int
    considered: int
    unexpected: int


def rows_together(suite: Suite, columns: Collection[str]) -> list[str]:
    """Return those of `columns` that decide a row's chunk: rows that are one too many agree in them.

    Raises ValueError if no column does.
    """
    keys = [
        set(each.check.column_list)
        for each in suite.expectations
        if isinstance(each.check, expect.ExpectCompoundColumnsToBeUnique)
    ]
    together = sorted(set(columns).intersection(*keys)) if keys else sorted(columns)
    if not together:
        raise ValueError(f"the keys of the suite {suite.table} have no column in common")
    return together


def chunk_numbers(rows: pandas.DataFrame, columns: list[str], chunks: int) -> pandas.Series[int]:
    """Return the chunk of each row, below `chunks`: the same for rows that agree in `columns`, texts."""
    hashed = pandas.util.hash_pandas_object(rows[columns].astype("object"), index=False)
    return (hashed % chunks).astype("int32")


def validate_chunk(suite: Suite, rows: pandas.DataFrame) -> Iterator[ChunkOutcome]:
    """Validate the rows of a chunk; yield what each expectation says of them."""
    for result in run_suite(suite, rows):
        concerned = result.result.get("element_count", len(rows)) - (result.result.get("missing_count") or 0)
        yield ChunkOutcome(identifier(result), bool(result.success), len(rows), concerned, unexpected(result))


def merged(suite: Suite, outcomes: Iterable[ChunkOutcome]) -> SuiteResult:
    """Return the result of a suite over all chunks of its table."""
    by_id: defaultdict[str, list[ChunkOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_id[outcome.id].append(outcome)
    ordered = sorted(suite.expectations, key=lambda each: each.id)
    rows = max((sum(chunk.rows for chunk in chunks) for chunks in by_id.values()), default=0)
    return SuiteResult(
        suite.table,
        rows,
        tuple(
            outcome_of(
                each,
                success=_is_met(each.check, by_id[each.id]),
                unexpected_count=sum(chunk.unexpected for chunk in by_id[each.id]),
            )
            for each in ordered
        ),
    )


def _is_met(check: Any, chunks: list[ChunkOutcome]) -> bool:
    share = getattr(check, "mostly", LEAST_SHARE)
    if share == LEAST_SHARE:
        return all(chunk.success for chunk in chunks)
    concerned = sum(chunk.considered for chunk in chunks)
    return sum(chunk.unexpected for chunk in chunks) <= (1 - share) * concerned
