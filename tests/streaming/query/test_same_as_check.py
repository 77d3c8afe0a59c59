"""The query has the findings and counts of `check`, for any size of its batches."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from decoders.frame.cutting import cut
from decoders.frame.record import Record
from decoders.schema.registry import default_schemas
from expectations.judging.terms import Terms
from expectations.report.coverage import coverage_of
from streaming.check.examination import examine, records_of
from streaming.feeder.source import open_capture
from tests.captures import planted, real_clients
from tests.cases.notation import Case
from tests.cases.test_cases import CASES
from tests.expectations.conversation.columnar.test_windows import unheard
from tests.streaming.query.stand_in import StandIn

SCHEMAS = default_schemas()
RUNS = itertools.count(1)
"""A number for each time that a capture is fed: workers cache facts of connections by ID."""
CAPTURES = [planted.CAPTURE, real_clients.CAPTURE]


def streamed(records: list[Record], batch_size: int, terms: Terms | None = None) -> StandIn:
    """Run the query on records in micro-batches of two Arrow batches each."""
    query = StandIn(terms or Terms())
    for at in range(0, len(records), batch_size):
        query.process(records[at : at + batch_size], (batch_size + 1) // 2)
    query.settle()
    return query


def fed(capture: Path) -> list[Record]:
    """The records that a feeder would publish."""
    with open_capture(capture) as packets:
        records = records_of(SCHEMAS, packets, (), next(RUNS))
        return [cut(SCHEMAS, record) for record in records]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize("batch_size", [10_000, 97, 6])
def test_findings_and_checks_of_a_capture_equal_those_of_check(capture: Path, batch_size: int) -> None:
    checked, query = examine(capture, SCHEMAS), streamed(fed(capture), batch_size)
    assert Counter(finding.likeness() for finding in query.findings.values()) == Counter(
        finding.likeness() for finding in checked.findings
    )
    assert coverage_of(query.checks) == checked.coverage


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.title}")
def test_findings_of_every_case_equal_those_of_the_rules(case: Case) -> None:
    exchange, rules = case.exchange()
    expected, query = case.judge(10_000), streamed(unheard(exchange.records), 5, Terms(rules))
    assert Counter(finding.likeness() for finding in query.findings.values()) == Counter(
        finding.likeness() for finding in expected.findings
    )
    assert query.checks == expected.checks
