"""`demo --keep`: clients of the user's own find a topic, and what they do wrong is shown as it is found."""

from __future__ import annotations

import re
import shlex
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streaming.demo.offences import change_instance_id
from streaming.demo.road import Child
from streaming.probe.client import InstanceClient, new_instance_id
from streaming.settings.release import load_schemas

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(420)]

STARTED, SHOWN = 300.0, 60.0


def printed(log: str, name: str) -> str:
    """What is printed after the name of an address, first at the start and again at the end."""
    first, second = re.findall(rf"(?m)^    {name}  +(.*)$", log)
    assert first == second
    return str(first)


def shown_by(command: list[str], awaited: str) -> str:
    """What a command line prints, as it was printed, until `awaited` is part of it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        guard = threading.Timer(SHOWN, running.kill)
        guard.start()
        try:
            assert running.stdout is not None
            return next((line for line in running.stdout if awaited in line), "")
        finally:
            guard.cancel()
            running.terminate()


def test_a_demo_that_is_kept_serves_clients_of_the_users_own(tmp_path: Path) -> None:
    command = ["demo", "--keep", "--recording", str(tmp_path / "demo.pcap")]
    with Child(command, tmp_path / "demo.log") as demo:
        demo.wait_for("still running, until Ctrl-C", STARTED)
        demo.wait_for("read the findings", SHOWN)
        log = demo.log.read_text()
        watched, front = (printed(log, name).split()[0] for name in ("watched broker", "front"))
        assert printed(log, "internal listener").split()[0] not in (watched, front)
        for page in ("metrics of the query", "metrics of the feeder"):
            assert urllib.request.urlopen(printed(log, page), timeout=10).status == 200

        with Producer({"bootstrap.servers": watched}) as producer:
            producer.produce("orders-of-my-own", "one")
            assert producer.flush(SHOWN) == 0

        host, _, port = front.rpartition(":")
        own = InstanceClient(load_schemas(""), (host, int(port)), "my-own", new_instance_id())
        with own as client:
            address = client.address
            change_instance_id(client, 0.0)
        demo.wait_for(f"kip1313/instance-id-changed     {address}", SHOWN)

        page = urllib.request.urlopen(printed(log, "page").split()[0], timeout=10).read().decode()
        assert "kipwatch judges what it sees" in page and address in page
        assert address in shown_by(shlex.split(printed(log, "read the findings")), address)
        assert "MAXPOLL" not in demo.log.read_text()
