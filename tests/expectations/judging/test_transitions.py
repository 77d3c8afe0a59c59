"""What is learnt of three short conversations, which the page of decisions has, and of all cases.

See docs/decisions/judging.md, "What is learnt, and how". All numbers of a guard are named as there.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from decoders.schema.registry import default_schemas
from expectations.conversation.progress import PROGRESS_NUMBERS
from expectations.judging import automaton
from expectations.judging.automaton import Automaton
from expectations.judging.cells import ADVANCED, NUMBER, PROGRESS, UUID, ZERO, Linear, input_cell
from expectations.judging.traced_values import Guard
from expectations.judging.tracing import Input, Learnt
from tests.cases.test_cases import CASES
from tests.exchange import Exchange
from tests.streaming.judging.stepping import Pair, Pairs, Stores
from tests.streaming.judging.travelling import in_batches

MEMBER = "8zQ4pXkCTt2cYd0sVhGm1A"
_PAIRED = input_cell("paired_sequence")
_HEARTBEAT = PROGRESS + PROGRESS_NUMBERS.index("member_heartbeat")
_LOSS = [begin + PROGRESS_NUMBERS.index("loss") for begin in (PROGRESS, ADVANCED)]
_SHOWN = [
    begin + PROGRESS_NUMBERS.index(f"{name}_until")
    for begin in (PROGRESS, ADVANCED)
    for name in ("client", "instance", "member")
]
_SEQUENCES = [input_cell(name) for name in ("first_sequence", "last_sequence")]


def kind_of(guard: Guard) -> str:
    """Name what a guard compares, as the page does."""
    cells = {guard.left.plus, guard.left.minus, guard.right.plus, guard.right.minus} - {ZERO}
    registers = {cell for cell in cells if NUMBER <= cell < UUID}
    others = cells - registers
    if others <= {input_cell("in_flight"), input_cell("in_flight_after")} and others:
        return "in flight"
    if others & set(_LOSS) and others <= {*_LOSS, _PAIRED}:
        return "loss"
    if _PAIRED in others and others <= {_PAIRED, _HEARTBEAT}:
        return "pairing"
    if others and others <= set(_SHOWN) and registers:
        return "shown"
    if registers and others <= set(_SEQUENCES) and len(cells) > 1:
        return "order"
    if len(registers) == 1 and not others:
        return "count"
    raise AssertionError(f"a guard of a seventh kind: {guard}")


class Seen(NamedTuple):
    """A transition that was learnt: the frame, the kinds of its guards, and whether it asks the judge."""

    frame: str
    guards: tuple[str, ...] = ()
    asks_the_judge: bool = False


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Input, Learnt]]:
    """All that automata learn during a test, each input when it first comes."""
    monkeypatch.setattr(automaton, "LEARNT_AT", 1)
    monkeypatch.setattr(automaton, "CREDIT", 1 << 20)
    found: list[tuple[Input, Learnt]] = []
    add = Automaton._add

    def noting(self: Automaton, key: tuple[int, int, int], given: Learnt) -> None:
        found.append((self._input(*key[1:]), given))
        add(self, key, given)

    monkeypatch.setattr(Automaton, "_add", noting)
    return found


def seen(learnt: list[tuple[Input, Learnt]]) -> list[Seen]:
    names = default_schemas().api_names
    transitions = []
    for given, found in learnt:
        if given.template is not None:
            statement = given.template.statement
            api = names.get(statement.api_key, "")
            frame = f"{api} {statement.kind.name.lower()}".strip()
            guards = tuple(sorted({kind_of(guard) for guard in found.guards}))
            transitions.append(Seen(frame, guards, found.facts is None))
    return transitions


def converse(exchange: Exchange) -> Pair:
    """Step frame by frame, beside the judge alone."""
    pair, stores = Pair(), Stores()
    for parts in in_batches(exchange, 1):
        pair.step(stores, *parts)
    return pair


def test_a_client_opens_asks_fetches_three_times_and_closes(learnt: list[tuple[Input, Learnt]]) -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for _ in range(3):
        exchange.respond(exchange.request("Fetch", 12, client_id="app"), {})
    exchange.close()
    assert converse(exchange).judge.judged == 0
    assert seen(learnt) == [
        Seen("opened"),
        Seen("ApiVersions request"),
        Seen("ApiVersions response", ("pairing",)),
        Seen("Fetch request", ("order",)),
        Seen("Fetch response"),
        # The first request and the first response that use the connection have changed the facts; the third
        # fetch takes these, too.
        Seen("Fetch request", ("order",)),
        Seen("Fetch response"),
        Seen("closed"),
    ]


def test_a_member_joins_and_sends_heartbeats(learnt: list[tuple[Input, Learnt]]) -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for epoch in range(5):
        response = {"memberId": MEMBER, "memberEpoch": epoch + 1, "heartbeatIntervalMs": 5_000}
        exchange.respond(exchange.beat(MEMBER, epoch), response)
    converse(exchange)
    answered = ("count", "pairing")
    assert seen(learnt)[3:] == [
        Seen("ConsumerGroupHeartbeat request", ("order",)),
        Seen("ConsumerGroupHeartbeat response", answered),
        Seen("ConsumerGroupHeartbeat request", ("order",)),
        Seen("ConsumerGroupHeartbeat response", answered),
        # From here on each heartbeat leads back: its epoch is in a register.
        Seen("ConsumerGroupHeartbeat request", ("order",)),
    ]
    joining = learnt[3][1]
    # The join takes the member ID into a register, and claims it.
    assert (UUID, Linear(input_cell("member"))) in joining.moves
    assert joining.claims


def test_bytes_are_lost_while_a_fetch_has_no_response(learnt: list[tuple[Input, Learnt]]) -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    fetch = exchange.request("Fetch", 12, client_id="app")
    exchange.gap()
    exchange.respond(fetch, {})
    pair = converse(exchange)
    assert seen(learnt)[3:] == [
        Seen("Fetch request", ("order",)),
        Seen("gap", ("in flight",), asks_the_judge=True),
        Seen("Fetch response", ("loss",)),
    ]
    assert pair.judge.judged == 1


def test_a_gap_when_nothing_is_in_flight_is_walked(learnt: list[tuple[Input, Learnt]]) -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.gap()
    pair = converse(exchange)
    assert seen(learnt)[3:] == [Seen("gap", ("in flight",))]
    assert pair.judge.judged == 0


@pytest.mark.timeout(900)
def test_every_case_is_stepped_as_the_judge_does_by_guards_of_six_kinds(
    learnt: list[tuple[Input, Learnt]],
) -> None:
    """All cases of a reading share one automaton, so that a case meets the transitions of others."""
    Pairs(archives=False).compare(CASES, 4)
    kinds = {kind_of(guard) for _, found in learnt for guard in found.guards}
    assert kinds == {"pairing", "order", "loss", "count", "in flight", "shown"}
