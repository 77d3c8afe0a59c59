"""What strangers send becomes values of the archive's tables: never paths, and nothing that ends a batch."""

from __future__ import annotations

import importlib
import re
import struct
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from dashboards.monitor_alerts import OF_THE_FLEET
from decoders.frame.record import NO_TIME
from decoders.schema.registry import default_schemas
from expectations.conversation.members import ZERO
from expectations.conversation.texts import bounded
from streaming.archive.archive import Archive
from streaming.archive.archive_report import archived_usage
from streaming.judging.report import Report
from tests.exchange import SECOND, Exchange, advertisement
from tests.streaming.archive.test_archive import NAMES, judged, rows

TEXTS: Final = (
    "../../../../etc/cron.d/kipwatch",
    "day=2026-01-01/q-000000000000.parquet",
    "'); DROP TABLE usage; --",
    "\x00\x1b]0;title\x07",
    'a\nb,"c"\r',
    "\N{RIGHT-TO-LEFT OVERRIDE}txt.exe",
    "\N{GRINNING FACE}",
    "[/red]{}%s%n",
    "x" * 32_766,
)
FILE: Final = re.compile(r"[a-z]+/day=\d{4}-\d\d-\d\d/q-\d{12}\.parquet")
NUMBERS: Final = (-(1 << 15), -1, 0, (1 << 15) - 1)
BEGIN: Final = 1_780_000_000 * SECOND
"""A time of 2026."""
EPOCHS: Final = (-2, (1 << 31) - 1, -(1 << 31))


def texts() -> list[Report]:
    """Each text as client ID, software, group and member."""
    found = []
    for number, text in enumerate(TEXTS):
        exchange = Exchange(connection=bytes([number]) * 16, at=BEGIN + number * SECOND)
        software = {"clientSoftwareName": text, "clientSoftwareVersion": text}
        asked = exchange.request("ApiVersions", 4, software, client_id=text)
        feature = {"name": text, "minVersion": -(1 << 15), "maxVersion": (1 << 15) - 1}
        exchange.respond(asked, advertisement() | {"supportedFeatures": [feature]})
        beat = {"groupId": text, "memberId": text, "memberEpoch": 4, "instanceId": text}
        exchange.request("ConsumerGroupHeartbeat", 1, beat, client_id=text)
        exchange.close()
        found.append(judged(exchange))
    return found


def numbers() -> Report:
    """Keys, versions, epochs, error codes and nodes at the limits of their types."""
    exchange = Exchange(connection=b"n" * 16, at=BEGIN - 100 * SECOND)
    exchange.negotiate(client_id="numbers")
    node = {"clientSoftwareName": "n", "clientSoftwareVersion": "1", "nodeId": -(1 << 31), "clusterId": "c"}
    exchange.request("ApiVersions", 5, node, client_id="numbers")
    for key in NUMBERS:
        for version in NUMBERS:
            frame = struct.pack(">hhih", key, version, -(1 << 31), -1)
            exchange.request("Metadata", 1, frame=frame)
    for epoch in EPOCHS:
        beat = {"groupId": "g", "memberId": "m", "memberEpoch": epoch}
        asked = exchange.request("ConsumerGroupHeartbeat", 1, beat, client_id="numbers")
        exchange.respond(asked, {"errorCode": NUMBERS[0], "memberEpoch": epoch})
    exchange.close()
    return judged(exchange)


def shortest() -> Report:
    """Requests that end after each byte of their header, the first one before any other."""
    exchange = Exchange(connection=b"s" * 16, at=BEGIN)
    header = struct.pack(">hhih", 18, 0, 7, -1)
    for size in range(4, len(header)):
        exchange.request("ApiVersions", 0, frame=header[:size])
    exchange.close()
    return judged(exchange)


def at_the_ends_of_time() -> list[Report]:
    found = []
    for number, at in enumerate((0, NO_TIME - 1)):
        exchange = Exchange(connection=bytes([200 + number]) * 16)
        exchange.negotiate(client_id="far")
        exchange.close()
        exchange.records[:] = [replace(record, captured_at=at) for record in exchange.records]
        found.append(judged(exchange))
    return found


def test_texts_become_values_and_no_paths(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    Archive(str(folder), NAMES).write("q", 0, texts())
    written = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    assert [path for path in written if not FILE.fullmatch(path)] == []
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]
    assert {row["client_id"] for row in rows(folder, "usage")} == set(map(bounded, TEXTS))
    members = {(row["group_id"], row["member_id"]) for row in rows(folder, "groups")}
    assert members == {(bounded(text).replace("\0", ZERO), bounded(text)) for text in TEXTS}
    assert {row["client_id"] for row in rows(folder, "findings")} == set(map(bounded, TEXTS))


def test_numbers_and_times_at_their_limits_are_written(tmp_path: Path) -> None:
    reports = [numbers(), *at_the_ends_of_time()]
    sent = sum(kinds.get("request", 0) for report in reports for kinds in report.frames.values())
    Archive(str(tmp_path), NAMES).write("q", 0, reports)
    assert sum(row["requests"] for row in rows(tmp_path, "usage")) == sent


@pytest.mark.slow
def test_report_reads_it_and_no_client_can_fail_an_expectation_that_alerts(tmp_path: Path) -> None:
    auditing = importlib.import_module("streaming.audit.audit")
    Archive(str(tmp_path), NAMES).write("q", 0, [*texts(), numbers(), shortest()])
    assert {client_id for _, client_id, _ in archived_usage(tmp_path).clients} >= set(map(bounded, TEXTS))
    results = auditing.audit_archive(tmp_path, auditing.Days(), default_schemas())
    failed = {each.id for result in results for each in result.outcomes if not each.success}
    assert failed - set(OF_THE_FLEET) == set()
    assert {"epoch-exists", "header-certain"} <= failed
