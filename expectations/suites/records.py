"""The suite over the records of the frames topic: each is a block, which holds frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pandas
from great_expectations import expectations as expect

from expectations.suites.expectation import CRITICAL, Suite, expected

RECORD_COLUMNS: Final = {"partition": "int32", "offset": "int64", "refusal": "string"}
"""The columns and their pandas types. `refusal` says why a record is no block, null if it is one."""


def records_table(placed: Iterable[tuple[int, int, str | None]]) -> pandas.DataFrame:
    """Return the table of records, each given with its partition, its offset and its refusal."""
    return pandas.DataFrame(placed, columns=list(RECORD_COLUMNS)).astype(RECORD_COLUMNS)


def records_suite() -> Suite:
    """Return the suite."""
    block = expected(
        expect.ExpectColumnValuesToBeNull,
        "record-is-block",
        CRITICAL,
        "Each record of the topic is a block of this version, without damage.",
        "What is none is not judged: the topic of the quarantine has it, with the reason. Upgrade the feeder "
        "that wrote it, or give kipwatch a topic of its own.",
        column="refusal",
    )
    return Suite("records", (block,))
