"""The suite over the frames topic: a good table passes, and each fault fails its own expectation."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas
import pytest
from msgspec.structs import replace

from decoders.codec.request import write_request
from decoders.frame.record import Closing, Endpoint, Kind, Pairing, Record
from decoders.schema.registry import default_schemas
from expectations.suites.frame_table import COLUMNS, ORDER_COLUMNS, frame_table, with_order
from streaming.check.evidence import keepable
from streaming.check.examination import records_of
from streaming.feeder.source import open_capture
from tests.captures import planted, real_clients

if TYPE_CHECKING:
    from expectations.suites.suite import SuiteResult

SCHEMAS = default_schemas()
REQUEST = write_request(
    SCHEMAS, "ApiVersions", 3, 7, "orders", {"clientSoftwareName": "lib", "clientSoftwareVersion": "1"}
)
REFUSAL = (7).to_bytes(4, "big") + (35).to_bytes(2, "big") + bytes(4)
OPENED = Record(
    Kind.OPENED,
    b"c" * 16,
    9,
    1,
    1_800_000_000_000_000_000,
    Endpoint("127.0.0.1:40000"),
    Endpoint("[::1]:9092"),
)


def conversation() -> pandas.DataFrame:
    """A connection that opens, asks for the versions, is refused, and closes."""
    records = [
        OPENED,
        replace(OPENED, kind=Kind.REQUEST, sequence=2, frame=REQUEST, true_length=len(REQUEST)),
        replace(
            OPENED,
            kind=Kind.RESPONSE,
            sequence=3,
            pairing=Pairing.MATCHED,
            paired_sequence=2,
            paired_api_key=18,
            paired_api_version=3,
            frame=REFUSAL,
            true_length=len(REFUSAL),
        ),
        replace(OPENED, kind=Kind.GAP, sequence=4, true_length=100),
        replace(OPENED, kind=Kind.CLOSED, sequence=5, closing=Closing.FIN),
    ]
    return table_of(records)


def table_of(records: list[Record]) -> pandas.DataFrame:
    frames = frame_table(SCHEMAS, [(0, offset, 0, record) for offset, record in enumerate(records)])
    return with_order(frames, [record.paired_sequence for record in records])


def run_suite(frames: pandas.DataFrame) -> SuiteResult:
    """Load Great Expectations where it is used: each worker that collects this file would spend 3 s."""
    from expectations.suites.frames import frames_suite  # noqa: PLC0415
    from expectations.suites.suite import validate  # noqa: PLC0415

    return validate(frames_suite(), frames)


def failed(result: SuiteResult) -> dict[str, int]:
    return {outcome.id: outcome.unexpected_count for outcome in result.outcomes if not outcome.success}


def with_value(column: str, row: int, value: object) -> Callable[[pandas.DataFrame], pandas.DataFrame]:
    def change(frames: pandas.DataFrame) -> pandas.DataFrame:
        frames.loc[row, column] = value
        return frames

    return change


def twice(row: int) -> Callable[[pandas.DataFrame], pandas.DataFrame]:
    """The same event once more, later in its run."""

    def change(frames: pandas.DataFrame) -> pandas.DataFrame:
        again = frames.iloc[[row]].assign(sequence=len(frames) + 1)
        return pandas.concat([frames, again], ignore_index=True).astype(COLUMNS | ORDER_COLUMNS)

    return change


BROKEN: dict[str, tuple[Callable[[pandas.DataFrame], pandas.DataFrame], int]] = {
    "slice-not-empty": (lambda frames: frames.iloc[:0], 1),
    "columns-complete": (lambda frames: frames.assign(surplus=0), 1),
    "connection-is-16-bytes": (with_value("connection", 1, "6363"), 1),
    "sequence-from-1": (with_value("sequence", 0, 0), 1),
    "record-unique": (with_value("sequence", 2, 2), 2),
    "opened-once": (twice(0), 2),
    "closed-once": (twice(4), 2),
    "sequence-ascending": (with_value("previous_sequence", 2, 9), 1),
    "request-present": (with_value("lacks_request", 2, True), 1),
    "clock-not-set-back": (with_value("set_back", 2, 2_000_000_000), 1),
    "client-is-endpoint": (with_value("client", 3, "localhost"), 1),
    "server-is-endpoint": (with_value("server", 3, "::1:9092"), 1),
    "pairing-of-responses": (with_value("pairing", 1, "UNOWED"), 1),
    "closing-of-closed": (with_value("closing", 4, "NONE"), 1),
    "captured-at-nanoseconds": (with_value("captured_at", 2, 1_800_000_000), 1),
    "captured-within-true-length": (with_value("true_length", 1, 3), 1),
    "header-version-exists": (with_value("header_version", 1, 4), 1),
    "correlation-id-read": (with_value("correlation_id", 1, pandas.NA), 1),
    "matched-response-has-api": (with_value("api_key", 2, -1), 1),
    "failure-has-reason": (with_value("failure", 1, "because"), 1),
}


@pytest.mark.slow
def test_a_good_table_passes_every_expectation() -> None:
    """What the feeder writes of an ordinary connection is expected, and every expectation was asked."""
    result = run_suite(conversation())
    assert failed(result) == {}
    assert result.success
    assert result.rows == 5
    assert {outcome.id for outcome in result.outcomes} == set(BROKEN)


@pytest.mark.slow
@pytest.mark.parametrize("expectation", BROKEN)
def test_each_fault_fails_its_own_expectation_and_no_other(expectation: str) -> None:
    """It reports the number of rows that are at fault."""
    breaks, rows = BROKEN[expectation]
    result = run_suite(breaks(conversation()))
    assert failed(result) == {expectation: rows}
    assert not result.success


def test_what_decoding_says_of_a_frame_stands_in_its_row() -> None:
    """The request's header and the refusal's layout are read, not copied from the record."""
    frames = conversation()
    request, response = frames.loc[1], frames.loc[2]
    assert (request.api_key, request.api_version, request.header_version, request.correlation_id) == (
        18,
        3,
        2,
        7,
    )
    assert (response.api_key, response.api_version, response.header_version) == (18, 3, 0)
    assert frames.loc[0, "api_key"] is pandas.NA


@pytest.mark.slow
def test_an_audit_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file stays in the temporary folder or where the command runs, and nothing is reported home."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run_suite(conversation())
    assert list(tmp_path.iterdir()) == []
    assert os.environ["GX_ANALYTICS_ENABLED"] == "false"


def long_conversation() -> list[Record]:
    """A connection with ten requests and their responses."""
    records = [OPENED]
    for number in range(1, 11):
        asked = replace(
            OPENED,
            kind=Kind.REQUEST,
            sequence=2 * number,
            captured_at=OPENED.captured_at + number * 1_000_000_000,
            frame=REQUEST,
            true_length=len(REQUEST),
        )
        records.append(asked)
        records.append(
            replace(
                asked,
                kind=Kind.RESPONSE,
                sequence=asked.sequence + 1,
                pairing=Pairing.MATCHED,
                paired_sequence=asked.sequence,
                paired_api_key=18,
                paired_api_version=3,
                frame=REFUSAL,
                true_length=len(REFUSAL),
            )
        )
    return records


def swapped(records: list[Record]) -> list[Record]:
    return [*records[:5], records[6], records[5], *records[7:]]


def dropped(records: list[Record]) -> list[Record]:
    """Without the records 6 to 9 of the topic, which hold two requests and the response to an earlier one."""
    return [*records[:5], *records[8:]]


def on_a_wrong_clock(records: list[Record]) -> list[Record]:
    late = [replace(record, captured_at=record.captured_at - 3_600_000_000_000) for record in records[9:]]
    return [*records[:9], *late]


def of_the_future(records: list[Record]) -> list[Record]:
    return [replace(record, captured_at=record.captured_at + 10**18) for record in records]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "expectation"),
    [
        (swapped, "sequence-ascending"),
        (dropped, "request-present"),
        (on_a_wrong_clock, "clock-not-set-back"),
        (of_the_future, "captured-at-nanoseconds"),
    ],
)
def test_planted_damage_is_named(damage: Callable[[list[Record]], list[Record]], expectation: str) -> None:
    from expectations.suites.frames import frames_suite  # noqa: PLC0415
    from expectations.suites.suite import validate  # noqa: PLC0415

    latest = OPENED.captured_at + 3_600_000_000_000
    assert failed(validate(frames_suite(latest), table_of(long_conversation()))) == {}
    assert failed(validate(frames_suite(latest), table_of(damage(long_conversation())))).keys() == {
        expectation
    }


def test_the_beginning_of_a_slice_is_no_damage() -> None:
    """A response whose request lies before the slice is not accused."""
    for begin in range(21):
        assert not table_of(long_conversation()[begin:])["lacks_request"].any()


@pytest.mark.slow
@pytest.mark.parametrize("capture", [real_clients.CAPTURE, planted.CAPTURE], ids=["real", "planted"])
def test_what_the_feeder_reads_of_real_connections_is_undamaged(capture: Path) -> None:
    """Offences of clients and brokers are no damage to the data."""
    with open_capture(capture) as packets:
        records = records_of(SCHEMAS, packets, (), 1)
        assert failed(run_suite(table_of([keepable(SCHEMAS, record) for record in records]))) == {}
