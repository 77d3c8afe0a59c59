"""The metrics page of the feeder."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter

from decoders.tls.outcome import Outcome
from decoders.wire.ledger import Ledger, SkipReason
from streaming.feeder.port_watch import ANY_PORT
from streaming.metrics import definitions as metrics
from streaming.metrics import instruments


class FeederMetrics:
    """The metrics of the feeder. Its counters follow totals that the feeder keeps."""

    def __init__(self, *, version: str, kafka: str) -> None:
        self.registry = instruments.page(version, kafka)
        self._dropped_packets = _Total(instruments.counter(metrics.CAPTURE_DROPPED_PACKETS, self.registry))
        self._shed_bytes = _Total(instruments.counter(metrics.FEED_SHED_BYTES, self.registry))
        self._bytes = instruments.counter(metrics.CAPTURE_BYTES, self.registry)
        self._port_bytes = instruments.counter(metrics.CAPTURE_PORT_BYTES, self.registry)
        self._packets = instruments.counter(metrics.CAPTURE_PACKETS, self.registry)
        self._opaque = _Total(instruments.counter(metrics.CAPTURE_OPAQUE, self.registry))
        self._tls = instruments.counter(metrics.TLS_CONNECTIONS, self.registry)
        self._records = instruments.counter(metrics.FEED_RECORDS, self.registry)
        self._waiting_bytes = instruments.gauge(metrics.FEED_WAITING_BYTES, self.registry)
        self._port_totals: dict[tuple[int, str], _Total] = {}
        self._totals: dict[Counter, dict[str, _Total]] = {
            self._bytes: {},
            self._packets: {},
            self._tls: {},
            self._records: {},
        }

    def account_bytes(self, totals: Mapping[str, int]) -> None:
        """Raise each fate's counter to its total in the feeder's byte ledger."""
        self._account(self._bytes, totals)

    def account_packets(self, totals: Mapping[str, int], *, opaque_connections: int) -> None:
        """Raise the counters of packets by fate, and of connections that are not Kafka, to their totals."""
        self._account(self._packets, totals)
        self._opaque.reach(opaque_connections)

    def account_tls(self, totals: Mapping[Outcome, int]) -> None:
        """Raise the counters of TLS connections by outcome to their totals."""
        self._account(self._tls, {str(outcome): total for outcome, total in totals.items()})

    def account_ports(self, ledgers: Mapping[int, Ledger]) -> None:
        """Raise the counters of each port to the totals of its byte ledger."""
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
        """Raise the counter of dropped packets to the kernel's total."""
        self._dropped_packets.reach(total)

    def account_records(self, totals: Mapping[str, int], *, shed_bytes: int, waiting_bytes: int) -> None:
        """Raise the counters of the records' fates and of shed bytes to their totals."""
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
    """A counter that is raised to a total that is kept elsewhere."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._reached = 0

    def reach(self, total: int) -> None:
        self._counter.inc(total - self._reached)
        self._reached = total
