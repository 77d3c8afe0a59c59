"""The stored layout of a bucket: frozen bytes can be read, unchanged parts stay unread and unwritten."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from expectations.judging.judge import ConnectionState
from streaming.state.bucket import STATE_VERSION, Bucket
from streaming.state.connections import NOWHERE, SEQUENCE, Connections, places_of
from tests.exchange import ID_A, ID_B, Exchange
from tests.streaming.judging.test_step import step
from tests.streaming.judging.travelling import on, windows
from tests.streaming.state.bucket_store import BucketStore, held, reloaded, states_of

LAYOUTS = Path(__file__).parent / "layouts"
TO_DO = (
    "the sample is stored differently. If a rule is new, or remembers more at the end of its state and with "
    "defaults, stored buckets can still be read: run `make layout`. After any other change raise "
    "STATE_VERSION in streaming/state/bucket.py first"
)


def sample_bucket() -> Bucket:
    """Two open connections, one of which offends, and one of which expects a response."""
    offending, waiting = Exchange(), Exchange(server="10.0.0.3:9092")
    offending.negotiate(client_id="app", version=4)
    offending.request("Metadata", 14, client_id="app", instance_id=ID_A)
    offending.request("Metadata", 14, instance_id=ID_B)
    waiting.negotiate(client_id="other")
    waiting.request(
        "ConsumerGroupHeartbeat", 1, {"groupId": "g", "memberId": "m", "memberEpoch": 0}, client_id="other"
    )
    bucket = Bucket()
    step().process(0, bucket, on(b"a", windows(offending)) + on(b"b", windows(waiting)))
    return bucket


def stored() -> BucketStore:
    """The bytes of today's layout, written when it was made."""
    store = BucketStore()
    store.bucket = (LAYOUTS / f"version-{STATE_VERSION}.bin").read_bytes()
    store.contents = (LAYOUTS / f"version-{STATE_VERSION}-contents.bin").read_bytes()
    return store


def test_a_bucket_stored_in_this_layout_is_read() -> None:
    """A change of the layout needs a new version number and new bytes; a rule with state only new bytes."""
    store = stored()
    assert store.bucket and store.bucket[0] == STATE_VERSION
    bucket = store.load()
    assert len(bucket.connections) == 2
    assert held(bucket) == held(sample_bucket()), TO_DO


def test_judging_continues_with_a_stored_bucket() -> None:
    bucket = stored().load()
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)
    for _ in range(2):
        exchange.request("Metadata", 14, instance_id=ID_B)
    exchange.close()
    report = step().process(0, bucket, on(b"a", windows(exchange, 5)))
    (finding,) = [found for found in report.findings if found.rule == "kip1313/instance-id-changed"]
    assert finding.occurrences == 2
    assert states_of(bucket.connections).keys() == {b"b" * 16}


def test_unread_contents_keep_their_bytes() -> None:
    store = BucketStore(sample_bucket())
    before = store.bucket, store.contents
    assert store.save(store.load()).contents is None
    assert (store.bucket, store.contents) == before
    assert store.contents_reads == 0


def test_counting_open_connections_reads_no_contents() -> None:
    store = BucketStore(sample_bucket())
    bucket = store.load()
    counts = {
        (software.name if software else None, server): count
        for (software, server), count in bucket.connections.by_software().items()
    }
    assert counts == {("tester", "10.0.0.2:9092"): 1, ("tester", "10.0.0.3:9092"): 1}
    known, unknown = bucket.connections.places(b"b" * 16 + b"z" * 16).tolist()
    assert (bucket.connections.rows[known, SEQUENCE], unknown) == (4, NOWHERE)
    assert store.contents_reads == 0


def test_connections_that_were_taken_are_not_there_until_they_are_put_back() -> None:
    connections = reloaded(sample_bucket()).connections
    taken = [connections.take(place) for place in connections.stored_places()]
    assert [state.conversation.connection[:1] for state in taken] == [b"a", b"b"]
    assert (len(connections), connections.places(b"a" * 16 + b"b" * 16).tolist()) == (0, [NOWHERE] * 2)
    connections.put(taken)
    assert list(states_of(connections).values()) == taken


_STATES = list(states_of(sample_bucket().connections).values())
_IDS = [bytes(16), b"a" * 16, b"a" * 15 + b"b", b"ab" * 8, b"\xff" * 16]
_OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "read", "store"]), st.sampled_from(_IDS), st.booleans()),
    max_size=30,
)


@given(_OPERATIONS)
def test_connections_behave_like_a_dictionary(operations: list[tuple[str, bytes, bool]]) -> None:
    """IDs that share bytes are distinguished."""
    kept, expected, store = Connections(), dict[bytes, ConnectionState](), BucketStore()
    for operation, connection, first in operations:
        (place,) = kept.places(connection).tolist()
        assert (place != NOWHERE) == (connection in expected)
        match operation:
            case "add":
                if place != NOWHERE:
                    kept.take(place)
                expected[connection] = state(connection, first)
                kept.put([expected[connection]])
            case "remove":
                kept.remove(np.array([place] if place != NOWHERE else [], np.int64))
                expected.pop(connection, None)
            case "read" if place != NOWHERE:
                taken = kept.take(place)
                assert taken == expected[connection]
                kept.put([taken])
            case "store":
                store.save(Bucket(kept))
                kept = store.load().connections
        assert len(kept) == len(expected)
        assert {kept.id_at(each) for each in kept.stored_places()} == expected.keys()
    assert states_of(kept) == expected


@given(st.permutations(range(4)), st.integers(0, 3))
def test_only_silent_connections_are_dropped(order: list[int], since: int) -> None:
    connections = Connections()
    for number in order:
        connection_state = state(bytes([number]) * 16, True)
        connection_state.conversation.progress.captured_at = number
        connections.put([connection_state])
    stored_ones = reloaded(Bucket(connections)).connections
    for kept in (connections, stored_ones):
        kept.drop_silent(since)
        assert {connection[0] for connection in states_of(kept)} == set(range(since, 4))


def test_unused_shared_facts_are_removed() -> None:
    connections, store = Connections(), BucketStore()
    for number in range(500):
        connection_state = state(b"a" * 16, True)
        connection_state.conversation.server = f"10.0.0.2:{number}"
        connections.remove(np.array(connections.stored_places(), np.int64))
        connections.put([connection_state])
        store.save(Bucket(connections))
        connections = store.load().connections
    assert len(connections.servers.values) < 100


def state(connection: bytes, first: bool) -> ConnectionState:
    copied = msgspec.msgpack.decode(msgspec.msgpack.encode(_STATES[first]), type=ConnectionState)
    copied.conversation.connection = connection
    return copied


IDS = st.sampled_from([bytes([first]) * 8 + bytes([second]) * 8 for first in range(3) for second in range(3)])


@given(
    st.lists(IDS, max_size=9, unique=True),
    st.lists(st.tuples(IDS, st.booleans()), max_size=9, unique_by=lambda stored: stored[0]),
)
def test_connections_are_found_where_they_are_stored(
    wanted: list[bytes], stored: list[tuple[bytes, bool]]
) -> None:
    ids = b"".join(name for name, _ in stored)
    is_stored = np.array([is_there for _, is_there in stored], np.bool_)
    there = {name: place for place, (name, is_there) in enumerate(stored) if is_there}
    expected = [there.get(name, NOWHERE) for name in wanted]
    assert places_of(b"".join(wanted), ids, is_stored).tolist() == expected
