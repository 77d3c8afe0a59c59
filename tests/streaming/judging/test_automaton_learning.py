"""What the automaton has learnt is not judged again, and nothing else is taken for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from expectations.conversation.bodies import ClusterDescription
from expectations.conversation.members import member_name
from expectations.conversation.texts import ZERO_UUID, identifier_text
from expectations.judging import automaton
from expectations.judging.terms import Terms
from streaming.judging.report import Report
from tests.exchange import ID_A, ID_B, SOFTWARE, Exchange, advertisement
from tests.streaming.judging.activities import (
    ORDINARY,
    Names,
    exchange_of,
    fetching,
    joining,
    numbered,
)
from tests.streaming.judging.stepping import Pair, Stores, compared
from tests.streaming.judging.travelling import on, windows
from tests.streaming.state.bucket_store import states_of

pytestmark = pytest.mark.usefixtures("transitions_are_learnt_at_once")


@pytest.mark.parametrize("learnt_at", [1, 2, 3])
def test_a_transition_is_learnt_when_its_input_comes_again(
    learnt_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first window that comes often enough is not judged any more, and teaches all that it lacks."""
    monkeypatch.setattr(automaton, "LEARNT_AT", learnt_at)
    members = [identifier_text(bytes([number]) * 16) for number in range(1, 5)]
    judged = compared(*(joining(f"app {number}", member_id) for number, member_id in enumerate(members)))
    assert [bool(count) for count in judged] == [number < learnt_at for number in range(1, 5)]


def test_an_opening_of_another_connection_is_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other IDs, another client address, another run of the feeder."""
    monkeypatch.setattr(automaton, "LEARNT_AT", 2)
    pair, stores = Pair(), Stores()
    for name in (b"a", b"b"):
        pair.step(stores, on(name, windows(fetching())))
    pair.judge.judged = 0
    other = windows(fetching("other", ORDINARY[1]))
    report = pair.step(stores, on(b"z", other, client="10.0.0.9:50000", run=7))
    assert pair.judge.judged == 0
    assert report.frames["Fetch"] == {"request": 3, "response": 3}


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_opening_that_a_batch_cuts_anywhere_is_not_judged(is_closed: bool) -> None:
    known, other = fetching(), fetching("other", ORDINARY[1])
    for exchange in (known, other) if is_closed else ():
        exchange.close()
    for cut in range(1, len(known.records)):
        pair, stores = Pair(), Stores()
        for name, exchange in ((b"a", known), (b"b", other)):
            pair.step(stores, on(name, windows(exchange, 0, cut)))
            pair.step(stores, on(name, windows(exchange, cut)))
        pair.tick(stores)
        assert (cut, pair.judge.judged) == (cut, 0)
        assert len(stores.walked.load().connections) == (0 if is_closed else 2)


def test_two_windows_of_a_connection_in_a_step_are_walked_one_after_the_other() -> None:
    """Each comes in an Arrow batch of its own."""
    pair, stores = Pair(), Stores()
    parts = [on(b"a", windows(fetching(), begin, begin + 3)) for begin in range(0, 13, 3)]
    pair.step(stores, *parts)
    assert pair.judge.judged == 0
    (state,) = states_of(stores.walked.load().connections).values()
    assert state.conversation.progress.sequence == len(fetching().records)


def offending() -> Exchange:
    exchange = joining()
    exchange.respond(exchange.request("DescribeGroups", 5, client_id="app", settled=True), {})
    return exchange


def without_answer() -> Exchange:
    exchange = joining()
    exchange.records.pop()
    return exchange


def twice_as_other_client() -> Exchange:
    exchange = joining("app")
    exchange.respond(exchange.request("Fetch", 12, client_id="other"), {})
    return exchange


def with_gap() -> Exchange:
    exchange = joining()
    exchange.gap()
    exchange.negotiate(client_id="app")
    return exchange


def of_two_members() -> Exchange:
    exchange = joining()
    body = {"groupId": "g", "memberId": ORDINARY[1], "memberEpoch": 0}
    exchange.respond(
        exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app"),
        {"memberId": ORDINARY[1], "memberEpoch": 1, "heartbeatIntervalMs": 5_000},
    )
    return exchange


def joined_midway() -> Exchange:
    exchange = Exchange(mid_stream=True)
    exchange.negotiate(client_id="app")
    return exchange


def told_twice() -> Exchange:
    exchange = joining()
    exchange.wait(60.0)
    exchange.negotiate(client_id="app")
    return exchange


UNUSUAL: dict[str, tuple[Callable[[], Exchange], bool]] = {
    "a finding": (offending, True),
    "a heartbeat in flight": (without_answer, False),
    "a gap": (with_gap, False),
    "a member ID in the client ID": (lambda: joining(f"app {ORDINARY[0]}"), False),
    "a member ID as group": (lambda: joining(group_id=ORDINARY[0]), False),
    "a member ID in hex": (lambda: joining(member_id=ID_A.hex()), True),
    "a member ID that is no UUID": (lambda: joining(member_id="A"), True),
    "a reserved member ID": (lambda: joining(member_id=ZERO_UUID), True),
    "another client ID": (twice_as_other_client, False),
    "two members": (of_two_members, True),
    "midway": (joined_midway, False),
    "the same ranges twice": (told_twice, False),
}
"""Each with whether the judge must see it, however often it comes: for a finding, or a second member."""


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_stepped_as_the_judge_does(name: str) -> None:
    """Beside usual openings, whose transitions must not be used for it."""
    make, is_judged = UNUSUAL[name]
    usual, unusual, usual_again, unusual_again = compared(joining(), make(), joining(), make())
    assert (usual, usual_again) == (0, 0)
    assert (unusual > 0, unusual_again > 0) == (is_judged, is_judged)


@pytest.mark.parametrize("first", [ID_A, ID_B])
def test_equal_ids_and_different_ids_are_not_confused(first: bytes) -> None:
    """A member ID that is the client instance ID, and one that is another."""

    def identified(member_id: str) -> Exchange:
        exchange = Exchange()
        exchange.negotiate(version=6, client_id="app", instance_id=ID_A)
        for _ in range(2):
            body = {"groupId": "g", "memberId": member_id, "memberEpoch": 0}
            request = exchange.request("ConsumerGroupHeartbeat", 2, body, instance_id=ID_A)
            exchange.respond(request, {"memberId": member_id, "heartbeatIntervalMs": 5_000})
        return exchange

    second = ID_B if first == ID_A else ID_A
    compared(*(identified(identifier_text(each)) for each in (first, second, first, second)))


def test_servers_that_users_configure_are_not_confused() -> None:
    described = {"10.0.0.2:9092": ClusterDescription("one", 1), "10.0.0.3:9092": ClusterDescription("two", 2)}

    def reaching(server: str) -> Exchange:
        exchange = Exchange(server=server)
        body = SOFTWARE | {"clusterId": "one", "nodeId": 1}
        exchange.respond(exchange.request("ApiVersions", 5, body, client_id="app"), advertisement())
        return exchange

    servers = ["10.0.0.2:9092", "10.0.0.3:9092", "10.0.0.4:9092"] * 2
    compared(*map(reaching, servers), terms=Terms(brokers=described))


def test_what_is_archived_is_told_with_the_name_of_its_listener() -> None:
    terms = Terms(listeners={"10.0.0.2:9092": "inside"})
    exchanges = [joining(), joining("other", ORDINARY[1]), joining()]
    exchanges[2].server = "10.0.0.3:9092"
    assert compared(*exchanges, terms=terms) == [0, 0, 0]


def judged_per_batch(
    activities: list[str], members: Sequence[str] = ORDINARY, only_second: Sequence[str] = ()
) -> tuple[list[int], Stores, Report]:
    """Process batches of two activities on two connections, one connection after the other.

    The second one goes on with what only it says. Returns how many observations the rules judged in each of
    its batches, what is stored, and the report of the last batch.
    """
    pair, stores, judged, report = Pair(archives=False), Stores(), list[int](), Report(0)
    begin = len(exchange_of([], mid_stream=False).records)
    for name, member_id in zip(b"ab", members, strict=False):
        said = [*activities, *(only_second if name == ord("b") else ())]
        names = Names((member_id, "B"), [f"app {name}"], [bytes([name]) * 16])
        exchange = numbered(exchange_of(said, False, names), name, 200)
        pair.step(stores, on(bytes([name]), windows(exchange, 0, begin)))
        judged.clear()
        for at in range(begin, len(exchange.records), 4):
            pair.judge.judged = 0
            report = pair.step(stores, on(bytes([name]), windows(exchange, at, at + 4)))
            judged.append(pair.judge.judged)
    return judged, stores, report


@pytest.fixture
def learnt_when_it_comes_again(transitions_are_learnt_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first connection teaches; what only the second one says is judged."""
    monkeypatch.setattr(automaton, "LEARNT_AT", 2)


@pytest.mark.usefixtures("learnt_when_it_comes_again")
class TestTheSecondConnection:
    """What the first connection has said is not judged again on another one, with other IDs."""

    def test_equal_statements_are_not_judged(self) -> None:
        judged, stores, report = judged_per_batch(["fetch", "fetch"] * 3)
        assert judged == [0, 0, 0]
        assert report.frames == {"Fetch": {"request": 2, "response": 2}}
        assert report.checks["wire/malformed-request"] == {"conforms": 2}
        states = states_of(stores.walked.load().connections).values()
        assert [state.conversation.progress.sequence for state in states] == [3097, 3098]

    def test_statements_with_another_client_instance_id_are_not_judged(self) -> None:
        judged, stores, report = judged_per_batch(["look up", "look up"] * 3)
        assert judged == [0, 0, 0]
        assert report.checks["kip1313/instance-id-changed"] == {"conforms": 2}
        states = states_of(stores.walked.load().connections).values()
        assert [state.conversation.instance_id for state in states] == [b"a" * 16, b"b" * 16]

    @pytest.mark.parametrize("foreign", ["look up with other ID", "fetch as other"])
    def test_an_id_other_than_the_connections_own_is_judged_at_first(self, foreign: str) -> None:
        judged, _, _ = judged_per_batch(["fetch", "look up", "fetch", "look up"], only_second=[foreign])
        assert judged[:2] == [0, 0]
        assert judged[-1] > 0

    def test_equal_heartbeats_of_another_member_are_not_judged(self) -> None:
        judged, stores, report = judged_per_batch(["fetch", "response"] * 4)
        assert judged == [0, 0, 0, 0]
        assert report.frames.keys() == {"Fetch", "ConsumerGroupHeartbeat"}
        assert report.checks["kip1082/member-id-empty"] == {"conforms": 1}
        assert report.checks["kip1082/member-id-changed"] == {"conforms": 1}
        states = states_of(stores.walked.load().connections).values()
        for state, member_id in zip(states, ORDINARY, strict=False):
            ((name, member),) = state.conversation.progress.members.items()
            assert (name, member.heartbeat) == (
                member_name("g", member_id),
                18 * 200 + state.conversation.connection[0],
            )
            assert member.until > member.before_until

    @pytest.mark.parametrize("members", [("A", "B"), (ORDINARY[0], ZERO_UUID), (ORDINARY[0], ID_A.hex())])
    def test_members_with_ids_of_another_form_are_judged(self, members: tuple[str, str]) -> None:
        judged, _, _ = judged_per_batch(["fetch", "response"] * 4, members)
        assert judged == [4, 4, 4, 4]

    @pytest.mark.parametrize(
        "activity", ["out of range", "negotiate", "gap", "unreadable beat", "beat B", "leave"]
    )
    def test_new_statements_are_judged(self, activity: str) -> None:
        judged, _, _ = judged_per_batch(["fetch"] * 4, only_second=[activity])
        assert judged[:2] == [0, 0]
        assert judged[-1] > 0

    @pytest.mark.parametrize("activity", ["negotiate", "gap", "unreadable beat", "leave"])
    def test_any_statement_is_not_judged_that_the_first_one_has_said(self, activity: str) -> None:
        judged, _, report = judged_per_batch(["fetch", "fetch", "fetch", "fetch", activity])
        assert judged[-1] == 0
        assert not report.findings

    @pytest.mark.parametrize("activity", ["out of range", "beat B"])
    def test_news_is_judged_though_the_first_one_had_the_same(self, activity: str) -> None:
        judged, _, report = judged_per_batch(["fetch", "fetch", "fetch", "fetch", activity])
        assert judged[-1] > 0
        assert report.findings
