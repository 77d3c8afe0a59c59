"""Progress moved in numbers is equal to progress moved by its definition, on any occurrences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Kind, Pairing
from decoders.protocol import CONSUMER_GROUP_HEARTBEAT, PRODUCE
from expectations.conversation.bodies import Heartbeat, HeartbeatResponse
from expectations.conversation.in_flight import InFlight
from expectations.conversation.occurrence import NO_EVIDENCE, Occurrence
from expectations.conversation.progress import NEVER, Progress
from expectations.conversation.progress_numbers import advanced
from expectations.conversation.statement import Statement
from expectations.judging.symbol import Symbol

FETCH = 1
MEMBER_ID = "8zQ4pXkCTt2cYd0sVhGm1A"
STATEMENTS = (
    Statement(Kind.REQUEST, api_key=FETCH, api_version=12, header_version=2, client_id="app"),
    Statement(Kind.RESPONSE, pairing=Pairing.MATCHED, api_key=FETCH, api_version=12),
    Statement(Kind.RESPONSE, pairing=Pairing.NONE),
    Statement(
        Kind.REQUEST,
        api_key=PRODUCE,
        api_version=9,
        header_version=2,
        expects_response=False,
        client_id="app",
    ),
    Statement(
        Kind.REQUEST,
        api_key=CONSUMER_GROUP_HEARTBEAT,
        api_version=1,
        header_version=2,
        body=Heartbeat(MEMBER_ID, "group", 5, is_well_formed=True),
    ),
    Statement(
        Kind.RESPONSE,
        pairing=Pairing.MATCHED,
        api_key=CONSUMER_GROUP_HEARTBEAT,
        api_version=1,
        body=HeartbeatResponse(0, MEMBER_ID, 5_000),
    ),
)
SMALL = st.integers(1, 9)
SHOWN = st.tuples(SMALL, SMALL) | st.just((NEVER, NEVER))
MEMBER = st.tuples(SMALL, SMALL, SMALL) | st.just((NEVER, NEVER, NEVER))
NUMBERS = st.builds(
    lambda moved, client, instance, member: (*moved, *client, *instance, *member),
    st.tuples(SMALL, SMALL, st.integers(0, 9)),
    SHOWN,
    SHOWN,
    MEMBER,
)
OCCURRENCES = st.builds(
    Occurrence, SMALL, SMALL, SMALL, SMALL, st.just(NO_EVIDENCE), SMALL, SMALL, paired_sequence=SMALL
)


@given(NUMBERS, st.lists(st.tuples(st.sampled_from(STATEMENTS), OCCURRENCES), max_size=6))
def test_numbers_move_as_progress_does(
    numbers: tuple[int, ...], said: list[tuple[Statement, Occurrence]]
) -> None:
    progress = Progress.of_numbers(numbers, "group\0member", InFlight({(FETCH, 12): 1}))
    for statement, occurrence in said:
        names_member = isinstance(statement.body, Heartbeat)
        progress.advance(statement, occurrence, progress.only_member if names_member else None)
    movements = [Symbol(statement).movement for statement, _ in said]
    moved, added = advanced(numbers, movements, [occurrence for _, occurrence in said])
    in_flight = InFlight({(FETCH, 12): 1})
    for version, count in added.items():
        in_flight.add(version, count)
    assert (moved, in_flight) == (progress.numbers(), progress.in_flight)
