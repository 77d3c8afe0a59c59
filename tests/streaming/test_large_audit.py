"""Ranges of real topics and an archive are audited in Spark, chunk by chunk; planted damage is named."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from decoders.frame.record import Record
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.commands.main import main
from streaming.settings.configuration import Configuration, FramesTopicSettings, Topics
from streaming.user_error import UserError
from tests.captures import planted
from tests.decoders.frame.columnar.batches import block
from tests.expectations.suites.test_frames import (
    OPENED,
    dropped,
    long_conversation,
    of_the_future,
    on_a_wrong_clock,
    swapped,
)

pytestmark = [pytest.mark.jvm, pytest.mark.long, pytest.mark.timeout(600)]

START = 1_700_000_000_000_000_000
"""A time of 2023, in nanoseconds."""
ONE_PARTITION = Topics(frames=FramesTopicSettings(partitions=1))
DAMAGES: dict[str, tuple[Callable[[list[Record]], list[Record]], set[str]]] = {
    "undamaged": (list, set()),
    "swapped": (swapped, {"frames/sequence-ascending"}),
    "dropped": (dropped, {"frames/request-present"}),
    "wrong-clock": (on_a_wrong_clock, {"frames/clock-not-set-back"}),
    "future": (of_the_future, {"frames/captured-at-nanoseconds"}),
}


@pytest.fixture(scope="module")
def large_audit() -> ModuleType:
    """Loads Great Expectations where it is used: each worker that collects this file would spend 3 s."""
    return importlib.import_module("streaming.large_audit")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        for topic in (*DAMAGES, "foreign"):
            create_topics(broker.internal, topic, "findings", ONE_PARTITION)
        producer = Producer({"bootstrap.servers": broker.internal})
        for topic, (damage, _) in DAMAGES.items():
            for value in in_blocks(damage(captured())):
                producer.produce(topic, value)
        producer.produce("foreign", b"poison")
        for value in in_blocks(captured()):
            producer.produce("foreign", value)
        assert producer.flush(30) == 0
        yield broker.internal


def captured() -> list[Record]:
    """The conversation in 2023: the audit compares it with the clock."""
    earlier = OPENED.captured_at - START
    return [replace(record, captured_at=record.captured_at - earlier) for record in long_conversation()]


def in_blocks(records: list[Record]) -> list[bytes]:
    return [block(records[begin : begin + 3]) for begin in range(0, len(records), 3)]


@pytest.mark.parametrize("topic", DAMAGES)
def test_planted_damage_of_a_topic_is_named(
    bootstrap: str, topic: str, large_audit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the range is cut into tasks, and the rows into chunks."""
    monkeypatch.setattr(large_audit, "BLOCKS_OF_A_TASK", 2)
    monkeypatch.setattr(large_audit, "CHUNK_ROWS", 5)
    configuration = Configuration(bootstrap=bootstrap, frames_topic=topic)
    results = large_audit.audit_range(configuration, large_audit.PublishedRange())
    records, frames = len(in_blocks(captured())), len(captured())
    lost = len(captured()) - len(DAMAGES[topic][0](captured()))
    assert {result.table: result.rows for result in results} == {
        "records": records - lost // 3,
        "frames": frames - lost,
    }
    outcomes = [(result.table, outcome) for result in results for outcome in result.outcomes]
    assert {f"{table}/{each.id}" for table, each in outcomes if not each.success} == DAMAGES[topic][1]


def test_a_record_that_is_no_block_is_named_and_a_range_without_frames_refused(
    bootstrap: str, large_audit: ModuleType
) -> None:
    configuration = Configuration(bootstrap=bootstrap, frames_topic="foreign")
    at = datetime(2020, 1, 1, tzinfo=UTC)
    records, frames = large_audit.audit_range(configuration, large_audit.PublishedRange(since=at))
    (failed,) = [each for each in records.outcomes if not each.success]
    assert (failed.id, failed.unexpected_count, frames.success) == ("record-is-block", 1, True)
    with pytest.raises(UserError, match="foreign has no frames of kipwatch in this range"):
        large_audit.audit_range(configuration, large_audit.PublishedRange(until=at))


def test_a_large_archive_is_audited_as_a_small_one(
    tmp_path: Path,
    large_audit: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "archive"
    assert main(["report", "--archive", str(folder), str(planted.CAPTURE)]) == 0
    (original,) = (folder / "findings").rglob("*.parquet")
    (original.parent / "copy.parquet").write_bytes(original.read_bytes())

    def audited() -> object:
        capsys.readouterr()
        assert main(["audit", "--archive", str(folder), "--json"]) == 1
        return json.loads(capsys.readouterr().out.splitlines()[-1])["results"]

    in_one_process = audited()
    monkeypatch.setattr("streaming.audit.audit.MOST_ROWS", 0)
    monkeypatch.setattr(large_audit, "CHUNK_ROWS", 20)
    assert audited() == in_one_process
