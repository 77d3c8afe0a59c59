"""The demo's real clients at the real broker."""

import threading
from collections import Counter

import pytest

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.request_log import read_request_log
from streaming.demo.workload import run_workload
from streaming.user_error import UserError

PRODUCE, LEAVE_GROUP, CONSUMER_GROUP_HEARTBEAT = 0, 13, 68


@pytest.mark.jvm
def test_every_client_plays_its_part(broker: EmbeddedBroker) -> None:
    said: list[str] = []
    run_workload(broker.watched, said.append, threading.Event())
    assert len(said) == 4

    asked = Counter((request.client_id, request.api_key) for request in read_request_log(broker.request_log))
    assert asked["demo-producer", PRODUCE] > 0
    assert asked["demo-classic", LEAVE_GROUP] == 1
    assert asked["demo-consumer", CONSUMER_GROUP_HEARTBEAT] >= 4, "two joins and two leaves"
    assert {client for client, _ in asked} >= {"demo-admin", "demo-producer", "demo-classic", "demo-consumer"}


def test_nothing_is_played_once_it_is_to_stop() -> None:
    stop = threading.Event()
    stop.set()
    said: list[str] = []
    run_workload("127.0.0.1:1", said.append, stop)
    assert said == []


def test_a_broker_that_is_not_there_is_a_users_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.demo.workload._PATIENCE", 0.5)
    with pytest.raises(UserError, match=r"a client failed at 127\.0\.0\.1:1: .*; does the broker run\?"):
        run_workload("127.0.0.1:1", print, threading.Event())
