"""The suites over the frames topic: expectations on the quality of our own data, not on the clients.

`records_suite` checks that each record of the topic is a block. `frames_suite` checks a bounded slice of the
frames in these blocks, as `frame_table` and `with_order` lay it out: single rows, pairs of columns, and keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pandas
from great_expectations import expectations as expect
from great_expectations.expectations.row_conditions import Column

from decoders.codec.failure import Defect
from decoders.frame.record import Closing, Kind, Pairing
from decoders.protocol import REQUEST_LEAD
from expectations.suites.frame_table import COLUMNS, ORDER_COLUMNS
from expectations.suites.suite import CONNECTION_ID, CRITICAL, ENDPOINT, WARNING, Expectation, Suite, expected

RECORD_COLUMNS: Final = {"partition": "int32", "offset": "int64", "refusal": "string"}
"""The columns and their pandas types. `refusal` says why a record is no block, null if it is one."""
FIRST_PLAUSIBLE_TIME: Final = 10**18
"""September 2001 in nanoseconds; a time in another unit is earlier."""
LATEST: Final = 2**63 - 1
"""The last time that the record can hold, in nanoseconds: in the year 2262."""
MOST_SET_BACK: Final = 1_000_000_000
"""Nanoseconds: packets of two directions may be captured out of order by less."""
_FRAME: Final = Column("kind").is_in([Kind.REQUEST.name, Kind.RESPONSE.name])
_FAULT: Final = "Report it as a fault of kipwatch, with the partition and offset."
_FOREIGN: Final = "Another program writes to the topic: find it, and give kipwatch a topic of its own."
_TWICE: Final = "A capture was fed twice; verdicts stay right."


def records_table(placed: Iterable[tuple[int, int, str | None]]) -> pandas.DataFrame:
    """Return the table of records, each given with its partition, its offset and its refusal."""
    return pandas.DataFrame(placed, columns=list(RECORD_COLUMNS)).astype(RECORD_COLUMNS)


def records_suite() -> Suite:
    """Return the suite over records of the topic."""
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


def frames_suite(latest: int = LATEST) -> Suite:
    """Return the suite over frames. None was captured later than `latest`, in nanoseconds since the epoch."""
    return Suite(
        "frames",
        (
            *_of_the_table(),
            *_of_identity(),
            *_of_order(latest),
            *_of_the_capture(),
            *_of_decoding(),
        ),
    )


def _of_the_table() -> tuple[Expectation, ...]:
    return (
        expected(
            expect.ExpectTableColumnsToMatchSet,
            "columns-complete",
            CRITICAL,
            "The table has the columns that the suite knows.",
            _FAULT,
            column_set=[*COLUMNS, *ORDER_COLUMNS],
            exact_match=True,
        ),
        expected(
            expect.ExpectTableRowCountToBeBetween,
            "slice-not-empty",
            CRITICAL,
            "The topic has records.",
            "Start the feeder, and look at its log: it captures nothing, or cannot reach Kafka.",
            min_value=1,
        ),
    )


def _of_identity() -> tuple[Expectation, ...]:
    """A capture that is fed twice repeats its records: harmless to verdicts, but worth a warning."""
    return (
        expected(
            expect.ExpectColumnValuesToMatchRegex,
            "connection-is-16-bytes",
            CRITICAL,
            "A connection is named by 16 bytes, here 32 hex digits.",
            _FOREIGN,
            column="connection",
            regex=CONNECTION_ID,
        ),
        expected(
            expect.ExpectColumnValuesToBeBetween,
            "sequence-from-1",
            CRITICAL,
            "Records of a feeder's run are numbered from 1.",
            _FOREIGN,
            column="sequence",
            min_value=1,
        ),
        expected(
            expect.ExpectCompoundColumnsToBeUnique,
            "record-unique",
            WARNING,
            "No two records have the same connection, run and sequence.",
            "A capture was fed twice, or a feeder was killed and read a file again: verdicts stay right.",
            column_list=["connection", "run", "sequence"],
        ),
        *(
            expected(
                expect.ExpectCompoundColumnsToBeUnique,
                f"{kind.name.lower()}-once",
                WARNING,
                f"A connection {verb} once in a run.",
                _TWICE,
                column_list=["connection", "run"],
                row_condition=Column("kind") == kind.name,
            )
            for kind, verb in ((Kind.OPENED, "opens"), (Kind.CLOSED, "closes"))
        ),
    )


def _of_order(latest: int) -> tuple[Expectation, ...]:
    return (
        expected(
            expect.ExpectColumnPairValuesAToBeGreaterThanB,
            "sequence-ascending",
            WARNING,
            "The records of a connection are in the order of their numbers.",
            "A capture was fed twice, or another program writes to the topic: what comes late is not judged.",
            column_A="sequence",
            column_B="previous_sequence",
            or_equal=True,
            ignore_row_if="either_value_is_missing",
        ),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "request-present",
            CRITICAL,
            "The request of each response is in the topic, if earlier records of its connection are.",
            "Records are missing: look for lost partitions. Verdicts on that time are incomplete.",
            column="lacks_request",
            value_set=[False],
        ),
        expected(
            expect.ExpectColumnValuesToBeBetween,
            "captured-at-nanoseconds",
            WARNING,
            "Capture times are nanoseconds since the epoch, and not in the future.",
            "Set the clock of the host that captures, with NTP.",
            column="captured_at",
            min_value=FIRST_PLAUSIBLE_TIME,
            max_value=latest,
        ),
        expected(
            expect.ExpectColumnValuesToBeBetween,
            "clock-not-set-back",
            WARNING,
            "The records of a connection are in the order of time.",
            "The clock of the host that captures was set back: use NTP that slews.",
            column="set_back",
            max_value=MOST_SET_BACK,
        ),
    )


def _of_the_capture() -> tuple[Expectation, ...]:
    return (
        *(
            expected(
                expect.ExpectColumnValuesToMatchRegex,
                f"{column}-is-endpoint",
                CRITICAL,
                f"The {column} is an address with a port.",
                _FOREIGN,
                column=column,
                regex=ENDPOINT,
            )
            for column in ("client", "server")
        ),
        expected(
            expect.ExpectColumnPairValuesToBeInSet,
            "pairing-of-responses",
            CRITICAL,
            "Responses say how they were paired with a request, and nothing else does.",
            _FAULT,
            column_A="kind",
            column_B="pairing",
            value_pairs_set=_pairs(Kind.RESPONSE, Pairing),
        ),
        expected(
            expect.ExpectColumnPairValuesToBeInSet,
            "closing-of-closed",
            CRITICAL,
            "A record of a connection's end says how it ended, and no other does.",
            _FAULT,
            column_A="kind",
            column_B="closing",
            value_pairs_set=_pairs(Kind.CLOSED, Closing),
        ),
        expected(
            expect.ExpectColumnPairValuesAToBeGreaterThanB,
            "captured-within-true-length",
            CRITICAL,
            "No more of a frame is kept than it had.",
            _FAULT,
            column_A="true_length",
            column_B="captured_length",
            or_equal=True,
            row_condition=_FRAME,
        ),
    )


def _of_decoding() -> tuple[Expectation, ...]:
    return (
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "header-version-exists",
            CRITICAL,
            "A header has one of the versions 0 to 3.",
            _FAULT,
            column="header_version",
            value_set=[0, 1, 2, 3],
        ),
        expected(
            expect.ExpectColumnValuesToNotBeNull,
            "correlation-id-read",
            CRITICAL,
            "A frame of 8 bytes or more has a correlation ID.",
            _FAULT,
            column="correlation_id",
            row_condition=_FRAME & (Column("captured_length") >= REQUEST_LEAD),
        ),
        expected(
            expect.ExpectColumnValuesToBeBetween,
            "matched-response-has-api",
            CRITICAL,
            "A response that is paired knows the API of its request.",
            _FAULT,
            column="api_key",
            min_value=0,
            row_condition=Column("pairing") == Pairing.MATCHED.name,
        ),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "failure-has-reason",
            CRITICAL,
            "A frame that cannot be decoded says why.",
            _FAULT,
            column="failure",
            value_set=[reason.value for reason in Defect],
        ),
    )


def _pairs(owner: Kind, states: type[Pairing] | type[Closing]) -> list[tuple[str, str]]:
    """Return the valid pairs: the one kind that owns a column has a state, all other kinds have NONE."""
    owned = [(owner.name, state.name) for state in states if state]
    return owned + [(kind.name, "NONE") for kind in Kind if kind is not owner]
