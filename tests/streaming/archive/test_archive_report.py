"""What `report` reads from an archive is what it finds in the captures of the same traffic."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from decoders.schema.registry import default_schemas
from expectations.report.fleet import ClientUsage
from expectations.report.versions import AdvertisingBroker
from streaming.archive.archive import Archive, CaptureArchive
from streaming.archive.archive_report import archived_usage, is_archive
from streaming.archive.tables import VERSION_KEY
from streaming.check.examination import Examination, examine
from streaming.judging.report import Report
from streaming.judging.usage import Usage, Use
from streaming.user_error import UserError
from tests.captures import real_clients
from tests.exchange import ADVERTISED, Exchange
from tests.streaming.captures import packets_of, write_packets

NAMES = default_schemas().api_names


HANDSHAKE = 3
"""Packets of a connection before its first request."""


def silent(client_id: str = "silent", client: str = "10.0.0.7:41000") -> Exchange:
    """A client that never asks for the versions."""
    exchange = Exchange(connection=b"s" * 16, client=client)
    for _ in range(2):
        exchange.request("Metadata", 1, client_id=client_id)
    exchange.close()
    return exchange


def asking() -> Exchange:
    """A client that sends the highest version of Metadata that it is offered, and an older Produce."""
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for version in (12, 14):
        exchange.request("Metadata", version, client_id="app")
    exchange.close()
    return exchange


def archived(capture: Path, folder: Path) -> Examination:
    archive = CaptureArchive(str(folder), NAMES)
    return examine(capture, default_schemas(), archive=archive)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Of three clients. One was connected when the capture began, so it may have asked before."""
    packets = [packet for exchange in (asking(), silent()) for packet in packets_of(exchange)]
    packets += packets_of(silent("joined", "10.0.0.8:42000"))[HANDSHAKE:]
    return write_packets(tmp_path / "three.pcap", sorted(packets, key=lambda packet: packet.captured_at))


def comparable(clients: list[ClientUsage]) -> list[tuple[object, ...]]:
    """Usage, but for the time of the latest request, which the archive knows by the minute."""
    return [
        (
            *client[:2],
            client.usage.connections,
            client.usage.without_api_versions,
            {version: (use.requests, use.is_highest_offered) for version, use in client.usage.uses.items()},
        )
        for client in clients
    ]


def test_an_archive_tells_the_same_as_its_capture(capture: Path, tmp_path: Path) -> None:
    examination = archived(capture, tmp_path / "archive")
    usage = archived_usage(tmp_path / "archive")
    assert comparable(usage.clients) == comparable(examination.usage)
    assert {client.client_id: client.usage.without_api_versions for client in usage.clients} == {
        "app": 0,
        "silent": 1,
        "joined": 0,
    }
    assert usage.brokers == [AdvertisingBroker("", "10.0.0.2:9092", ADVERTISED)]
    assert (usage.requests, usage.folded) == (7, 0)


@pytest.mark.slow
def test_the_archive_of_real_clients_tells_the_same_as_their_capture(tmp_path: Path) -> None:
    examination = archived(real_clients.CAPTURE, tmp_path / "archive")
    usage = archived_usage(tmp_path / "archive")
    assert comparable(usage.clients) == comparable(examination.usage)
    assert [(broker.address, broker.ranges) for broker in usage.brokers] == [
        (broker.address, dict(broker.ranges)) for broker in examination.brokers
    ]


def test_a_capture_that_is_archived_again_counts_once(capture: Path, tmp_path: Path) -> None:
    for _ in range(2):
        archived(capture, tmp_path / "archive")
    assert archived_usage(tmp_path / "archive").requests == 7


def test_a_long_capture_is_archived_in_several_batches(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that memory does not grow with it."""
    monkeypatch.setattr("streaming.archive.archive.REPORTS", 2)
    archive = CaptureArchive(str(tmp_path / "archive"), NAMES)
    examination = examine(capture, default_schemas(), archive=archive, window=1)
    assert len([*(tmp_path / "archive" / "usage").rglob("*.parquet")]) > 2
    assert comparable(archived_usage(tmp_path / "archive").clients) == comparable(examination.usage)


def test_requests_of_folded_clients_are_counted(tmp_path: Path) -> None:
    known, folded = (Use(29_700_000, "c", "L", None, None, None, 3, 12, each) for each in (False, True))
    reports = [Report(0, usage=[Usage(known, {2: 3}), Usage(folded, {2: 4})])]
    Archive(str(tmp_path), NAMES).write("q", 0, reports)
    usage = archived_usage(tmp_path)
    assert (usage.requests, usage.folded) == (7, 4)


def test_a_table_of_another_version_is_refused(capture: Path, tmp_path: Path) -> None:
    archived(capture, tmp_path / "archive")
    file = next((tmp_path / "archive" / "usage").rglob("*.parquet"))
    found = pq.read_table(file, partitioning=None)
    pq.write_table(found.replace_schema_metadata({VERSION_KEY: b"2"}), file)
    with pytest.raises(UserError, match="version 2, and this release reads version 1"):
        archived_usage(tmp_path / "archive")


def test_a_folder_of_captures_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "usage").mkdir()
    assert not is_archive(tmp_path)
    (tmp_path / "usage" / "day=2026-06-21").mkdir()
    assert is_archive(tmp_path)


def test_a_broken_table_is_refused_in_one_line(tmp_path: Path) -> None:
    day = tmp_path / "usage" / "day=2026-06-21"
    day.mkdir(parents=True)
    (day / "q-000000000000.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(UserError, match="cannot read the archive") as raised:
        archived_usage(tmp_path)
    assert "\n" not in str(raised.value)
