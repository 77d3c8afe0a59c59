"""What the columnar cache adds up for the archive is what is counted window by window.

`Run` compares both; `test_judgement_cache.py` does so on random traffic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from decoders.frame.record import Record
from expectations.conversation.occurrence import Occurrence
from expectations.conversation.window import Window
from streaming.judging.usage import MINUTE, Use
from tests.exchange import Exchange
from tests.streaming.judging.test_bucket_step import on, windows
from tests.streaming.judging.test_columnar_cache import Run
from tests.streaming.judging.test_judgement_cache import commit, fetch, numbered

CONNECTIONS = 6
ROUNDS = 12


def played(turn: Callable[[Named], object], client_ids: int = 1) -> list[list[Window]]:
    """A batch for the openings, and one for each of ROUNDS turns. Connections share so many client IDs."""
    exchanges = []
    for number in range(CONNECTIONS):
        exchange = Named(f"app {number % client_ids}")
        exchange.negotiate(client_id=exchange.client_id)
        begin = len(exchange.records)
        for _ in range(ROUNDS):
            turn(exchange)
        exchanges.append(numbered(exchange, number, CONNECTIONS))
    size = (len(exchanges[0].records) - begin) // ROUNDS
    bounds = [0, *range(begin, len(exchanges[0].records) + 1, size)]
    return [
        [
            window
            for number, exchange in enumerate(exchanges)
            for window in on(bytes([number + 1]), windows(exchange, first, last))
        ]
        for first, last in itertools.pairwise(bounds)
    ]


class Named(Exchange):
    """An exchange whose requests all have one client ID."""

    def __init__(self, client_id: str) -> None:
        super().__init__()
        self.client_id = client_id

    def request(self, api: str, version: int, body: dict[str, Any] | None = None, **how: Any) -> Record:
        return super().request(api, version, body, **how | {"client_id": self.client_id})


def moved(occurrence: Occurrence, later: int) -> Occurrence:
    """Capture an occurrence later."""
    first, last = occurrence.first_captured_at + later, occurrence.last_captured_at + later
    return msgspec.structs.replace(occurrence, first_captured_at=first, last_captured_at=last)


def counted(batches: list[list[Window]]) -> tuple[list[int], dict[Use, int]]:
    """Step through batches. Returns how many windows were judged as columns, and the requests of the last."""
    run, hits = Run(), []
    for batch in batches:
        judged, report = run.step(batch)
        hits.append(judged)
    return hits, {usage.use: sum(usage.requests.values()) for usage in report.usage}


def work(exchange: Exchange) -> None:
    fetch(exchange)
    commit(exchange)


@pytest.mark.parametrize("client_ids", [1, 2, CONNECTIONS])
def test_connections_are_added_up_by_client_id(client_ids: int) -> None:
    hits, requests = counted(played(work, client_ids))
    assert hits[-1] == CONNECTIONS
    assert {use.client_id for use in requests} == {f"app {number}" for number in range(client_ids)}
    assert sum(requests.values()) == 2 * CONNECTIONS


def test_a_connection_counts_once_for_several_statements_of_a_use() -> None:
    def turn(exchange: Exchange) -> None:
        for group in ("orders", "payments"):
            exchange.respond(exchange.request("JoinGroup", 9, {"groupId": group}), {})

    run = Run()
    for batch in played(turn, 2):
        hits, report = run.step(batch)
    assert hits == CONNECTIONS
    assert [sum(usage.requests.values()) for usage in report.usage] == [CONNECTIONS] * 2
    assert [sum(usage.connections.values()) for usage in report.usage] == [CONNECTIONS // 2] * 2


def test_a_window_in_two_minutes_counts_in_both() -> None:
    def turn(exchange: Exchange) -> None:
        fetch(exchange)
        exchange.wait(60)
        commit(exchange)

    hits, requests = counted(played(turn))
    assert hits[-1] == CONNECTIONS
    assert len({use.minute for use in requests}) == 2


def test_connections_in_different_minutes_are_added_up_apart() -> None:
    batches = played(work)
    for batch in batches:
        for number, window in enumerate(batch):
            later = number % 2 * MINUTE
            window.occurrences[:] = [moved(each, later) for each in window.occurrences]
    hits, requests = counted(batches)
    assert hits[-1] == CONNECTIONS
    assert len({use.minute for use in requests}) == 2


def test_members_of_classic_groups_are_told_one_by_one() -> None:
    def turn(exchange: Named) -> None:
        request = exchange.request("JoinGroup", 9, {"groupId": f"orders {exchange.client_id}"})
        exchange.respond(request, {})

    run = Run()
    for batch in played(turn, 2):
        hits, report = run.step(batch)
    assert hits == CONNECTIONS
    assert len(report.changes.members) == CONNECTIONS
