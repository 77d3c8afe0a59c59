"""The metrics page of the feeder: counters that follow totals which the feeder keeps elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter

from decoders.tls.outcome import TlsOutcome
from decoders.wire.ledger import Contradiction, Ledger, SkipReason
from streaming.feeder.port_watch import ANY_PORT
from streaming.metrics import definitions as metrics
from streaming.metrics import instruments


class FeederMetrics:
    """The metrics of the feeder. Each `account` method raises counters to totals."""

    def __init__(self, *, version: str, kafka: str) -> None:
        self.registry = instruments.page(version, kafka)
        self._dropped_packets = _Total(instruments.counter(metrics.CAPTURE_DROPPED_PACKETS, self.registry))
        self._shed_bytes = _Total(instruments.counter(metrics.FEED_SHED_BYTES, self.registry))
        self._bytes = instruments.counter(metrics.CAPTURE_BYTES, self.registry)
        self._port_bytes = instruments.counter(metrics.CAPTURE_PORT_BYTES, self.registry)
        self._packets = instruments.counter(metrics.CAPTURE_PACKETS, self.registry)
        self._opaque = _Total(instruments.counter(metrics.CAPTURE_OPAQUE, self.registry))
        self._evicted = instruments.counter(metrics.CAPTURE_EVICTED, self.registry)
        self._contradictions = instruments.counter(metrics.CAPTURE_CONTRADICTIONS, self.registry)
        self._tls = instruments.counter(metrics.TLS_CONNECTIONS, self.registry)
        self._records = instruments.counter(metrics.FEED_RECORDS, self.registry)
        self._waiting_bytes = instruments.gauge(metrics.FEED_WAITING_BYTES, self.registry)
        self._port_totals: dict[tuple[int, str], _Total] = {}
        self._totals: dict[Counter, dict[str, _Total]] = {
            self._bytes: {},
            self._packets: {},
            self._evicted: {},
            self._contradictions: {},
            self._tls: {},
            self._records: {},
        }

    def account_bytes(self, totals: Mapping[str, int]) -> None:
        """Account the bytes of the feeder's ledger by fate."""
        self._account(self._bytes, totals)

    def account_packets(self, totals: Mapping[str, int], *, opaque_connections: int) -> None:
        """Account packets by fate, and connections that are not Kafka."""
        self._account(self._packets, totals)
        self._opaque.reach(opaque_connections)

    def account_evictions(self, totals: Mapping[str, int]) -> None:
        """Account evicted connections by how far they had come."""
        self._account(self._evicted, totals)

    def account_contradictions(self, totals: Mapping[Contradiction, int]) -> None:
        """Account segments that contradict others."""
        self._account(self._contradictions, {str(kind): total for kind, total in totals.items()})

    def account_tls(self, totals: Mapping[TlsOutcome, int]) -> None:
        """Account TLS connections by outcome."""
        self._account(self._tls, {str(outcome): total for outcome, total in totals.items()})

    def account_ports(self, ledgers: Mapping[int, Ledger]) -> None:
        """Account the bytes of each port's ledger."""
        for port, ledger in ledgers.items():
            fates = {
                "framed": ledger.framed,
                f"skipped-{SkipReason.OPAQUE}": ledger.skipped[SkipReason.OPAQUE],
                f"skipped-{SkipReason.ENCRYPTED}": ledger.skipped[SkipReason.ENCRYPTED],
            }
            for fate, total in fates.items():
                if (port, fate) not in self._port_totals:
                    label = "any" if port == ANY_PORT else str(port)
                    self._port_totals[port, fate] = _Total(self._port_bytes.labels(label, fate))
                self._port_totals[port, fate].reach(total)

    def account_drops(self, total: int) -> None:
        """Account the packets that the kernel dropped."""
        self._dropped_packets.reach(total)

    def account_records(self, totals: Mapping[str, int], *, shed_bytes: int, waiting_bytes: int) -> None:
        """Account records by fate and shed bytes, and set the gauge of waiting bytes."""
        self._account(self._records, totals)
        self._shed_bytes.reach(shed_bytes)
        self._waiting_bytes.set(waiting_bytes)

    def _account(self, counter: Counter, totals: Mapping[str, int]) -> None:
        known = self._totals[counter]
        for fate, total in totals.items():
            if fate not in known:
                known[fate] = _Total(counter.labels(fate))
            known[fate].reach(total)


class _Total:
    """A counter and the total that it has reached."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._reached = 0

    def reach(self, total: int) -> None:
        self._counter.inc(total - self._reached)
        self._reached = total
