"""A batch with more findings than fit into memory: reports are small, and read one at a time."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.dataset as ds
import pytest

from expectations.judging.finding import Finding
from streaming.archive import archive
from streaming.judging.report import Report, pack_report, unpack_report
from streaming.query.query import BatchReports
from tests.exchange import ID_A, ID_B, Exchange

BUCKETS, FINDINGS = 8, 500
BYTES_OF_FINDING = 250


@pytest.fixture(scope="module")
def packed() -> list[bytes]:
    """Reports of buckets with many findings, each of a client of its own."""
    return [
        pack_report(Report(bucket, list(found(bucket)), frames={"Metadata": {"request": 3}}))
        for bucket in range(BUCKETS)
    ]


def found(bucket: int) -> Iterator[Finding]:
    """The same finding of many clients, each with an ID of its own."""
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)
    exchange.request("Metadata", 14, instance_id=ID_B)
    one = exchange.judge().findings[0]
    for number in range(FINDINGS):
        client, client_id = f"10.0.{bucket}.{number % 250}:{number}", f"app-{bucket}-{number}"
        digest = hashlib.blake2b(client_id.encode(), digest_size=28).hexdigest()
        yield msgspec.structs.replace(
            one, id=digest[:24], connection=digest[24:], client=client, client_id=client_id
        )


def test_a_report_travels_unchanged() -> None:
    report = Report(7, list(found(0))[:3], checks_at={"L": {"rule": {"violates": 3}}}, captured={5: 1})
    assert unpack_report(pack_report(report)) == report


def test_many_findings_travel_small(packed: list[bytes]) -> None:
    assert len(msgspec.msgpack.encode(unpack_report(packed[0]))) > 4 * BYTES_OF_FINDING * FINDINGS
    assert len(packed[0]) < BYTES_OF_FINDING * FINDINGS


def test_findings_of_one_report_are_in_memory_at_a_time(packed: list[bytes]) -> None:
    batch, highest, before = BatchReports(map(unpack_report, packed)), 0, alive()
    for number, _ in enumerate(batch.findings()):
        if number % FINDINGS == FINDINGS // 2:
            highest = max(highest, alive())
    assert batch.found == BUCKETS * FINDINGS
    assert FINDINGS <= highest - before <= 2 * FINDINGS
    assert [report.findings for report in batch.reports] == [[]] * BUCKETS
    assert (batch.frames, batch.undecodable) == (3 * BUCKETS, 0)


def test_a_sample_is_drawn_from_the_findings_of_all_buckets(packed: list[bytes]) -> None:
    """Some 100 of 200 are of the last four of eight buckets; fewer than 60 once in millions of runs."""
    batch = BatchReports(map(unpack_report, packed), sampled=200)
    sent = [finding.client for finding in batch.findings()]
    sample = [finding.client for finding in batch.sample]
    assert len(set(sample)) == len(sample) == 200
    assert len(set(sample) & set(sent[len(sent) // 2 :])) > 60
    assert set(sample) <= set(sent)


def test_findings_that_are_archived_are_in_memory_a_report_at_a_time(
    packed: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, highest = BatchReports(map(unpack_report, packed), keeps_findings=True), 0
    sent, before = [finding.id for finding in batch.findings()], alive()
    assert [report.findings for report in batch.reports] == [[]] * BUCKETS

    def counted() -> Iterator[Finding]:
        nonlocal highest
        for number, finding in enumerate(batch.kept_findings()):
            if number % FINDINGS == FINDINGS // 2:
                highest = max(highest, alive())
            yield finding

    monkeypatch.setattr(archive, "ROWS", FINDINGS // 4)
    archive.Archive(str(tmp_path), {}).write("q", 0, batch.reports, findings=counted())
    assert FINDINGS <= highest - before <= 2 * FINDINGS
    assert ds.dataset(tmp_path / "findings", partitioning="hive").to_table()["id"].to_pylist() == sent


def alive() -> int:
    gc.collect()
    return sum(isinstance(each, Finding) for each in gc.get_objects())
