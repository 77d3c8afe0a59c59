"""The suites over the archive's connections, brokers and groups, whose rows say what changed.

A connection opens before it changes, and closes once. A broker's ranges are named where they are first shown.
A member has what its group's protocol demands.
"""

from __future__ import annotations

from typing import Final

from great_expectations import expectations as expect
from great_expectations.expectations.row_conditions import Column

from decoders.frame.record import Closing
from decoders.protocol import STATIC_LEAVING
from expectations.suites.suite import (
    CONNECTION_ID,
    CRITICAL,
    ENDPOINT,
    OF_A_BATCH,
    WARNING,
    Expectation,
    among,
    counted,
    expected,
    unique,
)

RANGES_ID: Final = r"^[0-9a-f]{16}$"
_DESCRIBED: Final = Column("connection").is_not_null() & OF_A_BATCH
_CLOSINGS: Final = [closing.name.lower() for closing in Closing if closing]
CLASSIC: Final = "classic"
PROTOCOLS: Final = (CLASSIC, "consumer", "share", "streams")
_HEARTBEATS: Final = Column("protocol").is_in(list(PROTOCOLS[1:]))
_FAULT: Final = "Report it as a fault of kipwatch, with the file."


def connections_expectations() -> tuple[Expectation, ...]:
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
            "The versions that were advertised on a connection are in `brokers`.",
            "A file of `brokers` is missing, or that day was deleted.",
            column="has_ranges",
            value_set=[True],
        ),
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
            _FAULT,
            column="closed_at",
            row_condition=Column("closing").is_not_null(),
        ),
    )


def brokers_expectations() -> tuple[Expectation, ...]:
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
            _FAULT,
            column="is_named",
            value_set=[True],
        ),
        expected(
            expect.ExpectColumnPairValuesAToBeGreaterThanB,
            "shown-first-before-last",
            CRITICAL,
            "A broker's first showing in a batch is not later than the last.",
            _FAULT,
            column_A="last_seen",
            column_B="first_seen",
            or_equal=True,
            ignore_row_if="either_value_is_missing",
        ),
    )


def groups_expectations() -> tuple[Expectation, ...]:
    return (
        among("protocol", "protocol-known", PROTOCOLS, "A group follows one of Kafka's four protocols."),
        *(
            expected(
                expect.ExpectColumnValuesToNotBeNull,
                f"member-has-{column.replace('_', '-')}",
                CRITICAL,
                f"A member that sends heartbeats of the newer protocols has `{column}`.",
                _FAULT,
                column=column,
                row_condition=_HEARTBEATS,
            )
            for column in ("group_id", "member_id", "epoch", "error_code")
        ),
        expected(
            expect.ExpectColumnValuesToBeBetween,
            "epoch-exists",
            WARNING,
            "An epoch is -2 or -1 of a member that leaves, 0 of one that joins, or above.",
            "A client sends an epoch that no protocol has: see the findings of its connection.",
            column="epoch",
            min_value=STATIC_LEAVING,
        ),
        expected(
            expect.ExpectColumnValuesToBeBetween,
            "heartbeat-version",
            CRITICAL,
            "The version of a member's request is known.",
            _FAULT,
            column="api_version",
            min_value=0,
        ),
        counted("changes", "member-changes-counted"),
        unique(
            "member-changed-once",
            (
                "file",
                "connection",
                "protocol",
                "group_id",
                "member_id",
                "changed_at",
                "api_version",
                "joined",
                "left",
            ),
            "What changed of a member at a time is one row.",
            row_condition=_DESCRIBED,
        ),
        among("ghost", "ghost-decided", [True, False], "A row says whether its member is a ghost."),
    )
