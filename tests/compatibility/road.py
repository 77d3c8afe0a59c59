"""A query, and a feeder that reads packets as they come; both can be stopped, killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType, Packet
from streaming.broker.embedded import EmbeddedBroker
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.metrics.exposition import MetricsPage
from tests.compatibility.week import PORT
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import children

STARTED: Final = 240.0


class Road:
    """A query and a feeder that reads packets as they come; each can be restarted."""

    def __init__(self, stack: ExitStack, folder: Path, broker: EmbeddedBroker, buckets: int) -> None:
        self.checkpoint = folder / "checkpoint"
        self._stack, self._folder, self._broker = stack, folder, broker
        self._page_at, feeder_page = free_pages(2)
        kafka = ["--bootstrap", broker.internal]
        self._run = ["run", *kafka, "--metrics-address", self._page_at, "--buckets", str(buckets)]
        self._feed = ["feed", "-", *kafka, "--ports", str(PORT), "--feeder-metrics-address", feeder_page]
        self.logs: list[Path] = []
        self.start_query()
        self.start_feeder()

    def start_query(self, *flags: str) -> None:
        """Start the query with the checkpoint as it is; flags add to what it is told, or override it."""
        self.query = self._start([*self._run, "--checkpoint", str(self.checkpoint), *flags])
        self.query.wait_for('"query": "started"', STARTED)

    def restart_query(self, backup: Path | None = None) -> None:
        """Stop it, copy its checkpoint if that is asked for, and start it again."""
        self.query.stop()
        if backup:
            shutil.copytree(self.checkpoint, backup)
        self.start_query()

    def kill_query(self) -> None:
        """Let it end without a farewell."""
        for process in children(self.query.process_id):
            os.kill(process, signal.SIGKILL)
        self.query.wait(30)

    def start_feeder(self) -> None:
        """Start a feeder that has seen nothing of what is open."""
        outlet, inlet = os.pipe()
        with os.fdopen(outlet, "rb") as source:
            self._feeder = self._start(self._feed, source)
        self._packets = self._stack.enter_context(os.fdopen(inlet, "wb"))
        self._writer = PcapWriter(self._packets, LinkType.ETHERNET)

    def end_feeder(self) -> None:
        """Let the feeder publish all that it was given."""
        self._packets.close()
        self._feeder.wait(60)

    def feed(self, packets: list[Packet]) -> None:
        """Give packets to the feeder."""
        for packet in packets:
            self._writer.write(packet)
        self._packets.flush()

    def restore(self, backup: Path) -> None:
        """Lose the checkpoint, and put a copy of it in another place."""
        shutil.rmtree(self.checkpoint)
        self.checkpoint = Path(shutil.copytree(backup, self._folder / "restored"))

    def page(self) -> MetricsPage:
        """What the query's metrics say now."""
        page = scrape(self._page_at)
        assert page is not None
        return page

    def _start(self, command: list[str], source: IO[bytes] | None = None) -> Child:
        log = self._folder / f"{command[0]}-{len(self.logs)}.log"
        self.logs.append(log)
        return self._stack.enter_context(Child(command, log, source))
