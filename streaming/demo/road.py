"""The whole road on one machine: starts and ends broker, front, feeder and query in order.

The feeder captures on the loopback interface if that is permitted. Otherwise relays stand before the broker
and the front and record packets, which the feeder reads from its standard input. Everything after the packets
is the same.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from decoders.schema.registry import Schemas
from decoders.wire.packet import Packet
from decoders.wire.pcap import PcapWriter
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.jars import jars
from streaming.broker.ports import HOST, free_ports
from streaming.broker.topics import create_topics
from streaming.demo.child import Child
from streaming.demo.front import Front
from streaming.demo.tls_endpoint import DemoTls, TlsEndpoint
from streaming.feeder.relay import Address, Relay
from streaming.settings.configuration import Configuration

READY_SECONDS = 240.0
DRAIN_SECONDS = 30.0
LINKTYPE_ETHERNET = 1

Say = Callable[[str], None]


class Road:
    """The processes of the demo. A context manager; leaving it ends all of them."""

    def __init__(
        self,
        folder: Path,
        capture: bool,
        configuration: Configuration,
        say: Say,
        judging: Sequence[str] = (),
        *,
        encrypt: bool = False,
    ) -> None:
        """`folder` holds logs, checkpoint and the recorded capture. `say` is called with each step.

        `judging` holds the flags that pass the decisions of `configuration` on to the query. With `encrypt`
        clients speak TLS, which can be captured, but not relayed.
        """
        self._judging = judging
        self._folder, self._capture, self._configuration, self._say = folder, capture, configuration, say
        self._stack = ExitStack()
        self._relays: list[Relay] = []
        self.schemas = Schemas.load()
        self.tls = DemoTls(folder) if encrypt else None
        self.recording = folder / "demo.pcap"
        self.checkpoint = folder / "checkpoint"
        self.broker: EmbeddedBroker
        self.front_address: tuple[str, int]
        self.watched: str
        self.feeder: Child
        self.application: Child

    def __enter__(self) -> Road:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def internal(self) -> str:
        """The bootstrap address of the topics, a listener that is not watched."""
        return self.broker.internal

    @property
    def key_logs(self) -> list[Path]:
        """The files with the secrets of what is captured."""
        return [] if self.tls is None else [self.tls.key_log]

    def check_running(self) -> None:
        """Raise UserError if the feeder or the query has ended."""
        self.feeder.check_running()
        self.application.check_running()

    def end_feeding(self) -> None:
        """Stop the feeder when it has published all packets."""
        for relay in self._relays:
            relay.close()
        if self._capture:
            self.feeder.stop()
        else:
            self._pipe.close()
            self.feeder.wait(DRAIN_SECONDS)

    def _build(self) -> None:
        jars("broker", self._say)  # fetches all jars, and reports progress
        watched, internal, relayed = free_ports(3)
        self._say("starting the broker: Kafka 4.4.0, KRaft, listeners WATCHED and INTERNAL")
        advertised = watched if self._capture and self.tls is None else relayed
        self.broker = self._stack.enter_context(
            EmbeddedBroker(
                watched_port=watched,
                internal_port=internal,
                watched_advertised_port=advertised,
                auto_create_topics=True,  # for clients of the user's own
            )
        )
        create_topics(self.internal, self._configuration.frames_topic, self._configuration.findings_topic)
        self._start_application(self.internal)
        front = self._stack.enter_context(Front(self.schemas, ("127.0.0.1", internal)))
        self.watched = f"127.0.0.1:{advertised}"
        self.front_address = front.address
        if self.tls is not None:
            self._start_feeder_beside_tls(self.tls, [(HOST, watched), front.address], relayed)
        elif self._capture:
            self._start_capturing_feeder([watched, front.address[1]])
        else:
            self._start_relayed_feeder(watched, relayed, front)
        self.check_running()

    def _start_application(self, bootstrap: str) -> None:
        self._say("starting the Structured Streaming query; Spark takes a while, clients begin meanwhile")
        settings = self._configuration
        arguments = ["run", "--bootstrap", bootstrap, "--metrics-address", settings.metrics_address]
        arguments += ["--checkpoint", str(self.checkpoint), "--buckets", str(settings.buckets)]
        arguments += ["--frames-topic", settings.frames_topic, "--findings-topic", settings.findings_topic]
        arguments += self._judging
        self.application = self._start(arguments, "application.log")

    def _start_feeder_beside_tls(self, tls: DemoTls, targets: list[Address], port: int) -> None:
        """Let clients reach broker and front by TLS alone, the broker at a port that it advertises."""
        of_broker, of_front = (
            self._stack.enter_context(TlsEndpoint(tls, target, own_port))
            for target, own_port in zip(targets, (port, 0), strict=True)
        )
        self.front_address = of_front.address
        self._say("clients speak TLS; the endpoint that ends it writes a key log, which the feeder reads")
        self._start_capturing_feeder([of_broker.address[1], of_front.address[1]])

    def _start_capturing_feeder(self, ports: list[int]) -> None:
        self._say(f"starting the feeder: it captures on the loopback interface, ports {ports}")
        watched = ",".join(map(str, ports))
        keys = [flag for path in self.key_logs for flag in ("--tls-keylog", str(path))]
        command = ["feed", "--interface", "lo", "--ports", watched, *keys, *self._feeder_flags()]
        self.feeder = self._start(command, "feeder.log")
        self.feeder.wait_for('"feeder": "ready"', READY_SECONDS, self._say)

    def _start_relayed_feeder(self, watched: int, relayed: int, front: Front) -> None:
        self._say("starting the feeder: capturing is not permitted (CAP_NET_RAW), so relays record")
        reading, writing = os.pipe()
        self._pipe = PacketPipe(os.fdopen(writing, "wb"))
        self._stack.callback(self._pipe.close)
        relays = [
            Relay(("127.0.0.1", watched), self._pipe.write, port=relayed),
            Relay(front.address, self._pipe.write),
        ]
        for relay in relays:
            self._relays.append(self._stack.enter_context(relay))
        self.front_address = relays[1].address
        ports = ",".join(str(relay.address[1]) for relay in relays)
        with os.fdopen(reading, "rb") as source:
            self.feeder = self._start(
                ["feed", "-", "--ports", ports, *self._feeder_flags()], "feeder.log", source
            )
        self.feeder.wait_for('"feeder": "ready"', READY_SECONDS, self._say)

    def _feeder_flags(self) -> list[str]:
        address = self._configuration.feeder_metrics_address
        flags = ["--bootstrap", self.internal, "--feeder-metrics-address", address]
        flags += ["--frames-topic", self._configuration.frames_topic]
        return [*flags, "--cluster", "demo", "--save", str(self.recording)]

    def _start(self, arguments: list[str], log: str, source: BinaryIO | None = None) -> Child:
        return self._stack.enter_context(Child(arguments, self._folder / log, source))


class PacketPipe:
    """Writes packets of any thread as one pcap stream, in the order of the calls."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._packets: queue.SimpleQueue[list[Packet] | None] = queue.SimpleQueue()
        self._writer = PcapWriter(stream, LINKTYPE_ETHERNET)
        stream.flush()
        self._thread = threading.Thread(target=self._drain, name="packet-pipe", daemon=True)
        self._thread.start()
        self._closed = False

    def write(self, packets: list[Packet]) -> None:
        """Queue packets."""
        self._packets.put(packets)

    def close(self) -> None:
        """Write what is queued and end the stream."""
        if not self._closed:
            self._closed = True
            self._packets.put(None)
            self._thread.join()
            self._stream.close()

    def _drain(self) -> None:
        while (packets := self._packets.get()) is not None:
            for packet in packets:
                self._writer.write(packet)
            self._stream.flush()
