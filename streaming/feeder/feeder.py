"""The feeder: reads packets and publishes records, until the source ends or it is stopped.

Each batch of packets passes, in this order: secrets of TLS that have appeared meanwhile, removal of unwatched
traffic, the tracker (packets to frames), the cutter (what of a frame may be kept), the outlet; with
Kubernetes, records follow that say where clients run. Between batches the feeder polls the outlet, and twice
a second updates its metrics and looks for ports that carry nothing readable. A live capture also publishes
heartbeats: records of how far its clock has advanced.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from ipaddress import ip_address
from typing import BinaryIO

from prometheus_client import CollectorRegistry, Counter

from decoders.frame.columnar.block_writing import write_block
from decoders.frame.columnar.cutting import ColumnarCutter
from decoders.frame.record import Endpoint, Kind, Record
from decoders.wire.columnar.frames import FrameBatch
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.pcap import PcapWriter
from decoders.wire.recorder import ShownClient, as_it_is
from decoders.wire.segment import SocketAddress
from streaming.feeder.capture import InterfaceCapture
from streaming.feeder.fair_share import GIVEN_UP_FOR, FairShares
from streaming.feeder.key_log_files import FollowedKeyLogs
from streaming.feeder.outlet import Outlet
from streaming.feeder.placements import Placements
from streaming.feeder.pod_watch import PodWatch
from streaming.feeder.port_watch import ANY_PORT, PortWatch, TlsWatch
from streaming.feeder.unwatched_traffic import ExcludedTraffic, OwnTraffic
from streaming.log import FEEDER_LOG
from streaming.metrics import definitions as metrics
from streaming.metrics import instruments
from streaming.metrics.definitions import Metric, MetricType
from streaming.settings.confidential import pseudonyms_of
from streaming.settings.configuration import Configuration
from streaming.settings.release import load_schemas
from streaming.user_error import UserError

HEARTBEAT_INTERVAL = 5.0
"""Seconds between two heartbeats."""
_NO_ENDPOINT = Endpoint("0.0.0.0:0")
DRAIN_SECONDS = 10.0
"""How long a stopping feeder may take to read the packets that were captured before the stop."""
FLUSH_SECONDS = 30.0
"""How long a stopping feeder waits for Kafka to accept the remaining records."""
METRICS_INTERVAL = 0.5
STUCK_AFTER = 60.0
"""Seconds that one batch may take before the feeder counts as unhealthy."""

Batches = Iterator[PacketBatch]
"""A source: batches of packets, an empty one after a moment without any."""


class FeederMetrics:
    """The metrics of the feeder. Each `account` method raises counters to totals."""

    def __init__(self, *, version: str, kafka: str) -> None:
        self.registry = instruments.page(version, kafka)
        self._waiting_bytes = instruments.gauge(metrics.FEED_WAITING_BYTES, self.registry)
        self._watch_age = instruments.gauge(metrics.KUBERNETES_WATCH_AGE, self.registry)
        self._counters: dict[Metric, Counter] = {
            metric: instruments.counter(metric, self.registry)
            for metric in metrics.METRICS
            if metric.kind is MetricType.COUNTER and metric.name.startswith(metrics.OF_FEEDER)
        }
        self._reached: dict[tuple[Metric, tuple[str, ...]], int] = {}

    def account(self, ledger: Ledger, evicted: Mapping[str, int], dropped: int) -> None:
        """Account what was captured, connections that were evicted, and packets that the kernel dropped."""
        self._reach(metrics.CAPTURE_DROPPED_PACKETS, dropped)
        self._reach(metrics.CAPTURE_OPAQUE, ledger.opaque_connections)
        self._reach_each(metrics.CAPTURE_BYTES, ledger.fates().items())
        self._reach_each(metrics.CAPTURE_PACKETS, ledger.packets.items())
        self._reach_each(metrics.CAPTURE_EVICTED, evicted.items())
        self._reach_each(metrics.CAPTURE_CONTRADICTIONS, ledger.contradictions.items())
        self._reach_each(metrics.TLS_CONNECTIONS, ledger.tls.items())

    def account_ports(self, ledgers: Mapping[int, Ledger]) -> None:
        """Account the bytes of each port's ledger."""
        for port, ledger in ledgers.items():
            for fate, total in _judgeable(ledger):
                label = "any" if port == ANY_PORT else str(port)
                self._reach(metrics.CAPTURE_PORT_BYTES, total, label, fate)

    def account_records(self, totals: Mapping[str, int], *, shed_bytes: int, waiting_bytes: int) -> None:
        """Account records by fate and shed bytes, and set the gauge of waiting bytes."""
        self._reach_each(metrics.FEED_RECORDS, totals.items())
        self._reach(metrics.FEED_SHED_BYTES, shed_bytes)
        self._waiting_bytes.set(waiting_bytes)

    def account_pods(self, pods: PodWatch, outcomes: Mapping[str, int]) -> None:
        """Account what became of the names of connections, and how well pods are known."""
        self._watch_age.set(pods.age)
        self._reach_each(metrics.PLACED_CONNECTIONS, outcomes.items())
        self._reach(metrics.KUBERNETES_ERRORS, pods.errors)
        self._reach(metrics.KUBERNETES_LEFT_OUT, pods.addresses.left_out)

    def _reach_each(self, metric: Metric, totals: Iterable[tuple[str, int]]) -> None:
        for label, total in totals:
            self._reach(metric, total, str(label))

    def _reach(self, metric: Metric, total: int, *labels: str) -> None:
        counter, reached = self._counters[metric], self._reached.get((metric, labels), 0)
        (counter.labels(*labels) if labels else counter).inc(total - reached)
        self._reached[metric, labels] = total


class FeederHeartbeats:
    """Makes the heartbeats of one run. They share a connection ID that no connection has."""

    def __init__(self, run: int, cluster: str, feeder: str) -> None:
        self._run, self._cluster, self._feeder = run, cluster, feeder
        self._numbers = itertools.count(1)
        named = "\0".join(("heartbeat", cluster, feeder, str(run)))
        self._connection = hashlib.blake2b(named.encode(), digest_size=16).digest()

    def at(self, captured_at: int) -> Record:
        """Make a heartbeat: all packets captured before `captured_at` (ns since the epoch) were read."""
        return Record(
            kind=Kind.HEARTBEAT,
            connection=self._connection,
            run=self._run,
            sequence=next(self._numbers),
            captured_at=captured_at,
            client=_NO_ENDPOINT,
            server=_NO_ENDPOINT,
            cluster=self._cluster,
            feeder=self._feeder,
        )


class Feeder:
    """One run of the feeder over one source.

    With a live `capture`, its drops are counted and its clock is published. `own` removes the feeder's own
    connections. `key_logs` has the secrets of TLS, `pods` the addresses of clients in Kubernetes. Set
    `stopping` to make `run` finish.
    """

    def __init__(
        self,
        configuration: Configuration,
        run: int,
        save: BinaryIO | None = None,
        capture: InterfaceCapture | None = None,
        own: OwnTraffic | None = None,
        *,
        key_logs: FollowedKeyLogs | None = None,
        pods: PodWatch | None = None,
        stopping: threading.Event | None = None,
    ) -> None:
        cluster, feeder = configuration.cluster, configuration.feeder
        self.schemas = load_schemas(configuration.schemas)
        self._shown_client = _shown_client(configuration)
        self._tracker = ColumnarTracker(
            self.schemas,
            ports=configuration.ports,
            run=run,
            secret=secrets.token_bytes(),
            cluster=cluster,
            feeder=feeder,
            max_frame=configuration.max_request_bytes,
            excludes_client=configuration.excludes_client,
            key_log=key_logs.key_log if key_logs else None,
            shown_client=self._shown_client,
            keeps_principals=configuration.keeps_principals,
        )
        self._cutter = ColumnarCutter(self.schemas)
        self._pods = pods
        self._placements = Placements(pods, self._tracker.take_sequence) if pods else None
        self._heartbeats = FeederHeartbeats(run, cluster, feeder)
        # Compile before packets arrive, and before a change to a user who may not write the cache.
        self._cutter.cut(self._tracker.feed(PacketBatch.of([])))
        write_block([self._heartbeats.at(0)])
        self._metrics = FeederMetrics(version=version("kipwatch"), kafka=self.schemas.release)
        self._save = save
        self._writer: PcapWriter | None = None
        self._capture = capture
        self._excluded = ExcludedTraffic(configuration.excluded_networks)
        self._own = own
        self._fair_shares = FairShares(configuration.ports) if capture else None
        self._key_logs = key_logs
        self._port_watch = PortWatch(_source(configuration, capture))
        self._tls_watch = TlsWatch()
        self._outlet: Outlet
        self._running = False
        self._stopping = stopping or threading.Event()
        self._stopped_at: int | None = None
        self._busy_since: float | None = None
        self._measured_at = self._heartbeat_at = 0.0
        self._dropped = self._unread = 0

    @property
    def registry(self) -> CollectorRegistry:
        """The feeder's metrics."""
        return self._metrics.registry

    @property
    def captured_bytes(self) -> int:
        """Bytes of TCP payload that were captured on the watched ports."""
        return sum(ledger.captured for ledger in self._port_ledgers.values())

    @property
    def _port_ledgers(self) -> Mapping[int, Ledger]:
        """The byte ledgers by watched port; one for all if none is named."""
        return self._tracker.port_ledgers or {ANY_PORT: self._tracker.ledger}

    def is_healthy(self) -> bool:
        """Whether no batch is stuck. Waiting for packets is healthy."""
        busy_since = self._busy_since
        return busy_since is None or time.monotonic() - busy_since < STUCK_AFTER

    def is_ready(self) -> bool:
        """Whether the feeder runs and the outlet accepts records without delay."""
        return self._running and self._outlet.is_accepting

    def waits(self) -> bool:
        """Note that the publisher waits for Kafka, which is healthy. Returns whether to go on waiting."""
        self._busy_since = time.monotonic()
        self._measure_if_due()
        return not self._stopping.is_set()

    def idle(self) -> None:
        """Do what is due while the source waits. Raises UserError if no record can be published."""
        self._poll_outlet()
        self._measure_if_due()

    def run(self, batches: Batches, outlet: Outlet) -> None:
        """Feed until the source ends or `stopping` is set, then flush the outlet.

        Raises UserError if Kafka did not accept all records.
        """
        self._outlet, self._running = outlet, True
        FEEDER_LOG.info("ready")
        try:
            for packets in batches:
                self._busy_since = time.monotonic()
                self._process(packets)
                self._poll_outlet()
                self._measure_if_due()
                self._busy_since = None
                if self._is_done(packets):
                    break
        finally:
            # Even if the source fails, publish what was read.
            self._finish()

    def _is_done(self, packets: PacketBatch) -> bool:
        """Whether to stop now: the packets captured before the stop are read, or reading takes too long."""
        if not self._stopping.is_set() or self._capture is None:
            return self._stopping.is_set()
        if self._stopped_at is None:
            self._stopped_at = time.time_ns()
            return False
        if not packets.size or self._read_until(packets, self._capture) > self._stopped_at:
            return True
        takes_too_long = time.time_ns() > self._stopped_at + DRAIN_SECONDS * 1e9
        self._unread = self._capture.unread if takes_too_long else 0
        return takes_too_long

    @staticmethod
    def _read_until(packets: PacketBatch, capture: InterfaceCapture) -> int:
        """Return the capture time, in nanoseconds, up to which the packets of all interfaces are read."""
        latest = int(packets.captured_at[-1])
        return latest if capture.read_until is None else min(latest, capture.read_until)

    def _process(self, packets: PacketBatch) -> None:
        if self._key_logs:
            self._key_logs.poll()
        ledger = self._tracker.ledger
        packets = self._excluded.without_excluded(packets, ledger)
        try:
            # Before the cutter, which blanks secrets in the bytes of the packets.
            if self._save is not None and packets.size:
                self._write(packets, self._save)
        finally:
            # Also if the disk is full: what was read goes to Kafka.
            others = self._own.without_own(packets, ledger) if self._own else packets
            batch = self._cutter.cut(self._tracked(others))
            self._outlet.publish_batch(self._placements.added(batch) if self._placements else batch)
        if self._capture and time.monotonic() - self._heartbeat_at > HEARTBEAT_INTERVAL:
            self._heartbeat_at = time.monotonic()
            read_until = self._read_until(packets, self._capture) if packets.size else time.time_ns()
            self._outlet.publish(self._heartbeats.at(read_until))

    def _tracked(self, packets: PacketBatch) -> FrameBatch:
        if self._fair_shares is None:
            return self._tracker.feed(packets)
        begun = time.monotonic()
        packets = self._fair_shares.without_given_up(packets, self._tracker.ledger, begun)
        batch, now = self._tracker.feed(packets), time.monotonic()
        for network in self._fair_shares.note(self._tracker.slow_sockets, packets.size, now - begun, now):
            shown = self._shown_client(SocketAddress(network.network_address.packed, 0))
            client = f"{ip_address(shown.address)}/{network.prefixlen}"
            FEEDER_LOG.warning("given-up", client=client, seconds=GIVEN_UP_FOR)
        return batch

    def _write(self, packets: PacketBatch, save: BinaryIO) -> None:
        try:
            for packet in packets.packets():
                self._writer = self._writer or PcapWriter(save, packet.link_type)
                self._writer.write(packet)
            save.flush()
        except ValueError as error:
            raise UserError(f"--save cannot mix link layers: {error}") from error

    def _poll_outlet(self) -> None:
        self._outlet.poll()
        if self._outlet.fatal:
            raise UserError(self._outlet.fatal)

    def _measure_if_due(self) -> None:
        if time.monotonic() - self._measured_at >= METRICS_INTERVAL:
            self._measure()

    def _measure(self) -> None:
        self._measured_at = time.monotonic()
        if self._capture:
            self._dropped = self._capture.dropped
        self._metrics.account(self._tracker.ledger, self._tracker.evicted, self._dropped)
        self._metrics.account_ports(self._port_ledgers)
        if not self._stopping.is_set():
            self._port_watch.check(self._port_ledgers, self._measured_at)
            self._tls_watch.check(self._port_ledgers, self._measured_at)
        if self._pods and self._placements:
            self._metrics.account_pods(self._pods, self._placements.outcomes)
        self._account_records()

    def _account_records(self) -> None:
        outlet = self._outlet
        self._metrics.account_records(
            outlet.fates, shed_bytes=outlet.shed_bytes, waiting_bytes=outlet.waiting_bytes
        )

    def _finish(self) -> None:
        if self._key_logs:
            self._key_logs.poll()
        self._outlet.publish_batch(self._cutter.cut(self._tracker.finish()))
        # Measure before the flush, which reads no packets, so that drops during the flush do not count.
        self._measure()
        left = self._outlet.flush(FLUSH_SECONDS)
        self._account_records()
        fates, ledger = self._outlet.fates, self._tracker.ledger.fates()
        packets = {"dropped_packets": self._dropped, "unread_packets": self._unread}
        FEEDER_LOG.info("stopped", records=fates, left=left, **packets, bytes=ledger)
        lost = left + fates.get("refused", 0)
        if lost:
            reason = f"Kafka did not accept {lost} records; check that it runs, and its errors above"
            raise UserError(self._outlet.fatal or reason)


def _shown_client(configuration: Configuration) -> ShownClient:
    pseudonyms = pseudonyms_of(configuration)
    return pseudonyms.client if pseudonyms else as_it_is


def _source(configuration: Configuration, capture: InterfaceCapture | None) -> str:
    if capture is None:
        return "the source"
    interfaces = configuration.interface
    return f"interface{'s' if len(interfaces) > 1 else ''} {', '.join(interfaces)}"


def _judgeable(ledger: Ledger) -> Iterator[tuple[str, int]]:
    """Yield the bytes that were framed, and those that were skipped because they are no plain Kafka."""
    yield "framed", ledger.framed
    for reason in (SkipReason.OPAQUE, SkipReason.ENCRYPTED):
        yield f"skipped-{reason}", ledger.skipped[reason]
