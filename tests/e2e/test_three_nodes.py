"""Clients of three brokers, of which each is stopped and killed, and one replaced at its address.

Groups rebalance, leaders move and coordinators change meanwhile. Nobody is accused. Ten minutes by default,
KIPWATCH_NODES_SECONDS for another time; capture and verdicts go to KIPWATCH_NODES_FOLDER, if it is set.
"""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from decoders.schema.registry import default_schemas
from streaming.check.examination import Examination, examine
from tests.captures.recording import captured
from tests.e2e.three_nodes import COUNT, Node, three_nodes
from tests.e2e.working_clients import TOPIC, working

SECONDS = int(os.environ.get("KIPWATCH_NODES_SECONDS", "600"))
FOLDER = os.environ.get("KIPWATCH_NODES_FOLDER", "")
PERIOD = 15.0
"""Seconds between two changes of the cluster."""

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.capture,
    pytest.mark.long,
    pytest.mark.timeout(SECONDS + 900),
]


@pytest.fixture(scope="module")
def examination(tmp_path_factory: pytest.TempPathFactory) -> Examination:
    """What `check` says of all traffic of the clients."""
    folder = Path(FOLDER) if FOLDER else tmp_path_factory.mktemp("nodes")
    capture = folder / "three-nodes.pcap"
    with three_nodes() as (stack, nodes):
        ports = [node.ports.watched for node in nodes]
        with captured(ports[0], capture, *ports[1:]):
            bootstrap = ",".join(node.watched for node in nodes)
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            for created in admin.create_topics([NewTopic(TOPIC, 6, COUNT)]).values():
                created.result()
            with working(bootstrap):
                deadline = time.monotonic() + SECONDS
                roll(nodes, deadline - SECONDS / 2)
                nodes[-1].end()
                nodes[-1] = stack.enter_context(Node(COUNT + 1, nodes[0], instead=nodes[-1]))
                roll(nodes, deadline)
    found = examine(capture, default_schemas(), ports)
    if FOLDER:
        told = {"coverage": found.coverage, "findings": found.findings}
        Path(FOLDER, "three-nodes.json").write_bytes(msgspec.json.encode(told))
    return found


def roll(nodes: list[Node], deadline: float) -> None:
    """Stop and kill the brokers in turn. The controller lets the preferred leaders lead again after each."""
    for node, is_killed in zip(itertools.cycle(nodes), itertools.cycle([False, False, True, True])):
        if time.monotonic() > deadline:
            return
        time.sleep(PERIOD)
        (node.killed if is_killed else node.stopped)()


def test_nobody_is_accused(examination: Examination) -> None:
    assert [finding for finding in examination.findings if finding.level == "violation"] == []


def test_groups_moved_between_the_brokers(examination: Examination) -> None:
    conforming = {each.rule: each.conforms for each in examination.coverage}
    assert conforming["kip1082/member-id-changed"] > 20
    assert examination.connections > 100
    assert len(examination.brokers) == COUNT


def test_the_replaced_broker_is_told_apart(examination: Examination) -> None:
    """Java's clients of 4.4.0 say which broker they mean (KIP-1242)."""
    conforming = {each.rule: each.conforms for each in examination.coverage}
    assert conforming["kip1242/half-identified"] > 0
