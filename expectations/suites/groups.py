"""The suite over the archive's groups: what a member of each protocol has, and each change once."""

from __future__ import annotations

from typing import Final

from great_expectations import expectations as expect
from great_expectations.expectations.row_conditions import Column

from expectations.suites.every_table import OF_A_BATCH, among, counted, unique
from expectations.suites.expectation import CRITICAL, WARNING, Expectation, expected

CLASSIC: Final = "classic"
PROTOCOLS: Final = (CLASSIC, "consumer", "share", "streams")
LOWEST_EPOCH: Final = -2
"""The epoch of a static member that leaves for a while."""
_DESCRIBED: Final = Column("connection").is_not_null() & OF_A_BATCH
_HEARTBEATS: Final = Column("protocol").is_in(list(PROTOCOLS[1:]))
_FAULT: Final = "Report it as a fault of kipwatch, with the file."


def groups_expectations() -> tuple[Expectation, ...]:
    """Return the expectations."""
    return (*_of_members(), *_of_changes())


def _of_members() -> tuple[Expectation, ...]:
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
            min_value=LOWEST_EPOCH,
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
    )


def _of_changes() -> tuple[Expectation, ...]:
    return (
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
