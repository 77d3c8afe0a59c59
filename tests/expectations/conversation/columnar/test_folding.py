"""Folding changes no judgement, whatever the size of the window."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from decoders.schema.registry import default_schemas
from expectations.conversation.observation import Window
from expectations.judging.judge import Judge, open_connection
from tests.examples import examples
from tests.exchange import ID_A, ID_B, SOFTWARE, Exchange
from tests.expectations.conversation.scalar_windows import Said
from tests.expectations.conversation.steps import SCRIPTS, STEPS, beats


@examples(250)
@given(SCRIPTS, st.integers(1, 12), st.booleans(), st.booleans())
def test_the_size_of_the_window_changes_nothing(
    steps: list[str], size: int, mid_stream: bool, closed: bool
) -> None:
    exchange = Exchange(mid_stream=mid_stream)
    for step in steps:
        STEPS[step](exchange)
    if closed:
        exchange.close()
    whole, windowed, single = exchange.judge(), exchange.judge(size), exchange.judge(1)
    remembered = exchange.judge(size, said={})
    assert windowed.checks == whole.checks == single.checks == remembered.checks
    for outcome in (windowed, single, remembered):
        assert {f.id: (f.likeness(), f.level, f.message) for f in outcome.findings} == {
            f.id: (f.likeness(), f.level, f.message) for f in whole.findings
        }


@examples(100)
@given(SCRIPTS, st.integers(1, 12))
@example(["padded"] * 3, 1)
def test_the_size_of_the_window_changes_no_time_at_which_an_identity_was_shown(
    steps: list[str], size: int
) -> None:
    exchange = Exchange()
    for step in steps:
        STEPS[step](exchange)
    assert shown(exchange.windows(size)) == shown(exchange.windows()) == shown(exchange.windows(size, {}))


def shown(windows: list[Window]) -> object:
    """The identities that a connection showed in its windows, and when."""
    state, judge = open_connection(windows[0].connection), Judge(default_schemas().api_names)
    for window in windows:
        judge.judge(state, window)
    progress = state.conversation.progress
    members = {name: (member.until, member.before_until) for name, member in progress.members.items()}
    return state.identities, progress.client, progress.instance, members


def test_steady_traffic_folds_to_a_few_observations() -> None:
    exchange = Exchange()
    for _ in range(500):
        exchange.respond(exchange.request("FindCoordinator", 7, client_id="app", instance_id=ID_A))
    (window,) = exchange.windows()
    assert [observation.count for observation in window.observations] == [1, 1, 1, 499, 499]


def test_steady_heartbeats_fold_although_they_say_much() -> None:
    exchange = Exchange()
    beats(exchange, 500, "A", memberId="A")
    (window,) = exchange.windows()
    assert [observation.count for observation in window.observations] == [1, 1, 1, 499, 499]
    *_, folded, _ = window.observations
    assert folded.last_captured_at - folded.previous_captured_at == 3_002_000_000


def test_heartbeats_of_two_members_do_not_fold() -> None:
    """What a heartbeat comes to depends on who sent the one before it."""
    exchange = Exchange()
    for _ in range(5):
        beats(exchange, 1, "A", memberId="A")
        beats(exchange, 1, "B", memberId="B")
    (window,) = exchange.windows()
    assert {observation.count for observation in window.observations} == {1}


def test_what_is_said_again_in_a_later_window_does_not_stand_alone() -> None:
    exchange = Exchange()
    for _ in range(20):
        exchange.respond(exchange.request("FindCoordinator", 7, client_id="app", instance_id=ID_A))
    opening, *others = exchange.windows(10, {})
    assert [observation.count for observation in opening.observations] == [1, 1, 1, 3, 3, 1]
    assert [observation.count for observation in others[0].observations] == [1, 4, 4, 1]


def test_what_comes_a_second_time_is_no_repeat() -> None:
    """A source that is read again from its beginning says nothing twice."""
    exchange, said = Exchange(), Said()
    for _ in range(3):
        exchange.respond(exchange.request("FindCoordinator", 7, client_id="app"))
    first, second = exchange.windows(said=said), exchange.windows(said=said)
    assert [each.observations for each in first] == [each.observations for each in second]


def test_requests_that_expect_no_response_fold_without_one() -> None:
    exchange = Exchange()
    for _ in range(500):
        exchange.request("Produce", 13, {"acks": 0}, client_id="app")
    (window,) = exchange.windows()
    assert [observation.count for observation in window.observations] == [1, 1, 499]


def test_a_request_whose_response_comes_in_a_later_window_stays_alone_with_it() -> None:
    exchange = Exchange()
    for _ in range(3):
        exchange.respond(exchange.request("Metadata", 14, client_id="app", instance_id=ID_A))
    waiting = exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)
    exchange.respond(waiting)
    *_, request = exchange.windows(8)[0].observations
    (response,) = exchange.windows(8)[1].observations
    assert (request.count, response.count) == (1, 1)
    assert response.paired_sequence == request.first_sequence == waiting.sequence


def test_a_replayed_window_is_passed_over() -> None:
    exchange = Exchange()
    exchange.request("ApiVersions", 6, SOFTWARE, instance_id=ID_A)
    exchange.request("Metadata", 14, instance_id=ID_B, client_id="app")
    once = exchange.judge()
    exchange.records += exchange.records
    assert exchange.judge(size=3).checks == once.checks
