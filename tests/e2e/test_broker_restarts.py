"""Clients that work on while their broker is stopped, killed and frozen are accused of nothing.

An hour by default, KIPWATCH_RESTART_SECONDS for another time. The verdicts per rule go to
KIPWATCH_RESTART_FOLDER, if it is set.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.broker import child_guard
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.jars import jars
from streaming.broker.java import java
from tests.captures import real_clients
from tests.captures.recording import recorded
from tests.e2e.process_tree import jvms

SECONDS = int(os.environ.get("KIPWATCH_RESTART_SECONDS", "3600"))
FOLDER = os.environ.get("KIPWATCH_RESTART_FOLDER", "")
PERIOD = 60.0
"""Seconds between two outages."""
FROZEN = 50.0
"""Longer than a session timeout of 45 s: the coordinator forgets the members."""
TOPIC = "work"

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.capture,
    pytest.mark.long,
    pytest.mark.timeout(SECONDS + 900),
]


class RestartingBroker(EmbeddedBroker):
    """A broker that goes away and comes back with its data, at the same address."""

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = super()._start()
        return self._process

    def stopped(self) -> None:
        """Shut down in order, and start again."""
        child_guard.stop(self._process)
        self._await_response(self._start())

    def killed(self) -> None:
        """Die without a word, and start again."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._await_response(self._start())

    def frozen(self) -> None:
        """Stop responding for longer than a session lasts."""
        self._signal(signal.SIGSTOP)
        try:
            time.sleep(FROZEN)
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in jvms(self._process.pid):
            os.kill(process, number)


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `check` says of all traffic of the clients."""
    capture = tmp_path_factory.mktemp("restarts") / "restarts.pcap"
    with RestartingBroker() as broker, recorded(broker.ports.watched, str(capture)):
        admin = AdminClient({"bootstrap.servers": broker.watched})
        for created in admin.create_topics([NewTopic(TOPIC, 3)]).values():
            created.result()
        with working(broker.watched):
            outages = itertools.cycle((broker.stopped, broker.killed, broker.frozen))
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                time.sleep(PERIOD)
                next(outages)()
            time.sleep(PERIOD)
    command = [sys.executable, "-m", "streaming.commands.main", "check", "--json"]
    command += ["--ports", str(broker.ports.watched), str(capture)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if FOLDER:
        Path(FOLDER, "restarts.json").write_bytes(done.stdout)
        Path(FOLDER, "restarts.pcap").write_bytes(capture.read_bytes())
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def working(bootstrap: str) -> Iterator[None]:
    """Let clients work: some live as long as all others together, some come and go."""
    stop = threading.Event()
    jobs: list[Callable[[], None]] = [
        lambda: produce(bootstrap, "steady", stop, 1e9),
        lambda: produce(bootstrap, "brief", stop, 7),
        lambda: run_java(bootstrap, stop),
    ]
    for protocol in ("classic", "consumer"):
        for lifetime in (1e9, 1e9, 20):
            jobs.append(lambda p=protocol, t=lifetime: consume(bootstrap, p, stop, t))  # type: ignore[misc]
    threads = [threading.Thread(target=job) for job in jobs]
    with ExitStack() as ending:
        for thread in threads:
            ending.callback(thread.join, 120)
        ending.callback(stop.set)
        for thread in threads:
            thread.start()
        yield


def produce(bootstrap: str, name: str, stop: threading.Event, lifetime: float) -> None:
    """Send a few messages a second; make a new producer every `lifetime` seconds."""
    while not stop.is_set():
        end = time.monotonic() + lifetime
        producer = Producer({"bootstrap.servers": bootstrap, "client.id": name, "log_level": 0})
        while time.monotonic() < end and not stop.wait(0.2):
            with suppress(BufferError):
                producer.produce(TOPIC, b"message")
            producer.poll(0)
        producer.flush(5)


def consume(bootstrap: str, protocol: str, stop: threading.Event, lifetime: float) -> None:
    """Read in a group that the consumers of a protocol share; make a new one every `lifetime` seconds."""
    settings = {"group.id": protocol, "group.protocol": protocol, "client.id": protocol, "log_level": 0}
    while not stop.is_set():
        end = time.monotonic() + lifetime
        consumer = Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", **settings})
        consumer.subscribe([TOPIC])
        while time.monotonic() < end and not stop.is_set():
            with suppress(KafkaException):
                consumer.consume(100, timeout=0.5)
        consumer.close()


def run_java(bootstrap: str, stop: threading.Event) -> None:
    """Run the Java clients of the capture again and again. They may fail while the broker is away."""
    program = Path(real_clients.__file__).with_name("JavaClients.java")
    command: list[str | Path] = [java(), "-cp", ":".join(map(str, jars("broker"))), program, bootstrap, TOPIC]
    while not stop.wait(5):
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, check=False, timeout=90)


def test_nobody_is_accused(summary: dict[str, Any]) -> None:
    assert not [finding for finding in summary["findings"] if finding["level"] == "violation"]


def test_the_outages_were_lived_through(summary: dict[str, Any]) -> None:
    """Clients connected anew after each, and the rules about heartbeats and negotiation were exercised."""
    outages = SECONDS / (PERIOD + FROZEN)
    assert summary["connections"] > 10 * outages
    conforming = {each["rule"] for each in summary["coverage"] if each["conforms"]}
    assert {"kip1082/member-id-empty", "kip511/software-name-malformed"} <= conforming
