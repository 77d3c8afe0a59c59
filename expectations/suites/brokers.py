"""The suite over the archive's brokers: ranges that can be met, and each showing once."""

from __future__ import annotations

from typing import Final

from great_expectations import expectations as expect
from great_expectations.expectations.row_conditions import Column

from expectations.suites.connections import RANGES_ID
from expectations.suites.every_table import OF_A_BATCH, counted, unique
from expectations.suites.expectation import CRITICAL, Expectation, expected

ENDPOINT: Final = r"^(?:\d+\.\d+\.\d+\.\d+|\[[0-9a-f:.]+\]):\d+$"


def brokers_expectations() -> tuple[Expectation, ...]:
    """Return the expectations."""
    return (
        counted("changes", "showings-counted"),
        unique(
            "broker-shown-once",
            ("file", "broker", "listener", "ranges_id", "api_versions_version", "node_id", "first_seen"),
            "A batch has a row for each different showing of a broker.",
            row_condition=Column("broker").is_not_null() & OF_A_BATCH,
        ),
        expected(
            expect.ExpectColumnValuesToMatchRegex,
            "broker-is-endpoint",
            CRITICAL,
            "A broker is an address with a port.",
            "Another program wrote the row: delete its file.",
            column="broker",
            regex=ENDPOINT,
        ),
        expected(
            expect.ExpectColumnValuesToMatchRegex,
            "ranges-id",
            CRITICAL,
            "Ranges are named by 16 hex digits, equal ones equally.",
            "Another program wrote the row: delete its file.",
            column="ranges_id",
            regex=RANGES_ID,
        ),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "ranges-named",
            CRITICAL,
            "A broker's ranges are in the row that has their `ranges_id`, and nowhere else.",
            "Report it as a fault of kipwatch, with the file.",
            column="is_named",
            value_set=[True],
        ),
        expected(
            expect.ExpectColumnPairValuesAToBeGreaterThanB,
            "shown-first-before-last",
            CRITICAL,
            "A broker's first showing in a batch is not later than the last.",
            "Report it as a fault of kipwatch, with the file.",
            column_A="last_seen",
            column_B="first_seen",
            or_equal=True,
            ignore_row_if="either_value_is_missing",
        ),
    )
