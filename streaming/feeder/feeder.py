"""The feeder: packets in, records out, until the source ends or it is told to stop."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

from decoders.frame.cutting import cut
from decoders.frame.record import Record
from decoders.schema.registry import Schemas
from decoders.wire.packet import Packet
from decoders.wire.pcap import PcapWriter
from decoders.wire.tracker import Tracker
from streaming.configuration import Configuration, host_and_port
from streaming.exposition import serve
from streaming.failure import UserError
from streaming.feeder.publisher import Publisher
from streaming.metrics import FeederMetrics

FLUSH_SECONDS = 30.0
METRICS_INTERVAL = 0.5

Batches = Iterator[list[Packet]]
"""A source: lists of packets, an empty one whenever there was nothing for a moment."""


class Feeder:
    """One run of the feeder over one source."""

    def __init__(self, configuration: Configuration, run: int, save: BinaryIO | None = None) -> None:
        self._configuration = configuration
        self._schemas = Schemas.load()
        self._tracker = Tracker(
            self._schemas,
            ports=frozenset(configuration.ports),
            run=run,
            cluster=configuration.cluster,
            feeder=configuration.feeder,
        )
        self._publisher: Publisher
        self._metrics = FeederMetrics(version=version("kipwatch"), kafka=self._schemas.release)
        self._save = save
        self._writer: PcapWriter | None = None
        self._stopping = threading.Event()
        self._measured_at = 0.0

    def run(self, batches: Batches, dropped: Callable[[], int] = lambda: 0) -> None:
        """Feed until the source ends or `stop` is called, then publish what is left.

        Raises UserError when the metrics address is taken or Kafka did not take all records.
        """
        host, port = host_and_port(self._configuration.feeder_metrics_address)
        flag = "--feeder-metrics-address"
        exposition = serve(self._metrics.registry, port, lambda: True, lambda: True, host=host, flag=flag)
        try:
            # Only now: librdkafka connects at once, and tells of a broker that is not there by itself.
            self._publisher = Publisher(self._configuration.bootstrap, self._configuration.frames_topic)
            print(json.dumps({"feeder": "ready"}), flush=True)
            self._feed(batches, dropped)
        finally:
            exposition.close()

    def stop(self) -> None:
        """Ask `run` to finish."""
        self._stopping.set()

    def _feed(self, batches: Batches, dropped: Callable[[], int]) -> None:
        try:
            for packets in batches:
                self._take(packets)
                self._measure(dropped)
                if self._stopping.is_set():
                    break
        finally:
            # A source that fails in its middle does not take along what was read before.
            self._finish(dropped)

    def _finish(self, dropped: Callable[[], int]) -> None:
        self._publish(self._tracker.finish())
        left = self._publisher.flush(FLUSH_SECONDS)
        self._measured_at = 0.0
        self._measure(dropped)
        self._tell_end()
        if left or self._publisher.failed:
            lost = left + self._publisher.failed
            raise UserError(f"Kafka at {self._configuration.bootstrap} did not take {lost} records")

    def _take(self, packets: Iterable[Packet]) -> None:
        for packet in packets:
            self._keep(packet)
            self._publish(self._tracker.feed(packet))

    def _publish(self, records: Iterable[Record]) -> None:
        self._publisher.publish(cut(self._schemas, record) for record in records)

    def _keep(self, packet: Packet) -> None:
        if self._save is None:
            return
        if self._writer is None:
            self._writer = PcapWriter(self._save, packet.link_type)
        self._writer.write(packet)

    def _measure(self, dropped: Callable[[], int]) -> None:
        if time.monotonic() - self._measured_at < METRICS_INTERVAL:
            return
        self._measured_at = time.monotonic()
        if self._save is not None:
            self._save.flush()
        self._metrics.account_bytes(self._tracker.ledger.fates())
        self._metrics.account_drops(dropped())

    def _tell_end(self) -> None:
        fates = self._tracker.ledger.fates()
        print(json.dumps({"feeder": "stopped", "published": self._publisher.published, **fates}), flush=True)


def open_save(path: Path) -> BinaryIO:
    """Open the file that keeps what is captured. Raises UserError."""
    try:
        return path.open("wb")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
