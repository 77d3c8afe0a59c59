"""What the automaton moves is stored and forgotten like what is judged, and what it keeps is bounded."""

from __future__ import annotations

import pytest

from decoders.retention import KEPT_FOR, MILLISECOND
from expectations.conversation.observation import Window
from expectations.judging import automaton
from tests.cases.test_cases import CASES
from tests.examples import sampled
from tests.exchange import SOFTWARE, Exchange, advertisement
from tests.streaming.judging.activities import (
    ORDINARY,
    Names,
    exchange_of,
    fetching,
    joining,
    rounds,
)
from tests.streaming.judging.stepping import NOW, Pair, Pairs, Stores, compared
from tests.streaming.judging.travelling import in_batches, on, windows
from tests.streaming.state.bucket_store import states_of

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("transitions_are_learnt_at_once")]

CONNECTIONS = 3


def steady_batches(activities: list[str], size: int = 4) -> list[list[Window]]:
    """`size` frames of each connection in a batch, after the openings; each has IDs of its own."""
    exchanges = []
    for number in range(CONNECTIONS):
        names = Names((ORDINARY[number], "B"), [f"app {number}"], [bytes([number + 65]) * 16])
        exchanges.append(exchange_of(activities, False, names))
    return rounds(exchanges, len(exchange_of([], mid_stream=False).records), size)


WORK = ["fetch", "response", "fetch", "commit"]


def test_no_content_is_read_for_what_is_walked() -> None:
    """Though another connection has some."""
    pair, stores = Pair(), Stores()
    *first, last = steady_batches(WORK * 4)
    pair.step(stores, on(b"z", windows(exchange_of(["out of range"], False))))
    assert stores.walked.contents
    for batch in first:
        pair.step(stores, batch)
    stores.walked.contents_reads = 0
    bucket = stores.walked.load()
    pair.walk(bucket, last)
    assert stores.walked.save(bucket).contents is None
    assert stores.walked.contents_reads == 0


def test_requests_in_flight_are_moved() -> None:
    """Windows of three frames end between a request and its response, in turns."""
    pair, stores, in_flight = Pair(), Stores(), list[int]()
    for batch in steady_batches(["fetch"] * 24, 3):
        pair.step(stores, batch)
        states = states_of(stores.walked.load().connections).values()
        in_flight.append(sum(sum(state.conversation.progress.in_flight.counts.values()) for state in states))
    assert pair.judge.judged == 0
    assert in_flight[-2:] in ([0, CONNECTIONS], [CONNECTIONS, 0])


@pytest.mark.parametrize(("limit", "most"), [("FACTS", 4), ("TEMPLATES", 6), ("TRANSITIONS", 4)])
def test_an_automaton_that_is_full_is_cleared(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps; it then learns anew, and what comes of the steps stays the same."""
    monkeypatch.setattr(automaton, limit, most)
    pair, stores = Pair(), Stores()
    for batch in steady_batches(WORK * 4):
        pair.step(stores, batch)
        pair.tick(stores)
    assert pair.automaton.clears > 0
    assert len(pair.automaton.facts) <= automaton.FACTS
    assert len(pair.automaton.templates) <= automaton.TEMPLATES
    assert len(pair.automaton.yields) <= automaton.TRANSITIONS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "limit", "most"),
    [
        (1, "FACTS", 16),
        (4, "TEMPLATES", 16),
        (7, "TRANSITIONS", 16),
        (10, "PARTS", 1024),
        (13, "BRANCHES", 1),
    ],
)
def test_cases_are_stepped_alike_by_an_automaton_with_little_room(
    begin: int, limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automaton, limit, most)
    pairs = Pairs()
    pairs.compare(sampled(CASES, begin), 4)
    assert pairs.clears > 0 or limit == "BRANCHES"


def test_without_room_for_an_input_the_judge_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "TRANSITIONS", 4)
    assert all(compared(fetching(), fetching(), fetching()))


def test_what_is_counted_until_it_is_learnt_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs that are seen too rarely are counted from the beginning."""
    monkeypatch.setattr(automaton, "LEARNT_AT", 2)
    monkeypatch.setattr(automaton, "SIGHTINGS", 0)
    assert all(compared(joining(), joining(), joining()))


def test_learning_is_rationed_by_what_goes_to_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traffic of which no frame is like another cannot make a worker learn for ever."""
    monkeypatch.setattr(automaton, "CREDIT", 5)
    pair, stores = Pair(), Stores()
    for number in range(40):
        exchange = Exchange(connection=bytes([number]) * 16)
        software = {"clientSoftwareName": f"client-{number}", "clientSoftwareVersion": "1.0"}
        exchange.respond(exchange.request("ApiVersions", 4, software, client_id="app"), advertisement())
        for parts in in_batches(exchange, 10):
            pair.step(stores, *parts)
    assert len(pair.automaton.yields) <= 5 + pair.judge.judged / automaton.JUDGED


def test_a_window_with_nothing_in_it_makes_no_connection() -> None:
    """A crafted block may hold nothing new of a connection, at the end of its columns, too."""
    empty = [window._replace(numbers=[], occurrences=[]) for window in on(b"e", windows(joining()))]
    pair, stores = Pair(), Stores()
    pair.step(stores, empty)
    pair.step(stores, [*on(b"a", windows(joining())), *empty], empty)
    assert set(states_of(stores.walked.load().connections)) == {b"a" * 16}


def test_connections_that_were_walked_are_forgotten_when_they_are_silent() -> None:
    """After a day of the bucket's clock, which walked connections move."""
    pair, stores = Pair(), Stores()
    early, late = Exchange(at=NOW * MILLISECOND - 2 * KEPT_FOR), Exchange(at=NOW * MILLISECOND)
    for name, exchange in ((b"a", early), (b"b", late)):
        exchange.negotiate(client_id="app")
        pair.step(stores, on(name, windows(exchange)))
    assert pair.walked == 2
    assert len(stores.walked.load().connections) == 2
    pair.tick(stores)
    assert states_of(stores.walked.load().connections).keys() == {b"b" * 16}


def test_a_tick_claims_of_a_server_until_its_latest_connection() -> None:
    """Connections that name the same cluster and broker make one claim, until the latest frame of all."""
    pair, stores = Pair(), Stores()
    for name in (b"a", b"b"):
        exchange = Exchange(connection=name * 16)
        body = SOFTWARE | {"clusterId": "one", "nodeId": 1}
        exchange.respond(exchange.request("ApiVersions", 5, body, client_id="app"), advertisement())
        exchange.wait(5 * name[0])
        exchange.respond(exchange.request("Metadata", 12, client_id="app"))
        pair.step(stores, windows(exchange))
    pair.tick(stores)
