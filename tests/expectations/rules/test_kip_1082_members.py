"""A member's life on one connection: every event in every state, and what holds of any sequence of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Closing
from tests.exchange import Exchange

CHANGED = "kip1082/member-id-changed"
REWRITTEN = "kip1082/member-id-rewritten"


def respond(exchange: Exchange, member_id: str | None, error_code: int = 0) -> None:
    """Respond to the latest heartbeat that has no response."""
    paired = {seen.paired_sequence for seen in exchange.records}
    open_requests = [seen for seen in exchange.records if seen.frame and not seen.paired_sequence]
    for request in reversed(open_requests):
        if request.sequence not in paired:
            body = {"errorCode": error_code, "memberId": member_id, "heartbeatIntervalMs": 5000}
            exchange.respond(request, body)
            return


def cut_beat(exchange: Exchange) -> None:
    """A heartbeat whose bytes were not all kept."""
    exchange.beat("A")
    exchange.cut_last(12)


EVENTS: dict[str, Callable[[Exchange], object]] = {
    "A": lambda exchange: exchange.beat("A"),
    "A joins": lambda exchange: exchange.beat("A", 0),
    "A leaves": lambda exchange: exchange.beat("A", -1),
    "B": lambda exchange: exchange.beat("B"),
    "response A": lambda exchange: respond(exchange, "A"),
    "response B": lambda exchange: respond(exchange, "B"),
    "refused": lambda exchange: respond(exchange, None, 25),
    "silence": lambda exchange: exchange.wait(11),
    "gap": lambda exchange: exchange.gap(),
    "unreadable": cut_beat,
    "closed": lambda exchange: exchange.close(),
    "evicted": lambda exchange: exchange.close(Closing.EVICTED),
}
STATES = {
    "nobody": (),
    "A": ("A",),
    "A left": ("A", "A leaves"),
    "A, renamed to B": ("A", "response B"),
    "A, B beside it": ("A", "B"),
    "A silent, B beside it": ("A", "B", "silence"),
    "A and B share": ("A", "B", "A"),
}
QUIET = (0, 0, 0)
CONFORMS, VIOLATES, UNDECIDED = (1, 0, 0), (0, 1, 0), (0, 0, 1)
OF_A = {"A": CONFORMS, "A joins": CONFORMS, "A leaves": CONFORMS}
AGAIN = dict.fromkeys(OF_A, UNDECIDED)
LOST = {"gap": UNDECIDED, "unreadable": UNDECIDED, "closed": VIOLATES, "evicted": UNDECIDED}
TRANSITIONS = {
    "nobody": {},
    "A": OF_A,
    "A left": OF_A | {"B": VIOLATES},
    "A, renamed to B": OF_A | {"B": CONFORMS},
    "A, B beside it": AGAIN | LOST,
    "A silent, B beside it": AGAIN | LOST | {"B": (1, 1, 0)},
    "A and B share": AGAIN | {"B": UNDECIDED},
}
"""What an event in a state is judged to be; what is not listed is not judged."""


def verdicts(*events: str) -> tuple[int, int, int]:
    exchange = Exchange()
    for event in events:
        EVENTS[event](exchange)
    return exchange.verdicts(CHANGED)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", STATES)
def test_every_event_in_every_state(state: str, event: str) -> None:
    before = verdicts(*STATES[state])
    after = verdicts(*STATES[state], event)
    judged = tuple(later - sooner for later, sooner in zip(after, before, strict=True))
    assert judged == TRANSITIONS[state].get(event, QUIET)


LIVES = st.lists(st.sampled_from(sorted(EVENTS.keys() - {"closed", "evicted"})), max_size=25)


@given(LIVES)
def test_one_id_is_never_accused(events: list[str]) -> None:
    _, violates, _ = verdicts(*[event for event in events if event != "B"])
    assert violates == 0


@given(LIVES)
def test_who_was_heard_last_beside_another_decides_nothing_once_lost(events: list[str]) -> None:
    """A gap leaves nothing behind that a later event could turn into an accusation."""
    before, after = verdicts(*events, "gap"), verdicts(*events, "gap", "closed")
    assert before == after


@given(LIVES)
def test_every_member_id_is_judged_once_by_its_response_or_left_undecided(events: list[str]) -> None:
    exchange = Exchange()
    played = [event for event in events if event not in ("unreadable", "refused")]
    for event in played:
        EVENTS[event](exchange)
    exchange.close()
    sent = sum(event in ("A", "A joins", "A leaves", "B") for event in played)
    assert sum(exchange.verdicts(REWRITTEN)) == sent
