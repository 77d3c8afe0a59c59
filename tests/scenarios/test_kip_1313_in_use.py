"""KIP-1313 in real mouths: Kafka's clients 4.4.0, lifted, at a front and a broker that is restarted.

An hour by default, KIPWATCH_LIFTED_SECONDS for another time. The clients are processes that come and go; the
broker behind the front is stopped and killed while they work. At the beginning and at the end all offences of
the demo are planted: each is found, and nothing else is said but what the lifted clients cannot know. What is
found and judged goes to KIPWATCH_LIFTED_FOLDER, if it is set.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from decoders.schema.registry import default_schemas
from streaming.broker.ports import HOST
from streaming.check.examination import Examination, examine
from streaming.demo.demo import SETTLE_RELAYED, offences_found, unplanted_violations
from streaming.demo.front import Front
from streaming.demo.offences import PlantedOffence
from streaming.demo.road import PacketPipe
from streaming.record.relay import Relay
from tests.e2e.planting import plant
from tests.e2e.restarting_broker import RestartingBroker
from tests.scenarios.lifted_client import LiftedClients
from tests.scenarios.new_clients import run_new_clients
from tests.scenarios.stage import StageBroker, prepare

SECONDS = int(os.environ.get("KIPWATCH_LIFTED_SECONDS", "3600"))
FOLDER = os.environ.get("KIPWATCH_LIFTED_FOLDER", "")
PAUSE = 300
"""Milliseconds between two messages, so that the broker goes away among them."""
BEFORE_OUTAGE = 3.0

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(SECONDS + 900)]


class UsedBroker(RestartingBroker, StageBroker):
    """A broker behind the front that goes away and comes back."""

    @property
    def rounds(self) -> list[Callable[[], None] | None]:
        """What happens to it while clients work, round by round."""
        return [None, self.stopped, None, self.killed]


@dataclass
class Use:
    """What was recorded, and the offences that were planted meanwhile, by client."""

    examination: Examination
    rounds: int
    played: list[dict[str, PlantedOffence]] = field(default_factory=list)


@pytest.fixture(scope="module")
def use(tmp_path_factory: pytest.TempPathFactory) -> Use:
    capture = tmp_path_factory.mktemp("use") / "use.pcap"
    pipe, played, rounds = PacketPipe(capture.open("wb")), [], 0
    with closing(pipe), UsedBroker(capture.parent) as broker:
        prepare(broker)
        with (
            Front(default_schemas(), (HOST, broker.lifted_port)) as front,
            Relay(front.address, pipe.write) as relay,
        ):
            played.append(plant(relay.address, SETTLE_RELAYED))
            outages = itertools.cycle(broker.rounds)
            deadline = time.monotonic() + SECONDS
            while rounds < len(broker.rounds) or time.monotonic() < deadline:
                with LiftedClients(default_schemas(), broker.lifted_told, relay.address):
                    work(broker.lifted_told, next(outages))
                rounds += 1
            played.append(plant(relay.address, SETTLE_RELAYED, "127.0.2"))
            port = relay.address[1]
    examination = examine(capture, default_schemas(), [port])
    if FOLDER:
        told = {"rounds": rounds, "coverage": examination.coverage, "findings": examination.findings}
        Path(FOLDER, "use.json").write_bytes(msgspec.json.encode(told))
    return Use(examination, rounds, played)


def work(port: int, outage: Callable[[], None] | None) -> None:
    """Let clients work through a port, and something happen to the broker meanwhile."""
    clients = threading.Thread(target=run_clients, args=(port,))
    clients.start()
    if outage is not None:
        time.sleep(BEFORE_OUTAGE)
        outage()
    clients.join()


def run_clients(port: int) -> None:
    """Run Kafka's clients once. They may fail while the broker is away."""
    with suppress(subprocess.SubprocessError):
        run_new_clients(port, pause=PAUSE)


def test_each_planted_offence_is_found_each_time(use: Use) -> None:
    for played in use.played:
        missed = [one.name for one, found in offences_found(use.examination.findings, played) if not found]
        assert missed == []


def test_no_false_word_is_said(use: Use) -> None:
    """The member ID of a lifted client is its own, since it knows of no instance ID."""
    all_played = {client: one for played in use.played for client, one in played.items()}
    assert unplanted_violations(use.examination.findings, all_played) == []
    others = {finding.rule for finding in use.examination.findings if finding.client not in all_played}
    assert others == {"kip1313/member-id-differs"}


def test_kip_1313_was_in_use(use: Use) -> None:
    conforming = Counter({coverage.rule: coverage.conforms for coverage in use.examination.coverage})
    assert conforming["kip1313/instance-id-missing"] > 20 * use.rounds
    assert conforming["kip1313/client-id-repeated"] > 20 * use.rounds
