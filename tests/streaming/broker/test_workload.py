"""The demo's real clients at the real broker."""

import threading
from collections import Counter

import pytest

from streaming.broker.embedded import EmbeddedBroker
from streaming.demo.workload import run_workload
from streaming.user_error import UserError
from tests.streaming.broker.request_log import read_request_log

PRODUCE, LEAVE_GROUP, CONSUMER_GROUP_HEARTBEAT = 0, 13, 68


@pytest.mark.jvm
def test_every_client_plays_its_part(broker: EmbeddedBroker) -> None:
    steps: list[str] = []
    run_workload(broker.watched, steps.append, threading.Event())
    assert len(steps) == 4

    requested = Counter(
        (request.client_id, request.api_key) for request in read_request_log(broker.request_log)
    )
    assert requested["demo-producer", PRODUCE] > 0
    assert requested["demo-classic", LEAVE_GROUP] == 1
    assert requested["demo-consumer", CONSUMER_GROUP_HEARTBEAT] >= 4, "two joins and two leaves"
    assert {client for client, _ in requested} >= {
        "demo-admin",
        "demo-producer",
        "demo-classic",
        "demo-consumer",
    }


def test_nothing_is_played_after_a_stop() -> None:
    stop = threading.Event()
    stop.set()
    steps: list[str] = []
    run_workload("127.0.0.1:1", steps.append, stop)
    assert steps == []


def test_a_missing_broker_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.demo.workload._PATIENCE", 0.5)
    with pytest.raises(UserError, match=r"a client failed at 127\.0\.0\.1:1: .*; check that the broker runs"):
        run_workload("127.0.0.1:1", print, threading.Event())
