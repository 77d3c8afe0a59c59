"""What is counted for the archive where connections are walked; `Pair` compares it with the judge's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from expectations.conversation.observation import Window
from expectations.judging import automaton
from streaming.judging.report import Report
from tests.exchange import Exchange
from tests.streaming.judging.activities import rounds
from tests.streaming.judging.stepping import Pair, Stores
from tests.streaming.judging.travelling import windows

pytestmark = pytest.mark.usefixtures("transitions_are_learnt_at_once")


ROUNDS = 12
CONNECTIONS = 6


def _last(turn: Callable[[Exchange, str], object], client_ids: int = 1) -> Report:
    """Let connections take turns, and return the report of the last, which nobody has judged."""
    pair, stores, report = Pair(), Stores(), Report(0)
    for batch in _played(turn, client_ids):
        report = pair.step(stores, batch)
    assert pair.judge.judged == 0
    return report


def _played(turn: Callable[[Exchange, str], object], client_ids: int) -> list[list[Window]]:
    """A batch for the openings, and one for each turn. Connections share so many client IDs."""
    exchanges = []
    for number in range(CONNECTIONS):
        exchange, client_id = Exchange(), f"app {number % client_ids}"
        exchange.negotiate(client_id=client_id)
        begin = len(exchange.records)
        for _ in range(ROUNDS):
            turn(exchange, client_id)
        exchanges.append(exchange)
    return rounds(exchanges, begin, (len(exchanges[0].records) - begin) // ROUNDS)


@pytest.mark.parametrize("client_ids", [1, 2, CONNECTIONS])
def test_connections_are_added_up_by_client_id(client_ids: int) -> None:
    usage = _last(work, client_ids).usage
    assert {each.use.client_id for each in usage} == {f"app {number}" for number in range(client_ids)}
    assert sum(sum(each.requests.values()) for each in usage) == 2 * CONNECTIONS


def test_a_connection_counts_once_for_several_statements_of_a_use() -> None:
    def turn(exchange: Exchange, client_id: str) -> None:
        for group in ("orders", "payments"):
            exchange.respond(exchange.request("JoinGroup", 9, {"groupId": group}, client_id=client_id), {})

    usage = _last(turn, 2).usage
    assert [sum(each.requests.values()) for each in usage] == [CONNECTIONS] * 2
    assert [sum(each.connections.values()) for each in usage] == [CONNECTIONS // 2] * 2


def test_a_connection_counts_once_in_a_step() -> None:
    """Though the step has two windows of it, from two Arrow batches."""
    pair, stores = Pair(), Stores()
    *others, before_last, last = _played(work, 1)
    for batch in others:
        pair.step(stores, batch)
    usage = pair.step(stores, before_last, last).usage
    assert pair.judge.judged == 0
    assert sum(sum(each.requests.values()) for each in usage) == 4 * CONNECTIONS
    assert [sum(each.connections.values()) for each in usage] == [CONNECTIONS] * len(usage)


def test_a_window_in_two_minutes_counts_in_both() -> None:
    def turn(exchange: Exchange, client_id: str) -> None:
        exchange.respond(exchange.request("Fetch", 12, client_id=client_id), {})
        exchange.wait(60)
        exchange.respond(exchange.request("OffsetCommit", 8, client_id=client_id), {})

    assert len({each.use.minute for each in _last(turn).usage}) == 2


def test_connections_in_different_minutes_are_added_up_apart() -> None:
    def turn(exchange: Exchange, client_id: str) -> None:
        if client_id == "app 1" and exchange.at < 1_060_000_000_000:
            exchange.wait(60)
        work(exchange, client_id)

    assert len({each.use.minute for each in _last(turn, 2).usage}) == 2


@pytest.mark.parametrize("is_walked", [False, True])
def test_the_software_counts_for_the_whole_window_in_which_it_is_said(
    is_walked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for the requests before it."""
    monkeypatch.setattr(automaton, "LEARNT_AT", 1 if is_walked else 1_000)
    exchange, pair = Exchange(), Pair()
    exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    exchange.negotiate(client_id="app")
    exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    usage = pair.step(Stores(), windows(exchange)).usage
    named = {(each.use.software_name, each.use.software_version, each.use.client_id) for each in usage}
    assert pair.walked == is_walked
    assert named == {("tester", "1.0", "app")}
    assert sum(sum(each.requests.values()) for each in usage) == 3


def test_members_of_classic_groups_are_told_one_by_one() -> None:
    def turn(exchange: Exchange, client_id: str) -> None:
        body = {"groupId": f"orders {client_id}"}
        exchange.respond(exchange.request("JoinGroup", 9, body, client_id=client_id), {})

    assert len(_last(turn, 2).changes.members) == CONNECTIONS


def work(exchange: Exchange, client_id: str) -> None:
    for api, version in (("Fetch", 12), ("OffsetCommit", 8)):
        exchange.respond(exchange.request(api, version, client_id=client_id), {})
