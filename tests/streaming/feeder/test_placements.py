"""A feeder that watches pods says of each connection where its client runs, also if it learns that later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest

from decoders.frame.record import Kind, Record
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from expectations.judging.terms import Terms
from streaming.feeder import placements
from streaming.feeder.feeder import Feeder
from streaming.feeder.pod_watch import PodWatch
from streaming.settings.configuration import Configuration
from streaming.settings.owners import Owner, owners_of
from tests.decoders.frame.columnar.batches import block
from tests.decoders.wire.conversation import SERVER, TO_BROKER, TO_CLIENT, metadata, prefixed
from tests.streaming.captures import packets_of
from tests.streaming.commands.test_principals import offending
from tests.streaming.feeder.pod_server import PodServer, pod, serving, until, watching
from tests.streaming.feeder.test_feeder import FakeOutlet
from tests.streaming.query.test_same_as_check import streamed

HOST = "10.0.0.1"
CHECKOUT = "payments/checkout@node-7"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodServer]:
    monkeypatch.setattr(placements, "LOOK_INTERVAL", 0.0)
    yield from serving(tmp_path, monkeypatch)


@pytest.fixture
def watch(server: PodServer) -> Iterator[PodWatch]:
    with closing(watching(server)) as found:
        until(lambda: found.current_since)
        yield found


def connection(port: int = 40_000, host: str = HOST) -> SyntheticConnection:
    return SyntheticConnection(SocketAddress(bytes(map(int, host.split("."))), port), SERVER)


def begun(synthetic: SyntheticConnection, before: float = 0.0) -> list[Packet]:
    """A connection that opens now, or so many seconds ago, and asks something."""
    at = time.time_ns() - int(before * 1e9)
    return [*synthetic.opened(at), *synthetic.sent(at + 1_000, TO_BROKER, prefixed(metadata(1)))]


def ended(synthetic: SyntheticConnection) -> list[Packet]:
    at = time.time_ns()
    return [*synthetic.finished(at, TO_BROKER), *synthetic.finished(at + 1_000, TO_CLIENT)]


class Feeding:
    """A feeder that is given one batch after another, and the records that it has published."""

    def __init__(self, watch: PodWatch) -> None:
        self._feeder, self._outlet = Feeder(Configuration(), run=1, pods=watch), FakeOutlet()
        self._given = Queue[PacketBatch | None]()
        self._thread = Thread(target=self._feeder.run, args=(self._batches(), self._outlet), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._given.put(None)
        self._thread.join()

    def _batches(self) -> Iterator[PacketBatch]:
        while (batch := self._given.get()) is not None:
            yield batch
            # The feeder asks for the next batch once this one is published and measured.
            self._given.task_done()

    def feed(self, *packets: Packet) -> list[str]:
        """Return the placements that follow a batch."""
        known = len(self._outlet.records)
        self._given.put(PacketBatch.of(list(packets)))
        self._given.join()
        new = self._outlet.records[known:]
        numbers = [record.sequence for record in self._outlet.records]
        assert numbers == sorted(set(numbers))
        block(self._outlet.records)
        return [record.frame.decode() for record in new if record.kind is Kind.PLACEMENT]

    def settle(self) -> list[str]:
        """Let the connections have waited. Returns what is put right."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(placements, "LAG", 0)
            return self.feed()

    def count(self, outcome: str) -> float:
        name = "kipwatch_kubernetes_connections_total"
        return self._feeder.registry.get_sample_value(name, {"outcome": outcome}) or 0

    @property
    def records(self) -> list[Record]:
        return self._outlet.records


@pytest.fixture
def feeding(watch: PodWatch, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeding]:
    monkeypatch.setattr("streaming.feeder.feeder.METRICS_INTERVAL", 0.0)
    with closing(Feeding(watch)) as found:
        yield found


def checkout(name: str = "one", host: str = HOST, before: float = 60) -> dict[str, object]:
    started = time.time() - before
    return pod(name, host, started=started, made_by=("ReplicaSet", "checkout-7d9f"), stamp="7d9f")


def known(watch: PodWatch, host: str = HOST) -> bool:
    return bool(watch.addresses.placements(host, time.time_ns()))


def test_a_connection_of_a_known_pod_is_named_at_once(
    server: PodServer, watch: PodWatch, feeding: Feeding
) -> None:
    server.put(checkout())
    until(lambda: known(watch))
    assert feeding.feed(*begun(connection())) == [CHECKOUT]
    assert feeding.feed() == feeding.settle() == [] and feeding.count("pod") == 1
    opened, asked, placement = feeding.records
    assert (opened.kind, asked.kind, placement.kind) == (Kind.OPENED, Kind.REQUEST, Kind.PLACEMENT)
    assert placement.connection == opened.connection and placement.captured_at == asked.captured_at


def test_a_pod_that_connects_before_the_api_tells_of_it_is_named_later(
    server: PodServer, watch: PodWatch, feeding: Feeding
) -> None:
    assert feeding.feed(*begun(connection(), before=1)) == []
    server.put(checkout(before=2))
    until(lambda: known(watch))
    assert feeding.feed() == [CHECKOUT]
    assert feeding.feed() == feeding.settle() == [] and feeding.count("pod") == 1


def test_an_address_that_is_reused_is_the_pods_that_had_it_then(
    server: PodServer, watch: PodWatch, feeding: Feeding
) -> None:
    first = checkout()
    server.put(first)
    until(lambda: known(watch))
    early = begun(connection(40_000))
    server.remove(first)
    until(lambda: not known(watch))
    between = begun(connection(40_001))
    time.sleep(1.1)
    server.put(
        pod("index-0", HOST, started=time.time(), made_by=("StatefulSet", "index"), namespace="search")
    )
    until(lambda: known(watch))
    late = begun(connection(40_002))
    assert feeding.feed(*early, *between, *late) == [CHECKOUT, "search/index@node-7"]
    assert feeding.settle() == [] and (feeding.count("pod"), feeding.count("unknown")) == (2, 1)


@pytest.mark.parametrize("successor", ["index", ""])
def test_a_name_of_the_predecessor_is_put_right_or_taken_back(
    server: PodServer, watch: PodWatch, feeding: Feeding, successor: str
) -> None:
    """A pod connects before the API tells of it, and before it tells that the address's former pod ended."""
    first = checkout()
    server.put(first)
    until(lambda: known(watch))
    assert feeding.feed(*begun(connection())) == [CHECKOUT]
    watch.addresses.remove("uid-of-one", time.time_ns() - 1_000_000_000)
    if successor:
        server.put(pod(successor, HOST, started=time.time() - 1, namespace="search"))
        until(lambda: known(watch))
    assert feeding.feed() == [] and feeding.count("pod") == 0
    assert feeding.settle() == ["search/index@node-7" if successor else ""]
    assert feeding.count("pod" if successor else "unknown") == 1


def test_what_shares_a_nodes_address_is_named_by_the_node(
    server: PodServer, watch: PodWatch, feeding: Feeding
) -> None:
    server.put(pod("agent", HOST, started=time.time() - 60, host_network=True))
    server.put(pod("proxy", HOST, started=time.time() - 50, host_network=True))
    until(lambda: known(watch))
    assert feeding.feed(*begun(connection())) == ["@node-7"]
    assert feeding.settle() == [] and feeding.count("node") == 1


def test_of_two_pods_with_an_address_neither_is_named(
    server: PodServer, watch: PodWatch, feeding: Feeding
) -> None:
    server.put(checkout())
    server.put(pod("other", HOST, started=time.time() - 50))
    until(lambda: len(watch.addresses.placements(HOST, time.time_ns())) == 2)
    assert feeding.feed(*begun(connection())) == feeding.settle() == [] and feeding.count("ambiguous") == 1


def test_an_address_outside_of_the_cluster_has_no_name(
    server: PodServer, watch: PodWatch, feeding: Feeding
) -> None:
    assert feeding.feed(*begun(connection())) == feeding.settle() == []
    assert feeding.count("unknown") == 1
    server.put(checkout())
    until(lambda: known(watch))
    assert feeding.feed() == []


def test_a_connection_that_ended_gets_no_name_any_more(
    server: PodServer, watch: PodWatch, feeding: Feeding
) -> None:
    waiting, short = connection(40_000), connection(40_001)
    assert feeding.feed(*begun(waiting, before=1)) == []
    assert feeding.feed(*ended(waiting)) == [] and feeding.count("closed") == 1
    assert feeding.feed(*begun(short, before=1), *ended(short)) == [] and feeding.count("closed") == 2
    server.put(checkout())
    until(lambda: known(watch))
    assert feeding.feed() == []
    named = connection(40_002)
    assert feeding.feed(*begun(named)) == [CHECKOUT]
    assert feeding.feed(*ended(named)) == [] and (feeding.count("closed"), feeding.count("pod")) == (2, 1)


def test_the_oldest_of_too_many_that_wait_get_no_name(
    server: PodServer, watch: PodWatch, feeding: Feeding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placements, "MOST_WAITING", 3)
    for number in range(5):
        assert feeding.feed(*begun(connection(40_000 + number, f"10.0.0.{number + 10}"))) == []
    assert feeding.count("unknown") == 2
    for number in range(5):
        server.put(pod(f"app-{number}", f"10.0.0.{number + 10}", started=time.time() - 60))
    until(lambda: all(known(watch, f"10.0.0.{number + 10}") for number in range(5)))
    assert feeding.feed() == [f"payments/app-{number}@node-7" for number in (2, 3, 4)]


def test_a_stale_name_is_put_right_when_the_api_is_back(
    server: PodServer, watch: PodWatch, feeding: Feeding
) -> None:
    """An address that was reused meanwhile, one whose pod is new, and one whose pod is still the same."""
    first, same = checkout(), checkout("same", "10.0.0.3")
    for each in (first, same):
        server.put(each)
    until(lambda: known(watch) and known(watch, "10.0.0.3"))
    server.status = 503
    server.cut()
    until(lambda: watch.current_since is None)
    server.remove(first, in_silence=True)
    time.sleep(1.1)
    server.put(pod("index", HOST, started=time.time(), namespace="search"), in_silence=True)
    server.put(pod("new", "10.0.0.2", started=time.time(), namespace="search"), in_silence=True)
    hosts = HOST, "10.0.0.2", "10.0.0.3"
    packets = [packet for at, host in enumerate(hosts) for packet in begun(connection(40_000 + at, host))]
    assert feeding.feed(*packets) == [CHECKOUT, CHECKOUT]
    assert feeding.count("stale") == 2
    server.compact()
    server.status = 200
    until(lambda: watch.current_since)
    assert feeding.feed() == ["search/index@node-7", "search/new@node-7"]
    assert feeding.settle() == [] and (feeding.count("pod"), feeding.count("unknown")) == (3, 0)


def test_the_query_says_where_the_client_of_a_finding_runs(server: PodServer, watch: PodWatch) -> None:
    packets = packets_of(offending())
    host = next(record.client for record in offending().records).rpartition(":")[0]
    server.put(pod("one", host, started=packets[0].captured_at // 10**9 - 60))
    until(lambda: known(watch, host))
    outlet = FakeOutlet()
    Feeder(Configuration(ports=[]), run=1, pods=watch).run(iter([PacketBatch.of(packets[:-3])]), outlet)
    terms = Terms(owner_of=owners_of([Owner("payments", workload="payments/*")]).of)
    for size in (1, 4, 97):
        found = streamed(outlet.records, size, terms).findings.values()
        assert {(each.workload, each.node, each.owner) for each in found} == {
            ("payments/one", "node-7", "payments")
        }
