"""`audit` of a demo: its topic and its archive are whole, and damage planted in them is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from msgspec.structs import replace
from rich.console import Console

from decoders.frame.record import Kind, Pairing, Record
from streaming.archive.tables import VERSION, VERSION_KEY
from streaming.audit.frames_topic import latest_slice
from streaming.broker.topics import create_topics
from streaming.commands.main import main
from streaming.demo.demo import Demo
from streaming.demo.road import Road
from streaming.demo.screen import Screen
from streaming.feeder.capture import can_capture
from streaming.settings.configuration import FramesTopicSettings, Topics
from tests.decoders.frame.columnar.batches import block
from tests.e2e.pages import on_free_pages

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]

EVERYTHING = 1_000_000
HOUR = 3_600_000_000_000
SECOND = 1_000_000_000
"""Nanoseconds."""
ONE_PARTITION = Topics(frames=FramesTopicSettings(partitions=1))


@dataclass(frozen=True)
class Played:
    """What a demo has left: its broker, its records in their order, its findings' ids, and its archive."""

    bootstrap: str
    records: list[Record]
    findings: set[str]
    archive: Path


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("demo")
    configuration = on_free_pages()
    screen, captured, archive = Screen(Console()), can_capture(), folder / "archive"
    with Road(folder, captured, configuration, screen.say, ["--archive", str(archive)]) as road:
        demo = Demo(road, configuration, screen, captured)
        try:
            demo.play(300.0)
            demo.drain()
            found = {finding.id for finding in demo.findings()}
        finally:
            demo.close()
        road.application.stop()
        placed = latest_slice(road.internal, configuration.frames_topic, EVERYTHING).frames
        yield Played(road.internal, [record for *_, record in placed], found, archive)


@pytest.fixture
def failed(capsys: pytest.CaptureFixture[str]) -> Callable[..., set[str]]:
    """Run `audit`, and return the expectations that do not hold."""

    def run(*flags: str | Path) -> set[str]:
        capsys.readouterr()
        status = main(["audit", *map(str, flags), "--json"])
        results = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]
        named = {
            f"{result['table']}/{outcome['id']}"
            for result in results
            for outcome in result["outcomes"]
            if not outcome["success"]
        }
        assert status == bool(named)
        return named

    return run


def dropped(records: list[Record]) -> list[Record]:
    """Without a request that was answered, of a connection whose opening is there."""
    request, _ = exchange(records)
    return [record for record in records if record is not request]


def swapped(records: list[Record]) -> list[Record]:
    """With a response before its request."""
    request, response = exchange(records)
    places = {id(request): response, id(response): request}
    return [places.get(id(record), record) for record in records]


def repeated(records: list[Record]) -> list[Record]:
    """With a request twice."""
    request, _ = exchange(records)
    return [again for record in records for again in [record] * (1 + (record is request))]


def on_a_wrong_clock(records: list[Record]) -> list[Record]:
    """With a response that was captured an hour before its request, and all after it, too."""
    _, response = exchange(records)
    return [
        replace(record, captured_at=record.captured_at - HOUR)
        if record.connection == response.connection and record.sequence >= response.sequence
        else record
        for record in records
    ]


def exchange(records: list[Record]) -> tuple[Record, Record]:
    """A request and the response to it, captured within a second, amid the records of a connection."""
    requests = {(each.connection, each.sequence): each for each in records if each.kind is Kind.REQUEST}
    opened = {each.connection for each in records if each.kind is Kind.OPENED}
    for response in records:
        request = requests.get((response.connection, response.paired_sequence))
        if response.pairing is not Pairing.MATCHED or request is None or request.connection not in opened:
            continue
        if response.captured_at - request.captured_at < SECOND:
            return request, response
    raise AssertionError("the demo has no exchange")


TOPIC: dict[str, tuple[Callable[[list[Record]], list[Record]], set[str]]] = {
    "undamaged": (list, set()),
    "dropped": (dropped, {"frames/request-present"}),
    "swapped": (swapped, {"frames/sequence-ascending"}),
    "repeated": (repeated, {"frames/record-unique"}),
    "wrong-clock": (on_a_wrong_clock, {"frames/clock-not-set-back"}),
}


@pytest.mark.parametrize("damage", TOPIC)
def test_damage_of_the_topic_is_named(played: Played, failed: Callable[..., set[str]], damage: str) -> None:
    change, named = TOPIC[damage]
    create_topics(played.bootstrap, damage, "findings", ONE_PARTITION)
    producer = Producer({"bootstrap.servers": played.bootstrap})
    for record in change(played.records):
        producer.produce(damage, block([record]))
        producer.poll(0)
    assert producer.flush(30) == 0
    topic = ["--bootstrap", played.bootstrap, "--frames-topic", damage]
    assert failed(*topic, "--records", str(EVERYTHING)) == named


def test_the_topic_of_the_demo_itself_is_whole(played: Played, failed: Callable[..., set[str]]) -> None:
    assert failed("--bootstrap", played.bootstrap, "--records", str(EVERYTHING)) == set()


def test_the_archive_has_the_findings_of_the_topic(played: Played) -> None:
    rows = pq.read_table(played.archive / "findings", columns=["id"])
    assert set(rows["id"].to_pylist()) == played.findings != set()


def undamaged(archive: Path) -> None:
    del archive


def with_findings_twice(archive: Path) -> None:
    file = first(archive / "findings")
    rows = pq.read_table(file, partitioning=None)
    pq.write_table(pa.concat_tables([rows, rows]), file)


def with_a_table_of_another_release(archive: Path) -> None:
    file = first(archive / "usage")
    rows = pq.read_table(file, partitioning=None)
    metadata = {**rows.schema.metadata, VERSION_KEY: str(VERSION + 1).encode()}
    pq.write_table(rows.replace_schema_metadata(metadata), file)


def with_a_column_of_another_release(archive: Path) -> None:
    file = first(archive / "usage")
    rows = pq.read_table(file, partitioning=None)
    pq.write_table(rows.append_column("region", [["north"] * len(rows)]), file)


def without_a_file(archive: Path) -> None:
    first(archive / "connections").unlink()


def with_rows_on_another_day(archive: Path) -> None:
    file = first(archive / "errors")
    other = file.parent.with_name("day=2026-01-01")
    other.mkdir()
    shutil.copy(file, other)


def first(table: Path) -> Path:
    return min(table.rglob("[!.]*.parquet"))


ARCHIVE: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "undamaged": (undamaged, set()),
    "findings-twice": (with_findings_twice, {"findings/finding-published-once"}),
    "another-version": (with_a_table_of_another_release, {"usage/table-version"}),
    "another-column": (with_a_column_of_another_release, {"usage/columns-complete"}),
    "dropped-file": (without_a_file, {"coverage/files-of-the-batch"}),
    "another-day": (with_rows_on_another_day, {"errors/row-in-its-day", "errors/errors-once"}),
}


@pytest.mark.parametrize("damage", ARCHIVE)
def test_damage_of_the_archive_is_named(
    played: Played, failed: Callable[..., set[str]], damage: str, tmp_path: Path
) -> None:
    change, named = ARCHIVE[damage]
    copy = Path(shutil.copytree(played.archive, tmp_path / "archive"))
    change(copy)
    assert failed("--archive", copy) == named
