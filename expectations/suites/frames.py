"""The suite over the frames topic: expectations on the quality of our own data, not on the clients.

It checks a bounded slice, as `frame_table` and `with_order` make it: single rows, pairs of columns, and keys.
"""

from __future__ import annotations

from typing import Any

import pandas
from great_expectations import expectations as expect
from great_expectations.expectations.row_conditions import Column

from decoders.codec.failure import Reason
from decoders.frame.record import Closing, Kind, Pairing
from expectations.suites.expectation import CRITICAL, WARNING, Expectation, Suite
from expectations.suites.frame_meanings import FRAME_MEANINGS
from expectations.suites.frame_order import ORDER_COLUMNS
from expectations.suites.frame_table import COLUMNS
from expectations.suites.validation import SuiteResult, validate

FIRST_PLAUSIBLE_TIME = 10**18
"""September 2001 in nanoseconds; a time in another unit is earlier."""
LATEST = 2**63 - 1
"""The last time that the record can hold, in nanoseconds: in the year 2262."""
MOST_SET_BACK = 1_000_000_000
"""Nanoseconds: packets of two directions may be captured out of order by less."""
CONNECTION_ID = r"^[0-9a-f]{32}$"
REQUEST_LEAD = 8
"""Bytes of a request up to its correlation ID, which every version of every API has."""
ENDPOINT = r"^(?:\d+\.\d+\.\d+\.\d+|\[[0-9a-f:.]+\]):\d+$"

_FRAME = Column("kind").is_in([Kind.REQUEST.name, Kind.RESPONSE.name])


def run_frames_suite(frames: pandas.DataFrame, latest: int = LATEST) -> SuiteResult:
    """Validate a table of frames, with the columns of their order. Writes no file and uses no network.

    No frame was captured later than `latest`, in nanoseconds since the epoch.
    """
    return validate(frames_suite(latest), frames)


def frames_suite(latest: int = LATEST) -> Suite:
    """Return the suite. No frame was captured later than `latest`, in nanoseconds since the epoch."""
    expectations = (
        Expectation(check.meta["id"], check.severity, *FRAME_MEANINGS[check.meta["id"]], check)
        for check in frame_checks(latest)
    )
    return Suite("frames", tuple(expectations))


def frame_checks(latest: int = LATEST) -> list[Any]:
    """Return the expectations: on the table, on identity and order, on what was captured, on decoding."""
    return [
        *_of_the_table(),
        *_of_identity(),
        *_of_order(latest),
        *_of_the_capture(),
        *_of_decoding(),
    ]


def _of_the_table() -> list[Any]:
    return [
        expect.ExpectTableColumnsToMatchSet(
            column_set=[*COLUMNS, *ORDER_COLUMNS], exact_match=True, **_label("columns-complete", CRITICAL)
        ),
        expect.ExpectTableRowCountToBeBetween(min_value=1, **_label("slice-not-empty", CRITICAL)),
    ]


def _of_identity() -> list[Any]:
    """A capture that is fed twice repeats its records: harmless to verdicts, but worth a warning."""
    return [
        expect.ExpectColumnValuesToMatchRegex(
            column="connection", regex=CONNECTION_ID, **_label("connection-is-16-bytes", CRITICAL)
        ),
        expect.ExpectColumnValuesToBeBetween(
            column="sequence", min_value=1, **_label("sequence-from-1", CRITICAL)
        ),
        expect.ExpectCompoundColumnsToBeUnique(
            column_list=["connection", "run", "sequence"], **_label("record-unique", WARNING)
        ),
        expect.ExpectCompoundColumnsToBeUnique(
            column_list=["connection", "run"],
            row_condition=Column("kind") == Kind.OPENED.name,
            **_label("opened-once", WARNING),
        ),
        expect.ExpectCompoundColumnsToBeUnique(
            column_list=["connection", "run"],
            row_condition=Column("kind") == Kind.CLOSED.name,
            **_label("closed-once", WARNING),
        ),
    ]


def _of_order(latest: int) -> list[Any]:
    return [
        expect.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="sequence",
            column_B="previous_sequence",
            or_equal=True,
            ignore_row_if="either_value_is_missing",
            **_label("sequence-ascending", WARNING),
        ),
        expect.ExpectColumnValuesToBeInSet(
            column="lacks_request", value_set=[False], **_label("request-present", CRITICAL)
        ),
        expect.ExpectColumnValuesToBeBetween(
            column="captured_at",
            min_value=FIRST_PLAUSIBLE_TIME,
            max_value=latest,
            **_label("captured-at-nanoseconds", WARNING),
        ),
        expect.ExpectColumnValuesToBeBetween(
            column="set_back", max_value=MOST_SET_BACK, **_label("clock-not-set-back", WARNING)
        ),
    ]


def _of_the_capture() -> list[Any]:
    endpoints = [
        expect.ExpectColumnValuesToMatchRegex(
            column=column, regex=ENDPOINT, **_label(f"{column}-is-endpoint", CRITICAL)
        )
        for column in ("client", "server")
    ]
    return [
        *endpoints,
        expect.ExpectColumnPairValuesToBeInSet(
            column_A="kind",
            column_B="pairing",
            value_pairs_set=_pairs(Kind.RESPONSE, Pairing),
            **_label("pairing-of-responses", CRITICAL),
        ),
        expect.ExpectColumnPairValuesToBeInSet(
            column_A="kind",
            column_B="closing",
            value_pairs_set=_pairs(Kind.CLOSED, Closing),
            **_label("closing-of-closed", CRITICAL),
        ),
        expect.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="true_length",
            column_B="captured_length",
            or_equal=True,
            row_condition=_FRAME,
            **_label("captured-within-true-length", CRITICAL),
        ),
    ]


def _of_decoding() -> list[Any]:
    return [
        expect.ExpectColumnValuesToBeInSet(
            column="header_version", value_set=[0, 1, 2, 3], **_label("header-version-exists", CRITICAL)
        ),
        expect.ExpectColumnValuesToNotBeNull(
            column="correlation_id",
            row_condition=_FRAME & (Column("captured_length") >= REQUEST_LEAD),
            **_label("correlation-id-read", CRITICAL),
        ),
        expect.ExpectColumnValuesToBeBetween(
            column="api_key",
            min_value=0,
            row_condition=Column("pairing") == Pairing.MATCHED.name,
            **_label("matched-response-has-api", CRITICAL),
        ),
        expect.ExpectColumnValuesToBeInSet(
            column="failure",
            value_set=[reason.value for reason in Reason],
            **_label("failure-has-reason", CRITICAL),
        ),
    ]


def _label(identifier: str, severity: str) -> dict[str, Any]:
    return {"meta": {"id": identifier}, "severity": severity}


def _pairs(owner: Kind, states: type[Pairing] | type[Closing]) -> list[tuple[str, str]]:
    """Return the valid pairs: the one kind that owns a column has a state, all other kinds have NONE."""
    owned = [(owner.name, state.name) for state in states if state]
    return owned + [(kind.name, "NONE") for kind in Kind if kind is not owner]
