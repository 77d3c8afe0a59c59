"""The suite over the archive's connections: each opens before it changes, and closes once."""

from __future__ import annotations

from typing import Final

from great_expectations import expectations as expect
from great_expectations.expectations.row_conditions import Column

from decoders.frame.record import Closing
from expectations.suites.every_table import OF_A_BATCH, among, counted, unique
from expectations.suites.expectation import CRITICAL, WARNING, Expectation, expected
from expectations.suites.findings import CONNECTION_ID

RANGES_ID: Final = r"^[0-9a-f]{16}$"
_DESCRIBED: Final = Column("connection").is_not_null() & OF_A_BATCH
_CLOSINGS: Final = [closing.name.lower() for closing in Closing if closing]


def connections_expectations() -> tuple[Expectation, ...]:
    """Return the expectations."""
    return (*_of_identity(), *_of_times())


def _of_identity() -> tuple[Expectation, ...]:
    return (
        expected(
            expect.ExpectColumnValuesToMatchRegex,
            "connection-id",
            CRITICAL,
            "A connection is named by 32 hex digits.",
            "Another program wrote the row: delete its file.",
            column="connection",
            regex=CONNECTION_ID,
        ),
        counted("changes", "connection-changes-counted"),
        unique(
            "connection-changed-once",
            ("file", "connection", "changed_at"),
            "What changed of a connection at a time is one row.",
            row_condition=_DESCRIBED,
        ),
        unique(
            "connection-closed-once",
            ("query", "connection"),
            "A connection closes once.",
            row_condition=Column("closed_at").is_not_null(),
        ),
        among("closing", "closing-known", _CLOSINGS, "A connection that closed says how."),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "ranges-told",
            WARNING,
            "The versions that a connection was told are in `brokers`.",
            "A file of `brokers` is missing, or that day was deleted.",
            column="is_told",
            value_set=[True],
        ),
    )


def _of_times() -> tuple[Expectation, ...]:
    return (
        expected(
            expect.ExpectColumnPairValuesAToBeGreaterThanB,
            "opened-before-changed",
            CRITICAL,
            "A connection opened before it changed.",
            "The clock that captured went back: set it with NTP.",
            column_A="changed_at",
            column_B="opened_at",
            or_equal=True,
            ignore_row_if="either_value_is_missing",
        ),
        expected(
            expect.ExpectColumnValuesToNotBeNull,
            "closing-has-time",
            CRITICAL,
            "A connection that says how it closed says when.",
            "Report it as a fault of kipwatch, with the file.",
            column="closed_at",
            row_condition=Column("closing").is_not_null(),
        ),
    )
