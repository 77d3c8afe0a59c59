"""The whole road on one machine: starts and ends broker, front, feeder and query in order.

Feeder and query are `kipwatch` commands in child processes. The feeder captures on the loopback interface if
that is permitted. Otherwise relays stand before broker and front and record packets, which the feeder reads
from its standard input. Everything after the packets is the same.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, BinaryIO

from decoders.schema.registry import default_schemas
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType, Packet
from streaming.broker.child_guard import GuardedProcess
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.jars import jars
from streaming.broker.ports import HOST, free_ports
from streaming.broker.topics import create_topics
from streaming.demo.front import Front
from streaming.demo.loopback import DemoTls, TlsEndpoint
from streaming.record.relay import Relay
from streaming.record.rewriting import Address
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError

STOP_SECONDS = 45.0
"""How long a stopped command may take to finish."""
REPORT_SECONDS = 10.0
READY_SECONDS = 240.0
DRAIN_SECONDS = 30.0

Say = Callable[[str], None]


class Child(GuardedProcess):
    """A running `kipwatch` command. A context manager that ends it."""

    module = "kipwatch"

    def __init__(self, arguments: Sequence[str], log: Path, source: IO[bytes] | None = None) -> None:
        """Start the command with its output in `log` and its standard input from `source`."""
        self._name = f"kipwatch {arguments[0]}"
        super().__init__([sys.executable, "-u", "-m", self.module, *arguments], log, source, STOP_SECONDS)

    @property
    def process_id(self) -> int:
        """The process ID of the guard, whose child is the command."""
        return self._guard.pid

    def check_running(self) -> None:
        """Raise UserError with the last line of the log if the command has ended."""
        if self._guard.poll() is not None:
            raise UserError(f"{self._name} ended early: {self.last_line()}")

    def wait_for(self, text: str, seconds: float, say: Callable[[str], None] | None = None) -> None:
        """Wait until the log contains a text. Raises UserError after `seconds`.

        `say` is called every ten seconds with how long it has taken.
        """
        started = time.monotonic()
        reported = 0.0
        while text not in self.log.read_text(errors="replace"):
            self.check_running()
            waited = time.monotonic() - started
            if waited > seconds:
                raise UserError(f"{self._name} was not ready within {seconds:.0f} s: {self.last_line()}")
            if say and waited - reported >= REPORT_SECONDS:
                reported = waited
                say(f"`{self._name}` is still starting after {waited:.0f} s")
            time.sleep(0.1)

    def wait(self, seconds: float) -> int:
        """Wait at most `seconds` until the command ends by itself, then stop it. Returns its exit status."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(seconds)
        return self.stop()

    def last_line(self) -> str:
        """Return the last line that the command has printed, without the name of the program."""
        return super().last_line().removeprefix("kipwatch: ")


class Road:
    """The processes of the demo. A context manager that starts and ends all of them."""

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
        """`folder` gets logs, checkpoint and the recorded capture, `say` each step.

        `judging` has the flags that pass the decisions of `configuration` to the query. With `encrypt`
        clients speak TLS, which can be captured, but not relayed.
        """
        self._judging = judging
        self._folder, self._capture, self._configuration, self._say = folder, capture, configuration, say
        self._stack = ExitStack()
        self._relays: list[Relay] = []
        self.schemas = default_schemas()
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

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def internal(self) -> str:
        """The bootstrap address of the topics: a listener that is not watched."""
        return self.broker.internal

    @property
    def key_logs(self) -> list[Path]:
        """The files with the secrets of captured TLS."""
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
        kafka = self.schemas.release
        self._say(f"starting the broker: Kafka {kafka}, KRaft, listeners WATCHED and INTERNAL")
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
        front = self._stack.enter_context(Front(self.schemas, (HOST, internal)))
        self.watched = f"{HOST}:{advertised}"
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
        """Let clients reach broker and front only by TLS, the broker at its advertised port."""
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
            Relay((HOST, watched), self._pipe.write, port=relayed),
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
    """Writes packets from any thread to one pcap stream, in the order of the calls."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._packets: queue.SimpleQueue[list[Packet] | None] = queue.SimpleQueue()
        self._writer = PcapWriter(stream, LinkType.ETHERNET)
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
