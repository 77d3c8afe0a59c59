"""A suite: the expectations on a table, how the table is validated, whole or in chunks, and the results.

An `Expectation` wraps one of Great Expectations with what a person needs to know of it. `validate` runs a
suite over a table in memory. A larger table is divided into chunks: `rows_together` and `chunk_numbers` put
rows that an expectation compares into one chunk, `validate_chunk` runs the suite over each, and `merged` adds
the results up. Others read the results as JUnit, in which a table is a test suite and an expectation a test
case, or as one HTML page that loads nothing.
"""

from __future__ import annotations

import copy
import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import great_expectations
import pandas
from great_expectations import expectations as expect
from great_expectations.expectations.row_conditions import Column

from expectations.report.junit import junit_document, junit_suite

CRITICAL: Final = "critical"
"""The data is wrong: verdicts or sums made of it are, too."""
WARNING: Final = "warning"
"""The data is unusual: look at it before you build on it."""
CONNECTION_ID: Final = r"^[0-9a-f]{32}$"
ENDPOINT: Final = r"^(?:\d+\.\d+\.\d+\.\d+|\[[0-9a-f:.]+\]):\d+$"
"""An address with a port, as every table writes it."""
DELETE_COPY: Final = "Delete the copy: its rows count twice."
WRONG_SUMS: Final = "Do not build on the sums of this day; report it as a fault of kipwatch, with the file."
LEAST_SHARE: Final = 1.0
"""The share of rows that must meet an expectation which names none."""


class SuiteError(ValueError):
    """An expectation that cannot be evaluated on the rows, in one line with its suite."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation. `check` is that of Great Expectations, which has the ID and severity, too.

    `meaning` says what is expected and why, in a sentence, `action` what to do where it is not met.
    """

    id: str
    severity: str
    meaning: str
    action: str
    check: Any


@dataclass(frozen=True, slots=True)
class Suite:
    """The expectations on one table, in the order in which they are reported.

    `policy` is the name of a suite that a user wrote, "" for a table's own.
    """

    table: str
    expectations: tuple[Expectation, ...]
    policy: str = ""

    @property
    def name(self) -> str:
        """The name in results: of the policy, or of the table."""
        return self.policy or self.table


def expected(
    kind: Any, identifier: str, severity: str, meaning: str, action: str, **what: Any
) -> Expectation:
    """Return an expectation of a kind of Great Expectations, on `what`."""
    check = kind(meta={"id": identifier}, severity=severity, **what)
    return Expectation(identifier, severity, meaning, action, check)


def counted(column: str, identifier: str, *, least: int = 1) -> Expectation:
    """Expect that a column counts something: no row is written for nothing."""
    return expected(
        expect.ExpectColumnValuesToBeBetween,
        identifier,
        CRITICAL,
        f"`{column}` is {least} or more: a row is written for what happened only.",
        WRONG_SUMS,
        column=column,
        min_value=least,
    )


def among(column: str, identifier: str, values: Sequence[Any], meaning: str) -> Expectation:
    """Expect that a column has certain values."""
    return expected(
        expect.ExpectColumnValuesToBeInSet,
        identifier,
        CRITICAL,
        meaning,
        "Read the table with the release that wrote it; if that was this one, it is a fault of kipwatch.",
        column=column,
        value_set=list(values),
    )


OF_A_BATCH: Final = Column("is_merged") == False  # noqa: E712  # Great Expectations builds a condition of it
"""Rows whose file holds one batch."""


def unique(identifier: str, columns: Sequence[str], meaning: str, **where: Any) -> Expectation:
    """Expect that no two rows agree in all of some columns."""
    return expected(
        expect.ExpectCompoundColumnsToBeUnique,
        identifier,
        CRITICAL,
        meaning,
        f"Find the file that repeats another one. {DELETE_COPY}",
        column_list=list(columns),
        **where,
    )


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
    """The results of all expectations of a suite on `rows` rows. `table` is the suite's name."""

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
    return SuiteResult(suite.name, len(table), tuple(sorted(outcomes, key=lambda each: each.id)))


def run_suite(suite: Suite, table: pandas.DataFrame) -> Sequence[Any]:
    """Return what Great Expectations says of each expectation on the rows of a table.

    Raises SuiteError for an expectation that fails itself: Great Expectations counts it as not met.
    """
    context = great_expectations.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    batch = context.data_sources.pandas_default.read_dataframe(table)
    # Great Expectations accepts an expectation object for one run only.
    checks = [copy.copy(expectation.check) for expectation in suite.expectations]
    asked = great_expectations.ExpectationSuite(suite.table, expectations=checks)
    found: Sequence[Any] = batch.validate(asked, result_format="BASIC").results
    for result in found:
        if problem := _problem(result):
            raise SuiteError(f"{suite.name}: {identifier(result)} cannot be evaluated: {problem}")
    return found


def _problem(result: Any) -> str:
    """Return the first line of the exception that an expectation raised, "" for none."""
    info = result.exception_info or {}
    raised = [info] if "raised_exception" in info else info.values()
    found = (str(each["exception_message"]) for each in raised if each.get("raised_exception"))
    return next(found, "").partition("\n")[0]


def identifier(result: Any) -> str:
    """Return the ID of the expectation that a result of Great Expectations is about."""
    return str(result.expectation_config.meta["id"])


def unexpected(result: Any) -> int:
    """Return how many rows do not meet an expectation; 1 if it is about the whole table and is not met."""
    return int(result.result.get("unexpected_count", int(not result.success)))


def outcome_of(expectation: Expectation, *, success: bool, unexpected_count: int) -> ExpectationOutcome:
    return ExpectationOutcome(
        expectation.id,
        success,
        unexpected_count,
        expectation.severity,
        expectation.meaning,
        expectation.action,
    )


@dataclass(frozen=True, slots=True)
class ChunkOutcome:
    """What a chunk of `rows` rows says of an expectation, which concerns `considered` of them."""

    id: str
    success: bool
    rows: int
    considered: int
    unexpected: int


def rows_together(suite: Suite, columns: Collection[str]) -> list[str]:
    """Return those of `columns` that decide a row's chunk: rows that break a key of the suite agree in them.

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
        suite.name,
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
    unexpected_rows = sum(chunk.unexpected for chunk in chunks)
    return not concerned or (concerned - unexpected_rows) / concerned >= share


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid #8886; padding: .4rem .8rem .4rem 0; text-align: left; }
td, th { vertical-align: top; }
.holds { color: #1a7f37; } .critical { color: #c62828; font-weight: 600; } .warning { color: #9a6700; }
td p { margin: 0; }
@media (min-width: 40rem) { td:first-child { white-space: nowrap; } }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; }
  .holds { color: #57ab5a; } .critical { color: #ff7b72; } .warning { color: #d9a514; } }
"""


def junit_suites(results: Sequence[SuiteResult], timestamp: str) -> bytes:
    """Return the report as XML in UTF-8, made at `timestamp`, in ISO 8601 without a time zone."""
    return junit_document(
        junit_suite(
            result.table, [_test_case(result, each) for each in result.outcomes], timestamp, number=number
        )
        for number, result in enumerate(results)
    )


def _test_case(result: SuiteResult, outcome: ExpectationOutcome) -> ET.Element:
    case = ET.Element("testcase", name=outcome.id, classname=f"kipwatch.{result.table}", time="0")
    if not outcome.success:
        message = f"{outcome.unexpected_count} of {result.rows} rows do not hold"
        failure = ET.SubElement(case, "failure", type=outcome.severity, message=message)
        failure.text = f"{outcome.meaning} {outcome.action}"
    return case


def audit_page(results: Sequence[SuiteResult], source: str, timestamp: str) -> str:
    """Return the page. `source` says what was audited, `timestamp` when."""
    failed = sum(not outcome.success for result in results for outcome in result.outcomes)
    total = sum(len(result.outcomes) for result in results)
    verdict = "all expectations hold" if not failed else f"{failed} of {total} expectations do not hold"
    if not any(result.rows for result in results):
        verdict = "there is no row to check"
    sections = "\n".join(map(_section, results))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>kipwatch: audit</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>Audit</h1>\n<p>{escape(source)}, {escape(timestamp)} UTC: <b>{verdict}</b></p>\n"
        f"{sections}\n</body>\n</html>\n"
    )


def _section(result: SuiteResult) -> str:
    ordered = sorted(result.outcomes, key=lambda outcome: (outcome.success, outcome.severity, outcome.id))
    rows = "\n".join(_row(result, outcome) for outcome in ordered)
    return (
        f'<section id="{escape(result.table)}">\n<h2>{escape(result.table)}, {result.rows} rows</h2>\n'
        "<table>\n<tr><th>expectation</th><th>result</th><th>what is expected, and what to do</th></tr>\n"
        f"{rows}\n</table>\n</section>"
    )


def _row(result: SuiteResult, outcome: ExpectationOutcome) -> str:
    state = "holds" if outcome.success else outcome.severity
    text = (
        "holds"
        if outcome.success
        else f"{outcome.severity}: {outcome.unexpected_count} of {result.rows} rows"
    )
    action = "" if outcome.success else f"<p>{_prose(outcome.action)}</p>"
    return (
        f'<tr><td><code>{escape(outcome.id)}</code></td><td class="{state}">{text}</td>'
        f"<td><p>{_prose(outcome.meaning)}</p>{action}</td></tr>"
    )


def _prose(text: str) -> str:
    """Return a sentence as HTML; what is between backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))
