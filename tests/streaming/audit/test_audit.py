"""The audit reads the end of a topic from a broker, librdkafka's own mock on loopback, and an archive."""

from __future__ import annotations

import importlib
import io
import socket
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from confluent_kafka import Producer
from rich.console import Console

from decoders.frame.record import Endpoint, Kind, Record
from decoders.schema.registry import Schemas, default_schemas
from decoders.schema.table import COMMITTED_TABLE, read_table
from streaming.archive.archive import Archive
from streaming.audit import frames_topic
from streaming.user_error import UserError
from tests.decoders.frame.columnar.batches import block
from tests.exchange import Exchange
from tests.streaming.archive.test_archive import NAMES, judged
from tests.streaming.captures import violating

pytestmark = pytest.mark.slow  # Great Expectations takes seconds to load

TOPIC = "kipwatch.frames"
PARTITIONS = 4
"""Those of a topic of the mock broker."""


@pytest.fixture
def broker() -> Iterator[Producer]:
    """A mock broker lives as long as the producer that made it."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    yield producer
    producer.flush(5)


@pytest.fixture
def auditing() -> ModuleType:
    """Loads Great Expectations where it is used: each worker that collects this file would spend 3 s."""
    return importlib.import_module("streaming.audit.audit")


def address(broker: Producer) -> str:
    (metadata,) = broker.list_topics(timeout=5).brokers.values()
    return f"{metadata.host}:{metadata.port}"


def opened(sequence: int) -> Record:
    ends = Endpoint("127.0.0.1:40000"), Endpoint("127.0.0.1:9092")
    return Record(Kind.OPENED, sequence.to_bytes(16, "big"), 9, sequence, 1_700_000_000_000_000_000, *ends)


def publish(broker: Producer, count: int) -> None:
    """In blocks of three records, over all partitions."""
    for number, begin in enumerate(range(1, count + 1, 3)):
        records = [opened(sequence) for sequence in range(begin, begin + 3)]
        broker.produce(TOPIC, value=block(records), partition=number % PARTITIONS)
    assert broker.flush(5) == 0


def test_the_records_of_all_partitions_are_read_and_judged(auditing: ModuleType, broker: Producer) -> None:
    """Whatever partition a record fell into, it is in the slice."""
    publish(broker, 60)
    blocks, frames = auditing.audit(address(broker), TOPIC, 10_000)
    assert (blocks.rows, frames.rows) == (20, 60)
    assert blocks.success and frames.success


def test_frames_are_decoded_with_the_release_that_is_named(
    auditing: ModuleType, broker: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, used = Schemas.of(read_table(COMMITTED_TABLE)), list[Schemas]()
    frame_table = auditing.frame_table

    def noting(schemas: Schemas, frames: object) -> object:
        used.append(schemas)
        return frame_table(schemas, frames)

    monkeypatch.setattr(auditing, "frame_table", noting)
    publish(broker, 3)
    for schemas in (None, other):
        assert all(result.success for result in auditing.audit(address(broker), TOPIC, 10, {}, schemas))
    assert used == [default_schemas(), other]


def test_no_more_than_the_limit_is_read_however_long_the_topic(
    auditing: ModuleType, broker: Producer
) -> None:
    """The duration of an audit does not depend on the age of the topic."""
    publish(broker, 200)
    _, frames = auditing.audit(address(broker), TOPIC, 5 * PARTITIONS)
    assert frames.rows == 5 * PARTITIONS


def test_what_does_not_hold_is_shown_with_the_number_of_rows(auditing: ModuleType, broker: Producer) -> None:
    """The table names the expectation, and a record that came twice counts twice."""
    publish(broker, 3)
    publish(broker, 3)
    _, result = auditing.audit(address(broker), TOPIC, 10_000)
    shown = io.StringIO()
    Console(file=shown, width=120).print(auditing.audit_table(result))
    lines = [line for line in shown.getvalue().splitlines() if "do not hold" in line]
    assert [line.split()[0] for line in lines] == ["opened-once", "record-unique"]
    assert all("6 of 6 rows do not hold" in line for line in lines)


def test_a_record_of_another_version_is_named_and_the_frames_beside_it_are_judged(
    auditing: ModuleType, broker: Producer
) -> None:
    """Blocks of the release before, or what another program wrote."""
    publish(broker, 3)
    broker.produce(TOPIC, value=b"a frame of the release before", partition=0)
    assert broker.flush(5) == 0
    blocks, frames = auditing.audit(address(broker), TOPIC, 10_000)
    (failed,) = [outcome for outcome in blocks.outcomes if not outcome.success]
    assert (failed.id, failed.unexpected_count, blocks.rows) == ("record-is-block", 1, 2)
    assert (frames.rows, frames.success) == (3, True)


def test_a_topic_of_other_records_is_one_line_that_names_the_place(
    auditing: ModuleType, broker: Producer
) -> None:
    """The user may have named the wrong topic."""
    broker.produce("orders", key=b"k", value=b"not a frame")
    assert broker.flush(5) == 0
    with pytest.raises(UserError, match=r"orders, partition .* holds no frames of kipwatch"):
        auditing.audit(address(broker), "orders", 10)


def test_findings_are_compared_with_the_checks_of_their_own_query(
    auditing: ModuleType, tmp_path: Path
) -> None:
    """Two queries share an archive, and each finds what the other does not."""
    malformed = Exchange()
    malformed.negotiate(client_id="app")
    malformed.request("Metadata", 12, frame=bytes.fromhex("0003000c00000009ffff00ff"))
    for query, exchange in (("p", violating()), ("q", malformed)):
        Archive(str(tmp_path), NAMES).write(query, 0, [judged(exchange)])

    def is_counted() -> bool:
        results = auditing.audit_archive(tmp_path, auditing.Days(), default_schemas())
        outcomes = {each.id: each.success for result in results for each in result.outcomes}
        return bool(outcomes["finding-was-counted"])

    assert is_counted()
    for path in (tmp_path / "coverage").rglob("q-*.parquet"):
        path.unlink()
    assert not is_counted()


def test_a_broker_that_is_not_there_is_one_line(
    auditing: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens on a port that was free a moment ago."""
    monkeypatch.setattr(frames_topic, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(UserError, match=f"cannot read the topic {TOPIC} at {free}"):
        auditing.audit(free, TOPIC, 10)
