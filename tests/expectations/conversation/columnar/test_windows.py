"""Windows made of columns equal those made of records: the same observations, folded alike.

Equal statements of a batch have one number, so that they travel and are looked at once.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from decoders.codec.request import write_request
from decoders.frame.columnar.cutting import ColumnarCutter
from decoders.frame.cutting import cut
from decoders.frame.record import Direction, Kind, Record
from decoders.schema.registry import Api, default_schemas
from decoders.wire.columnar.frames import joined
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.tracker import Tracker
from expectations.conversation.columnar import statement_cache
from expectations.conversation.columnar.windows import Arrival, ColumnarWindows
from expectations.conversation.observation import ConnectionKey, Evidence, Observation, Window
from streaming.feeder.source import open_capture
from tests.captures import planted, real_clients
from tests.decoders.codec.samples import APIS
from tests.decoders.frame.columnar.batches import ROWS, opened, record_of, traffic
from tests.decoders.wire.conversation import new_columnar_tracker
from tests.examples import examples
from tests.exchange import Exchange
from tests.expectations.conversation.scalar_windows import Said, in_file, in_topic, windows_of
from tests.expectations.conversation.steps import SCRIPTS, STEPS

SCHEMAS = default_schemas()
WINDOWS = ColumnarWindows(SCHEMAS, b"")
"""One for all tests: what it remembers of one must not show in another."""
few_examples = examples(3, suppress_health_check=list(HealthCheck), database=None)


def of_records(records: Sequence[Record], said: Said | None = None) -> list[Window]:
    """The scalar path: records of a topic, from offset 100 on."""
    return windows_of(SCHEMAS, placed(records), said)


def placed(records: Sequence[Record]) -> list[tuple[Record, Evidence]]:
    """The records at their places in the topic, whose blocks have ROWS rows."""
    return [
        (record, in_topic("t", (1, 100 + number // ROWS, number % ROWS), record))
        for number, record in enumerate(records)
    ]


def unheard(records: Sequence[Record]) -> list[Record]:
    """The records, of connections that nobody has heard of before."""
    names: dict[bytes, bytes] = {}
    return [
        msgspec.structs.replace(record, connection=names.setdefault(record.connection, uuid.uuid4().bytes))
        for record in records
    ]


def arrival(records: Sequence[Record]) -> Arrival:
    """The same records in one batch of the topic."""
    found = opened(records)
    offsets = pa.array(range(100, 100 + found.size), pa.int64())
    return Arrival.of_topic(
        found, pa.array(["t"] * found.size), pa.array([1] * found.size, pa.int32()), offsets
    )


def at_once(records: Sequence[Record], windows: ColumnarWindows = WINDOWS) -> list[Window]:
    """The columnar path, all records in one batch."""
    return windows.columns_of(arrival(records)).windows()


def contents(windows: list[Window]) -> list[tuple[ConnectionKey, list[Observation]]]:
    """What windows say, whatever numbers their statements have."""
    return [(window.connection, window.observations) for window in windows]


@pytest.mark.parametrize("api", [pytest.param(api, id=api.name) for api in APIS])
@few_examples
@given(data=st.data())
def test_frames_of_every_api_fold_alike(api: Api, data: st.DataObject) -> None:
    records = unheard(data.draw(traffic(api)))
    assert contents(at_once(records)) == contents(of_records(records))


@examples(80)
@given(st.lists(SCRIPTS, min_size=1, max_size=3), st.randoms(use_true_random=False), st.integers(1, 40))
def test_conversations_fold_alike(scripts: list[list[str]], random: object, size: int) -> None:
    """Several at once, in any order, some of it twice, and in windows of any size."""
    records = []
    for number, script in enumerate(scripts):
        exchange = Exchange(connection=bytes([number]) * 16)
        for step in script:
            STEPS[step](exchange)
        records += exchange.records
    random.shuffle(records)  # type: ignore[attr-defined]
    records, said = unheard([*records, *records[:3]]), Said()
    slices = [contents(columns.windows()) for columns in WINDOWS.slices_of(arrival(records), size)]
    at_places, begins = placed(records), range(0, len(records), size)
    assert slices == [contents(windows_of(SCHEMAS, at_places[at : at + size], said)) for at in begins]
    assert contents(at_once(records)) == contents(of_records(records, said))


@functools.cache
def scalar_records(capture: Path) -> list[Record]:
    tracker = Tracker(SCHEMAS, ports=(), run=1)
    with open_capture(capture) as packets:
        found = [record for packet in packets for record in tracker.feed(packet)]
    return [cut(SCHEMAS, record) for record in [*found, *tracker.finish()]]


@pytest.mark.parametrize("capture", [real_clients.CAPTURE, planted.CAPTURE], ids=lambda path: path.stem)
@pytest.mark.parametrize("size", [1_000, 50, 7])
def test_real_captures_fold_alike_from_packets_on(capture: Path, size: int) -> None:
    tracker, cutter = new_columnar_tracker(ports=(), run=1), ColumnarCutter(SCHEMAS)
    with open_capture(capture) as packets:
        batches = [tracker.feed(PacketBatch.of(packets)), tracker.finish()]
    (whole,) = joined(map(cutter.cut, batches), 1_000_000)
    placed = [(record, in_file("a.pcap", record)) for record in scalar_records(capture)]
    said = Said()
    begins = range(0, len(placed), size)
    expected = [contents(windows_of(SCHEMAS, placed[at : at + size], said)) for at in begins]
    slices = ColumnarWindows(SCHEMAS, b"").slices_of(Arrival.of_file(whole, "a.pcap"), size)
    assert [contents(columns.windows()) for columns in slices] == expected


def produce(sequence: int, acks: int) -> Record:
    frame = write_request(SCHEMAS, "Produce", 9, sequence, "p", {"acks": acks, "topicData": []})
    direction = Direction.TO_BROKER
    return record_of(
        Kind.REQUEST,
        sequence,
        connection=bytes(16),
        frame=frame[:-3],
        true_length=len(frame),
        direction=direction,
    )


def test_requests_that_expect_no_response_fold_alone() -> None:
    records = unheard([produce(sequence, 0) for sequence in range(1, 9)])
    (window,) = at_once(records)
    assert [seen.count for seen in window.observations] == [1, 7]
    assert contents([window]) == contents(of_records(records))


def test_those_that_are_owed_one_do_not_join_them() -> None:
    records = unheard([produce(sequence, sequence % 2) for sequence in range(1, 9)])
    (window,) = at_once(records)
    assert {seen.count for seen in window.observations if seen.expects_response} == {1}
    assert contents([window]) == contents(of_records(records))


def test_what_is_forgotten_is_learnt_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_cache, "CAPACITY", 3)
    windows = ColumnarWindows(SCHEMAS, b"")
    for records in (scalar_records(real_clients.CAPTURE)[at : at + 30] for at in range(0, 200, 30)):
        assert contents(at_once(records, windows)) == contents(of_records(records))


def test_a_connection_is_named_by_the_first_record_of_it() -> None:
    """Even where a later one claims to be of others."""
    first, *others = unheard([produce(sequence, 0) for sequence in range(1, 5)])
    records = [msgspec.structs.replace(first, run=9), *others]
    (window,) = at_once(records)
    assert window.connection.run == 9
    assert contents([window]) == contents(of_records(records))


def opening(connection: bytes, correlation_id: int) -> Exchange:
    exchange = Exchange(connection=connection * 16, correlation_id=correlation_id)
    exchange.negotiate(client_id="app")
    exchange.respond(exchange.request("Metadata", 12, client_id="app"), {})
    return exchange


def test_connections_that_say_the_same_share_their_statements() -> None:
    records = [*opening(b"a", 7).records, *opening(b"b", 3_000_000).records]
    one, other = at_once(unheard(records))
    assert one.numbers == other.numbers
    assert one.statements is other.statements
    assert len(one.statements) == len(set(one.numbers)) == len(one.numbers)


def test_what_differs_has_another_number() -> None:
    exchange = opening(b"a", 1)
    exchange.request("Metadata", 12, client_id="other")
    (window,) = at_once(unheard(exchange.records))
    assert len(set(window.numbers)) == len(window.numbers)
