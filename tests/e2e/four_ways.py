"""Four ways for the same packets: live and recorded capture, relay, and `check`; queries for three of them.

Clients connect through recording relays, whose ports a feeder captures live. So both see the same
connections, with addresses and bytes in common and nothing else: each has segments and times of its own.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from decoders.schema.registry import default_schemas
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import HOST, free_ports
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.check.examination import examine
from streaming.demo.demo import SETTLE_RELAYED
from streaming.demo.front import Front
from streaming.demo.progress import Backlog, waiting
from streaming.demo.road import Child, PacketPipe
from streaming.demo.workload import run_workload
from streaming.record.relay import Relay
from streaming.settings.configuration import FramesTopicSettings, Topics
from tests.e2e.found import Likenesses, likenesses
from tests.e2e.pages import free_pages
from tests.e2e.planting import plant
from tests.e2e.standalone import spark_settings
from tests.waiting import until

LIVE, RECORDED, RELAY = "live", "recorded", "relay"
WAYS = (LIVE, RECORDED, RELAY)
JUDGED = 900.0
"""Seconds; each new executor compiles first."""
READY = 240.0
"""Seconds for a feeder to start, or to read a capture."""


@dataclass(frozen=True)
class Traffic:
    """What was recorded of the clients, by way, and what was published of it."""

    broker: EmbeddedBroker
    folder: Path
    ports: list[int]

    def checked(self, way: str) -> Likenesses:
        """The findings of `check` on what a way recorded."""
        examination = examine(self.folder / f"{way}.pcap", default_schemas(), self.ports)
        assert examination.ledger["lost"] == 0
        return likenesses(examination.findings)

    def judged(self, way: str, master: str, name: str) -> Likenesses:
        """The findings of a query that reads a way's topic on a Spark master; `name` is that of its files."""
        internal, checkpoint = self.broker.internal, self.folder / f"checkpoint-{name}"
        found, configuration = f"findings-{name}", self.folder / f"{name}.toml"
        local = master.startswith("local")
        configuration.write_text(f'master = "{master}"\nbuckets = 4\n{"" if local else spark_settings()}')
        create_topics(internal, way, found)
        (page,) = free_pages(1)
        command = ["run", "--config", str(configuration), "--bootstrap", internal, "--frames-topic", way]
        command += ["--findings-topic", found, "--checkpoint", str(checkpoint)]
        command += ["--metrics-address", page]
        with (
            closing(FindingsTopic(internal, found)) as topic,
            closing(Backlog(internal, way, checkpoint)) as backlog,
            Child(command, self.folder / f"{name}.log") as query,
        ):
            end = backlog.end()
            assert end and sum(end.values())
            until(lambda: not waiting(end, backlog.judged()), JUDGED, query)
            topic.poll(2.0)
            return likenesses(topic.findings.values())


def play_clients(stack: ExitStack, folder: Path, partitions: int) -> Traffic:
    """Let the demo's clients play once, and feed what passes into a topic a way, each of some partitions."""
    watched, relayed = free_ports(2)
    broker = stack.enter_context(EmbeddedBroker(watched_port=watched, watched_advertised_port=relayed))
    front = stack.enter_context(Front(default_schemas(), (HOST, broker.ports.internal)))
    topics = Topics(frames=FramesTopicSettings(partitions=partitions))
    for way in WAYS:
        create_topics(broker.internal, way, "kipwatch.findings", topics)
    reading, writing = os.pipe()
    pipe = PacketPipe(os.fdopen(writing, "wb"))
    with (
        closing(pipe),
        Relay((HOST, watched), pipe.write, port=relayed) as of_broker,
        Relay(front.address, pipe.write) as of_front,
    ):
        ports = [relay.address[1] for relay in (of_broker, of_front)]
        with os.fdopen(reading, "rb") as source:
            relaying = stack.enter_context(
                Child(_feed(broker, RELAY, ports, folder, "-"), folder / "relay.log", source)
            )
        live = stack.enter_context(
            Child([*_feed(broker, LIVE, ports, folder), "--interface", "lo"], folder / "live.log")
        )
        for feeder in (relaying, live):
            feeder.wait_for('"feeder": "ready"', READY)
        run_workload(f"{HOST}:{relayed}", print, threading.Event())
        plant(of_front.address, SETTLE_RELAYED)
    relaying.wait(READY)
    live.stop()
    saved = folder / f"{LIVE}.pcap"
    with Child(_feed(broker, RECORDED, ports, folder, str(saved)), folder / "recorded.log") as recorded:
        recorded.wait(READY)
    return Traffic(broker, folder, ports)


def _feed(broker: EmbeddedBroker, way: str, ports: list[int], folder: Path, *source: str) -> list[str]:
    command = ["feed", *source, "--ports", ",".join(map(str, ports)), "--bootstrap", broker.internal]
    command += ["--frames-topic", way, "--feeder-metrics-address", f"{HOST}:0"]
    return [*command, "--save", str(folder / f"{way}.pcap")]
