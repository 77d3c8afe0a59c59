"""Live capture beside attackers: what honest clients send is read to the last byte."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from decoders.codec.request import read_request
from decoders.frame.record import Kind, Record
from decoders.schema.registry import default_schemas
from decoders.wire.columnar.packets import PacketBatch
from streaming.broker.ports import free_ports
from streaming.feeder.capture import InterfaceCapture
from streaming.feeder.feeder import Feeder
from streaming.settings.configuration import Configuration
from tests.streaming.feeder.attackers import CLIENTS, HONEST, REQUESTS
from tests.streaming.feeder.live import captures
from tests.streaming.feeder.test_feeder import FakeOutlet

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]
ROUNDS = 2


def started(stack: ExitStack, what: str, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.streaming.feeder.attackers", what, str(port)]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
    stack.callback(process.kill)
    return process


@captures
def test_honest_clients_lose_nothing_beside_pipelining_floods_and_dripping() -> None:
    (port,), outlet = free_ports(1), FakeOutlet()
    configuration, stopping = Configuration(ports=[port]), threading.Event()
    with ExitStack() as stack:
        server = started(stack, "serve", port)
        assert server.stdout is not None and server.stdout.readline()
        capture = stack.enter_context(InterfaceCapture(["lo"], {port}))
        feeder = Feeder(configuration, run=1, capture=capture, stopping=stopping)

        def batches() -> Iterator[PacketBatch]:
            while True:
                yield capture.packets(0.1)

        feeding = threading.Thread(target=feeder.run, args=(batches(), outlet))
        feeding.start()
        attackers = [started(stack, what, port) for what in ("pipeline", "drip", "flood")]
        for _ in range(ROUNDS):
            assert started(stack, "converse", port).wait(300) == 0
        assert all(attacker.poll() is None for attacker in attackers)
        for attacker in attackers:
            attacker.kill()
            attacker.wait()
        stopping.set()
        feeding.join(300)
        dropped = capture.dropped
    assert dropped == 0
    requests = [each for each in outlet.records if each.kind is Kind.REQUEST and is_honest(each)]
    numbers = Counter(read_request(default_schemas(), each.frame).correlation_id for each in requests)
    assert numbers == dict.fromkeys(range(REQUESTS + 1), CLIENTS * ROUNDS)
    paired = [each for each in outlet.records if each.kind is Kind.RESPONSE and is_honest(each)]
    assert len(paired) == len(requests)


def is_honest(record: Record) -> bool:
    return record.client.startswith(f"{HONEST}:")
