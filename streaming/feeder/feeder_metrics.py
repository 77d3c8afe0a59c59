"""The metrics page of the feeder: counters that follow totals which the feeder keeps elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import Counter

from decoders.wire.ledger import Ledger, SkipReason
from streaming.feeder.port_watch import ANY_PORT
from streaming.metrics import definitions as metrics
from streaming.metrics import instruments
from streaming.metrics.definitions import Metric


class FeederMetrics:
    """The metrics of the feeder. Each `account` method raises counters to totals."""

    def __init__(self, *, version: str, kafka: str) -> None:
        self.registry = instruments.page(version, kafka)
        self._waiting_bytes = instruments.gauge(metrics.FEED_WAITING_BYTES, self.registry)
        self._counters: dict[Metric, Counter] = {
            metric: instruments.counter(metric, self.registry)
            for metric in (
                metrics.CAPTURE_DROPPED_PACKETS,
                metrics.FEED_SHED_BYTES,
                metrics.CAPTURE_BYTES,
                metrics.CAPTURE_PORT_BYTES,
                metrics.CAPTURE_PACKETS,
                metrics.CAPTURE_OPAQUE,
                metrics.CAPTURE_EVICTED,
                metrics.CAPTURE_CONTRADICTIONS,
                metrics.TLS_CONNECTIONS,
                metrics.FEED_RECORDS,
            )
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

    def _reach_each(self, metric: Metric, totals: Iterable[tuple[str, int]]) -> None:
        for label, total in totals:
            self._reach(metric, total, str(label))

    def _reach(self, metric: Metric, total: int, *labels: str) -> None:
        counter, reached = self._counters[metric], self._reached.get((metric, labels), 0)
        (counter.labels(*labels) if labels else counter).inc(total - reached)
        self._reached[metric, labels] = total


def _judgeable(ledger: Ledger) -> Iterator[tuple[str, int]]:
    """Yield the bytes that were framed, and those that were skipped because they are no plain Kafka."""
    yield "framed", ledger.framed
    for reason in (SkipReason.OPAQUE, SkipReason.ENCRYPTED):
        yield f"skipped-{reason}", ledger.skipped[reason]
