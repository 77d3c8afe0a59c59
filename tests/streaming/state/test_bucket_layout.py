"""The stored layout of a bucket: read from frozen bytes, small, and read in part."""

from __future__ import annotations

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from expectations.judging.judge import ConnectionState
from streaming.state.bucket import Bucket
from streaming.state.bucket_layout import STATE_VERSION
from streaming.state.connections import Connections
from tests.exchange import ID_A, ID_B, Exchange
from tests.streaming.judging.test_bucket_step import on, step, windows
from tests.streaming.query.shelf import Shelf, again

LAYOUTS = Path(__file__).parent / "layouts"


def heard() -> Bucket:
    """Two open connections, one of which offends, and one of which waits for an answer."""
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


def stored() -> Shelf:
    """The bytes of today's layout, written when it was made."""
    shelf = Shelf()
    shelf.bucket = (LAYOUTS / f"version-{STATE_VERSION}.bin").read_bytes()
    shelf.contents = (LAYOUTS / f"version-{STATE_VERSION}-contents.bin").read_bytes()
    return shelf


def test_a_bucket_stored_in_this_layout_is_read() -> None:
    """A change of the layout needs a new version number and new bytes."""
    shelf = stored()
    assert shelf.bucket and shelf.bucket[0] == STATE_VERSION
    bucket = shelf.take()
    assert bucket == heard()
    assert len(bucket.connections) == 2


def test_a_stored_bucket_is_judged_on() -> None:
    bucket = stored().take()
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)
    for _ in range(2):
        exchange.request("Metadata", 14, instance_id=ID_B)
    exchange.close()
    report = step().process(0, bucket, on(b"a", windows(exchange, 5)))
    (finding,) = [found for found in report.findings if found.rule == "kip1313/instance-id-changed"]
    assert finding.occurrences == 2
    assert bucket.connections.keys() == {b"b" * 16}


def test_what_is_not_asked_for_is_kept_to_the_byte() -> None:
    shelf = Shelf(heard())
    before = shelf.bucket, shelf.contents
    assert shelf.put(shelf.take()).contents is None
    assert (shelf.bucket, shelf.contents) == before
    assert shelf.opened == 0


def test_counting_who_is_open_reads_nobody() -> None:
    shelf = Shelf(heard())
    bucket = shelf.take()
    counts = {
        (software.name if software else None, server): count
        for (software, server), count in bucket.connections.by_software().items()
    }
    assert counts == {("tester", "10.0.0.2:9092"): 1, ("tester", "10.0.0.3:9092"): 1}
    assert bucket.connections.latest_sequence(b"b" * 16) == 4
    assert bucket.connections.latest_sequence(b"z" * 16) == 0
    assert shelf.opened == 0


def test_each_connection_comes_once_though_it_is_read_meanwhile() -> None:
    bucket = again(heard())
    assert [state.conversation.connection[:1] for state in bucket.connections.values()] == [b"a", b"b"]


_STATES = list(heard().connections.values())
_IDS = [bytes(16), b"a" * 16, b"a" * 15 + b"b", b"ab" * 8, b"\xff" * 16]
_DEEDS = st.lists(
    st.tuples(st.sampled_from(["put", "take", "read", "store"]), st.sampled_from(_IDS), st.booleans()),
    max_size=30,
)


@given(_DEEDS)
def test_connections_are_kept_as_a_dictionary_would_keep_them(deeds: list[tuple[str, bytes, bool]]) -> None:
    """Ids that overlap each other are told apart."""
    kept, expected, shelf = Connections(), dict[bytes, ConnectionState](), Shelf()
    for deed, connection, first in deeds:
        match deed:
            case "put":
                kept[connection] = expected[connection] = state(connection, first)
            case "take":
                assert (kept.pop(connection, None) is None) == (expected.pop(connection, None) is None)
            case "read":
                assert kept.get(connection) == expected.get(connection)
            case "store":
                shelf.put(Bucket(kept))
                kept = shelf.take().connections
        assert len(kept) == len(expected)
        assert kept.keys() == expected.keys()
    assert dict(kept) == expected


@given(st.permutations(range(4)), st.integers(0, 3))
def test_only_the_silent_are_dropped(order: list[int], since: int) -> None:
    connections = Connections()
    for number in order:
        said = state(bytes([number]) * 16, True)
        said.conversation.progress.captured_at = number
        connections[bytes([number]) * 16] = said
    stored_ones = again(Bucket(connections)).connections
    for kept in (connections, stored_ones):
        kept.drop_silent(since)
        assert {connection[0] for connection in kept} == set(range(since, 4))


def test_shared_facts_that_nobody_has_any_more_do_not_pile_up() -> None:
    connections, shelf = Connections(), Shelf()
    for number in range(500):
        said = state(b"a" * 16, True)
        said.conversation.server = f"10.0.0.2:{number}"
        connections[b"a" * 16] = said
        shelf.put(Bucket(connections))
        connections = shelf.take().connections
    assert len(connections.layout.stored.servers) < 100


def state(connection: bytes, first: bool) -> ConnectionState:
    copied = msgspec.msgpack.decode(msgspec.msgpack.encode(_STATES[first]), type=ConnectionState)
    copied.conversation.connection = connection
    return copied
