"""A query, and a feeder that reads packets as they come."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from decoders.wire.packet import Packet
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import free_ports
from streaming.demo.child import Child
from streaming.demo.page import MetricsPage, scrape
from tests.compatibility.week import PORT

STARTED: Final = 240.0


class Road:
    """Both, until the stack ends."""

    def __init__(self, stack: ExitStack, folder: Path, broker: EmbeddedBroker, buckets: int) -> None:
        self.checkpoint = folder / "checkpoint"
        self._stack, self._folder = stack, folder
        self._page_at, feeder_page = (f"127.0.0.1:{port}" for port in free_ports(2))
        kafka = ["--bootstrap", broker.internal]
        run = ["run", *kafka, "--metrics-address", self._page_at, "--buckets", str(buckets)]
        self.query = self._start([*run, "--checkpoint", str(self.checkpoint)])
        self.query.wait_for('"query": "started"', STARTED)
        feed = ["feed", "-", *kafka, "--ports", str(PORT), "--feeder-metrics-address", feeder_page]
        outlet, inlet = os.pipe()
        with os.fdopen(outlet, "rb") as source:
            self._feeder = self._start(feed, source)
        self._packets = stack.enter_context(os.fdopen(inlet, "wb"))
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

    def page(self) -> MetricsPage:
        """What the query's metrics say now."""
        page = scrape(self._page_at)
        assert page is not None
        return page

    def _start(self, command: list[str], source: IO[bytes] | None = None) -> Child:
        log = self._folder / f"{command[0]}.log"
        return self._stack.enter_context(Child(command, log, source))
