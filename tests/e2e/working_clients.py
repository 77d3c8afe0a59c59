"""Clients that work on whatever their brokers do: producers, and consumers in groups of both protocols."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer

from streaming.broker.jars import jars, java
from tests.captures import real_clients

TOPIC = "work"


@contextmanager
def working(bootstrap: str) -> Iterator[None]:
    """Let clients work: some live as long as all others together, some come and go. Raises what ended one."""
    stop, failed = threading.Event(), list[Exception]()
    jobs: list[Callable[[], None]] = [
        lambda: produce(bootstrap, "steady", stop, 1e9),
        lambda: produce(bootstrap, "brief", stop, 7),
        lambda: run_java(bootstrap, stop),
    ]
    for protocol in ("classic", "consumer"):
        for lifetime in (1e9, 1e9, 20):
            jobs.append(lambda p=protocol, t=lifetime: consume(bootstrap, p, stop, t))  # type: ignore[misc]

    def work(job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    with ExitStack() as ending:
        for thread in threads:
            ending.callback(thread.join, 120)
        ending.callback(stop.set)
        for thread in threads:
            thread.start()
        yield
    if failed:
        raise failed[0]


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
