"""A conversation between two hosts, each with a feeder: two network namespaces and a cable."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.decoders.wire.conversation import metadata, metadata_response, prefixed
from tests.streaming.feeder.live import captures
from tests.waiting import until

PORT = 9092
HOSTS = tuple(f"kipwatch-{side}-{os.getpid()}" for side in "ab")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
CABLES = ("kwa", "kwb")
PATIENCE = 90.0
SERVE = """
import socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
with listener.accept()[0] as client:
    client.recv(65536)
    client.sendall(bytes.fromhex(sys.argv[3]))
    client.recv(65536)
"""
REQUEST = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20) as server:
    server.sendall(bytes.fromhex(sys.argv[3]))
    server.recv(65536)
"""


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=20)


def on(host: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", host, *command]


@contextmanager
def hosts() -> Iterator[None]:
    """Two network namespaces, joined by a cable."""
    with ExitStack() as stack:
        for host in HOSTS:
            run("ip", "netns", "add", host)
            stack.callback(run, "ip", "netns", "del", host)
        run(
            "ip",
            "link",
            "add",
            CABLES[0],
            "netns",
            HOSTS[0],
            "type",
            "veth",
            "peer",
            CABLES[1],
            "netns",
            HOSTS[1],
        )
        for host, cable, address in zip(HOSTS, CABLES, ADDRESSES, strict=True):
            run(*on(host, "ip", "address", "add", f"{address}/24", "dev", cable))
            run(*on(host, "ip", "link", "set", cable, "up"))
        yield


def can_make_hosts() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    made = subprocess.run(["ip", "netns", "add", f"{HOSTS[0]}-try"], capture_output=True, check=False)
    if made.returncode == 0:
        run("ip", "netns", "del", f"{HOSTS[0]}-try")
    return made.returncode == 0


def wait_for(text: str, log: Path) -> None:
    until(lambda: text in log.read_text(), PATIENCE, every=0.05)


@contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
@captures
@pytest.mark.timeout(240)
@pytest.mark.skipif(not can_make_hosts(), reason="not permitted to make network namespaces")
def test_two_feeders_see_the_same_conversation(tmp_path: Path) -> None:
    python, feed = (
        sys.executable,
        ["-m", "streaming.commands.main", "feed", "--dry-run", "--ports", str(PORT)],
    )
    logs = [tmp_path / f"{cable}.log" for cable in CABLES]
    with ExitStack() as stack:
        stack.enter_context(hosts())
        for host, cable, log in zip(HOSTS, CABLES, logs, strict=True):
            stack.enter_context(running(on(host, python, *feed, "--interface", cable), log))
        for log in logs:
            wait_for('"ready"', log)
        response = prefixed(metadata_response(1)).hex()
        served = tmp_path / "served.log"
        serve = on(HOSTS[1], python, "-c", SERVE, ADDRESSES[1], str(PORT), response)
        stack.enter_context(running(serve, served))
        wait_for("listening", served)
        run(*on(HOSTS[0], python, "-c", REQUEST, ADDRESSES[1], str(PORT), prefixed(metadata(1)).hex()))
        for log in logs:
            wait_for("closed", log)
    lines = [[line for line in log.read_text().splitlines() if ADDRESSES[0] in line] for log in logs]
    assert lines[0] == lines[1]
    assert [
        word for line in lines[0] for word in ("opened", "request", "response", "closed") if word in line
    ] == [
        "opened",
        "request",
        "response",
        "closed",
    ]
