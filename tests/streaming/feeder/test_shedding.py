"""Records of a feeder that sheds: gaps account for every byte, with sequences in order."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Closing, Direction, Endpoint, Kind, Record
from streaming.feeder.shedding import LENGTH_PREFIX, Shedding

CONNECTIONS = [bytes([number]) * 16 for number in range(3)]
DIRECTIONS = {Kind.REQUEST: Direction.TO_BROKER, Kind.RESPONSE: Direction.TO_CLIENT}


def record(kind: Kind, sequence: int, connection: bytes = CONNECTIONS[0], size: int = 0) -> Record:
    return Record(
        kind=kind,
        connection=connection,
        run=1,
        sequence=sequence,
        captured_at=sequence,
        client=Endpoint("10.0.0.1:1"),
        server=Endpoint("10.0.0.2:9092"),
        direction=DIRECTIONS.get(kind, Direction.NONE),
        true_length=size,
        frame=bytes(size),
    )


def size_of(record: Record) -> int:
    """Return the bytes of the stream in a record."""
    return record.true_length + LENGTH_PREFIX * (record.kind in DIRECTIONS)


LIVES = st.lists(
    st.tuples(
        st.sampled_from(CONNECTIONS),
        st.sampled_from([Kind.REQUEST, Kind.RESPONSE, Kind.CLOSED]),
        st.integers(1, 50),
        st.booleans(),
    ),
    max_size=60,
)


@given(LIVES)
def test_every_byte_is_published_or_in_a_gap(lives: list[tuple[bytes, Kind, int, bool]]) -> None:
    """Connections open and close in any order, with and without room. In the end there is room."""
    shedding, published, sequence = Shedding(), list[Record](), 0
    captured: defaultdict[tuple[int, Direction], int] = defaultdict(int)
    opening = dict.fromkeys(CONNECTIONS, 0)
    openings: dict[int, bytes] = {}
    for connection, kind, size, overfull in lives:
        if not overfull:
            published += shedding.recover()
        if not opening[connection]:
            sequence += 1
            opening[connection] = sequence
            openings[sequence] = bytes([sequence]) * 16
            published += shedding.admit(record(Kind.OPENED, sequence, openings[sequence]), overfull=overfull)
        sequence += 1
        came = record(kind, sequence, openings[opening[connection]], size if kind in DIRECTIONS else 0)
        captured[opening[connection], came.direction] += size_of(came)
        published += shedding.admit(came, overfull=overfull)
        if kind is Kind.CLOSED:
            opening[connection] = 0
    published += shedding.recover()
    by_connection: defaultdict[bytes, list[Record]] = defaultdict(list)
    for one in published:
        by_connection[one.connection].append(one)
    for opened, connection in openings.items():
        records = by_connection[connection]
        if not records:
            # Opened and closed without room: counted, and not published.
            continue
        assert [one.sequence for one in records] == sorted({one.sequence for one in records})
        assert records[0].kind is Kind.OPENED
        for direction in DIRECTIONS.values():
            passed = sum(size_of(one) for one in records if one.direction is direction)
            assert passed == captured[opened, direction]
    shed = shedding.bytes
    gaps = sum(one.true_length for one in published if one.kind is Kind.GAP)
    unseen = [opened for opened, connection in openings.items() if not by_connection[connection]]
    assert shed == gaps + sum(size for (opened, _), size in captured.items() if opened in unseen)
    assert shedding.records == sequence - sum(one.kind is not Kind.GAP for one in published)


def test_while_there_is_room_everything_passes() -> None:
    shedding = Shedding()
    for kind in Kind:
        came = record(kind, kind)
        assert shedding.admit(came, overfull=False) == [came]
    assert (shedding.records, shedding.bytes) == (0, 0)


def test_heartbeats_and_closings_pass_without_room() -> None:
    shedding = Shedding()
    beat, closed = record(Kind.HEARTBEAT, 1), record(Kind.CLOSED, 2)
    assert shedding.admit(beat, overfull=True) == [beat]
    assert shedding.admit(closed, overfull=True) == [closed]


def test_a_gap_for_a_refused_frame_replaces_the_next_of_its_direction() -> None:
    shedding = Shedding()
    shedding.refuse(record(Kind.REQUEST, 5, size=100))
    response = record(Kind.RESPONSE, 6, size=10)
    assert shedding.admit(response, overfull=False) == [response]
    (gap,) = shedding.admit(record(Kind.REQUEST, 7, size=20), overfull=False)
    assert (gap.kind, gap.sequence, gap.true_length) == (Kind.GAP, 7, 100 + 20 + 2 * LENGTH_PREFIX)
    after = record(Kind.REQUEST, 8, size=1)
    assert shedding.admit(after, overfull=False) == [after]


def test_a_connection_that_ends_after_a_refused_frame_is_evicted() -> None:
    shedding = Shedding()
    shedding.refuse(record(Kind.REQUEST, 5, size=100))
    closed = msgspec.structs.replace(record(Kind.CLOSED, 6), closing=Closing.FIN)
    (published,) = shedding.admit(closed, overfull=False)
    assert published.closing is Closing.EVICTED


@pytest.mark.parametrize("kind", DIRECTIONS)
def test_without_its_opening_a_connection_begins_with_gaps(kind: Kind) -> None:
    shedding = Shedding()
    shedding.refuse(record(Kind.OPENED, 1))
    (gap,) = shedding.admit(record(kind, 2, size=9), overfull=False)
    assert gap.kind is Kind.GAP


@pytest.mark.parametrize("kind", [Kind.PRINCIPAL, Kind.PLACEMENT])
def test_a_name_waits_until_there_is_room(kind: Kind) -> None:
    shedding = Shedding()
    first, name, request = record(kind, 1), record(kind, 2), record(Kind.REQUEST, 3, size=9)
    for came in (first, name, request):
        assert shedding.admit(came, overfull=True) == []
    published = list(shedding.recover())
    assert published[0] == name
    assert [each.kind for each in published] == [kind, Kind.GAP]
    # The first name, which the second one replaces, and the request.
    assert (shedding.records, shedding.bytes) == (2, 9 + LENGTH_PREFIX)


@pytest.mark.parametrize("kind", [Kind.PRINCIPAL, Kind.PLACEMENT])
def test_a_refused_name_makes_no_gap(kind: Kind) -> None:
    shedding = Shedding()
    shedding.refuse(record(kind, 1))
    for came in (record(Kind.REQUEST, 2, size=9), record(kind, 3), record(Kind.CLOSED, 4)):
        assert shedding.admit(came, overfull=False) == [came]


def test_a_name_leaves_the_gap_to_the_next_frame() -> None:
    shedding = Shedding()
    shedding.refuse(record(Kind.REQUEST, 1, size=100))
    name = msgspec.structs.replace(record(Kind.PRINCIPAL, 2), direction=Direction.TO_BROKER)
    assert shedding.admit(name, overfull=False) == [name]
    (gap,) = shedding.admit(record(Kind.REQUEST, 3, size=20), overfull=False)
    assert (gap.kind, gap.true_length) == (Kind.GAP, 100 + 20 + 2 * LENGTH_PREFIX)


@pytest.mark.parametrize(("claimed", "taken"), [((1 << 32) - 1, 0), (4, 0), (3, 3), (0, 0)])
def test_an_impossible_length_stands_for_the_bytes_that_it_has(claimed: int, taken: int) -> None:
    shedding = Shedding()
    invalid = msgspec.structs.replace(
        record(Kind.INVALID_SIZE, 1), direction=Direction.TO_BROKER, true_length=claimed
    )
    assert shedding.admit(invalid, overfull=True) == []
    (gap,) = shedding.recover()
    assert gap.true_length == shedding.bytes == LENGTH_PREFIX + taken
