"""Steps with the automaton return and store what the judge alone does, and leave little to the judge.

Each property is held twice over one automaton: other IDs, addresses, sequences and times then meet the
transitions that were learnt before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.retention import KEPT_FOR, MILLISECOND
from decoders.schema.registry import default_schemas
from expectations.conversation.bodies import ClusterDescription
from expectations.conversation.members import member_name
from expectations.conversation.observation import Window
from expectations.conversation.texts import ZERO_UUID, identifier_text
from expectations.judging import automaton
from expectations.judging.terms import Terms
from streaming.check.examination import records_of
from streaming.feeder.source import open_capture
from streaming.judging.report import Report
from tests.captures import planted, real_clients
from tests.cases.notation import Case
from tests.cases.test_cases import CASES
from tests.examples import examples, sampled
from tests.exchange import ID_A, ID_B, SOFTWARE, Exchange, advertisement
from tests.expectations.conversation.scalar_windows import in_file, windows_of
from tests.mutations.mutator import MUTATORS
from tests.mutations.test_mutations import mutants_of
from tests.streaming.judging.activities import (
    ANYTHING,
    FOUR_FRAME_STEPS,
    HEARTBEATS,
    IDS,
    NAMES_OF_ONE,
    OPENING,
    ORDINARY,
    SHORT,
    STEADY,
    Names,
    batches,
    exchange_of,
    numbered,
    opened,
    retimed,
    together,
)
from tests.streaming.judging.stepping import NOW, Pair, Pairs, Stores
from tests.streaming.judging.test_step import on, windows
from tests.streaming.judging.travelling import travelled
from tests.streaming.state.bucket_store import states_of

pytestmark = pytest.mark.timeout(900)
"""All cases, and a share of all mutants, are judged twice in one test: minutes on a busy machine."""

SAMPLED = 47
"""Mutants of which one is judged in every run; `make long` judges all."""
ALL_MUTANTS = [pytest.mark.long, pytest.mark.timeout(1_800)]


@pytest.fixture(autouse=True)
def transitions_are_learnt_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "LEARNT_AT", 1)
    monkeypatch.setattr(automaton, "CREDIT", 1 << 20)


@pytest.mark.slow
@examples(400)
@given(
    st.lists(st.tuples(STEADY | HEARTBEATS | ANYTHING, NAMES_OF_ONE), min_size=1, max_size=3),
    st.integers(1, 12),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
def test_steps_with_and_without_the_automaton_return_the_same(
    scripts: list[tuple[list[str], Names]], size: int, at_once: int, mid_stream: bool, archives: bool
) -> None:
    """A step may process several windows of a connection: one from each Arrow batch."""
    exchanges = [exchange_of(activities, mid_stream, names) for activities, names in scripts]
    Pair(archives=archives).compare_in_turns(together(batches(exchanges, size), at_once))


@pytest.mark.slow
@examples(400)
@given(st.lists(st.tuples(FOUR_FRAME_STEPS, NAMES_OF_ONE), min_size=3, max_size=3), st.booleans())
def test_connections_are_not_confused(scripts: list[tuple[list[str], Names]], archives: bool) -> None:
    """A window is one activity here, so many windows differ only in connection and earlier traffic."""
    exchanges = [exchange_of(activities, False, names) for activities, names in scripts]
    of_activities = batches([opened(exchange) for exchange in exchanges], 4)
    Pair(archives=archives).compare_in_turns(together(of_activities, 1))


@pytest.mark.slow
@examples(400)
@given(
    FOUR_FRAME_STEPS,
    st.lists(st.tuples(NAMES_OF_ONE, OPENING, st.integers(0, 12), FOUR_FRAME_STEPS), min_size=3, max_size=3),
    st.booleans(),
)
def test_connections_with_different_beginnings_are_not_confused(
    activities: list[str], scripts: list[tuple[Names, int, int, list[str]]], archives: bool
) -> None:
    """All connections perform the same activities up to some point, but begin differently."""
    exchanges = [
        exchange_of(activities[:end] + others, False, names, opening)
        for names, opening, end, others in scripts
    ]
    of_activities = batches([opened(exchange) for exchange in exchanges], 4)
    Pair(archives=archives).compare_in_turns(together(of_activities, 1))


@pytest.mark.slow
@examples(160)
@given(
    st.lists(st.tuples(SHORT | HEARTBEATS, NAMES_OF_ONE, OPENING, st.booleans()), min_size=1, max_size=4),
    st.integers(1, 30),
    st.integers(1, 8),
    st.booleans(),
)
def test_openings_that_batches_cut_anywhere_are_not_confused(
    scripts: list[tuple[list[str], Names, int, bool]], size: int, at_once: int, archives: bool
) -> None:
    """Connections open, say little, and some close; a step takes several windows of each."""
    exchanges = [
        exchange_of(activities, False, names, opening, is_closed)
        for activities, names, opening, is_closed in scripts
    ]
    Pair(archives=archives).compare_in_turns(together(batches(exchanges, size), at_once))


@pytest.mark.slow
@examples(160)
@given(SHORT, st.lists(NAMES_OF_ONE, min_size=4, max_size=4), OPENING, st.booleans(), st.data())
def test_openings_of_the_same_statements_are_not_confused(
    activities: list[str], names: list[Names], opening: int, is_closed: bool, data: st.DataObject
) -> None:
    """All connections do the same, with IDs that are equal in other places, and at other moments.

    Batches cut through all of them at the same places.
    """
    exchanges = [exchange_of(activities, False, each, opening, is_closed) for each in names]
    for exchange in exchanges:
        moments = st.lists(st.integers(0, 2), min_size=len(exchange.records), max_size=len(exchange.records))
        retimed(exchange, data.draw(moments))
    size = data.draw(st.integers(1, len(exchanges[0].records)))
    Pair(archives=data.draw(st.booleans())).compare_in_turns(together(batches(exchanges, size), 1))


@pytest.mark.slow
@examples(400)
@given(
    st.lists(st.tuples(SHORT | HEARTBEATS, NAMES_OF_ONE, OPENING), min_size=1, max_size=3),
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(0, 20),
    st.booleans(),
)
def test_a_source_that_is_read_again_and_a_query_that_restarts_change_nothing(
    scripts: list[tuple[list[str], Names, int]], size: int, replayed: int, until: int, has_lost: bool
) -> None:
    """After a restart the automaton is a new one, and the latest batches come again.

    Where frames were lost before the restart, connections count as interrupted.
    """
    exchanges = [exchange_of(activities, False, names, opening) for activities, names, opening in scripts]
    cut = together(batches(exchanges, size), 1)
    before, after = Pair(), Pair(resumed_at=int(has_lost))
    for _ in range(2):
        stores = Stores()
        for parts in cut[:until]:
            before.step(stores, *parts)
        for parts in cut[max(0, until - replayed) :]:
            after.step(stores, *parts)
        after.tick(stores)


@given(ANYTHING, st.integers(1, 12))
def test_packing_windows_loses_nothing(activities: list[str], size: int) -> None:
    for batch in batches([exchange_of(activities, mid_stream=False)] * 2, size):
        (columns,) = travelled(batch)
        assert [(window.connection, window.observations) for window in columns.windows()] == [
            (window.connection, window.observations) for window in batch
        ]


def of_exchange(exchange: Exchange, size: int) -> list[list[list[Window]]]:
    """The windows of an exchange of several connections, in batches of so many records."""
    placed = [(record, in_file("exchange", record)) for record in exchange.records]
    parts = (placed[begin : begin + size] for begin in range(0, len(placed), size))
    return [[windows_of(default_schemas(), part)] for part in parts]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "size", "archives"),
    [(0, 4, True), (3, 1, False), (6, 1, True), (9, 10_000, False), (12, 10_000, True)],
)
def test_cases_are_stepped_as_the_judge_does(begin: int, size: int, archives: bool) -> None:
    """A share of the cases in `make test`, cut in several ways; `test_transitions.py` steps all of them."""
    compare_cases(Pairs(archives=archives), sampled(CASES, begin), size)


def compare_cases(pairs: Pairs, cases: Sequence[Case], size: int) -> None:
    for case in cases:
        exchange, rules = case.exchange()
        pairs.of(rules).compare_in_turns(of_exchange(exchange, size))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "size"),
    [
        (SAMPLED, 4),
        pytest.param(1, 4, marks=ALL_MUTANTS),
        pytest.param(1, 10_000, marks=ALL_MUTANTS),
    ],
)
def test_mutants_are_stepped_as_the_judge_does(step: int, size: int) -> None:
    """Every `step`th of all mutants, with one automaton for all of them."""
    pairs = Pairs()
    mutants = (mutant for rule in MUTATORS for mutant in mutants_of(rule))
    for mutant in itertools.islice(mutants, 0, None, step):
        exchange, rules = mutant.performed()
        pairs.of(rules).compare_in_turns(of_exchange(exchange, size))


@pytest.mark.parametrize(("size", "archives"), [(10_000, False), (200, False), (200, True)])
@pytest.mark.parametrize("capture", [planted.CAPTURE, real_clients.CAPTURE], ids=["planted", "real"])
def test_captures_are_stepped_as_the_judge_does(capture: Path, size: int, archives: bool) -> None:
    schemas, pair = default_schemas(), Pair(archives=archives)
    with open_capture(capture) as packets:
        records, _ = records_of(schemas, packets, (), 1)
        placed = [(record, in_file(capture.name, record)) for record in records]
    parts = (placed[begin : begin + size] for begin in range(0, len(placed), size))
    pair.compare_in_turns([[windows_of(schemas, part)] for part in parts])
    assert pair.walked > 0


def joining(client_id: str = "app", member_id: str = ORDINARY[0], group_id: str = "g") -> Exchange:
    exchange = Exchange()
    exchange.negotiate(client_id=client_id)
    for epoch in (0, 1):
        body = {"groupId": group_id, "memberId": member_id, "memberEpoch": epoch}
        request = exchange.request("ConsumerGroupHeartbeat", 1, body, client_id=client_id)
        exchange.respond(request, {"memberId": member_id, "memberEpoch": 1, "heartbeatIntervalMs": 5_000})
    return exchange


def fetching(client_id: str = "app", member_id: str = ORDINARY[0]) -> Exchange:
    exchange = joining(client_id, member_id)
    for _ in range(3):
        exchange.respond(exchange.request("Fetch", 12, client_id=client_id), {})
    return exchange


def compared(*exchanges: Exchange, terms: Terms | None = None, pair: Pair | None = None) -> list[int]:
    """Compare one step for each exchange, on a connection of its own, with one automaton for all.

    Returns how many observations the judge judged in each.
    """
    pair, stores, judged = pair or Pair(terms), Stores(), list[int]()
    for name, exchange in zip(IDS, exchanges, strict=False):
        pair.judge.judged = 0
        pair.step(stores, on(name, windows(exchange), client=exchange.client, server=exchange.server))
        judged.append(pair.judge.judged)
    pair.tick(stores)
    return judged


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
def learnt_when_it_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
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

    def test_those_with_another_client_instance_id_are_not_judged(self) -> None:
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


CONNECTIONS = 3


def steady_batches(activities: list[str], size: int = 4) -> list[list[Window]]:
    """`size` frames of each connection in a batch, after the openings; each has IDs of its own."""
    exchanges = []
    for number in range(CONNECTIONS):
        names = Names((ORDINARY[number], "B"), [f"app {number}"], [bytes([number + 65]) * 16])
        exchanges.append(numbered(exchange_of(activities, False, names), number, CONNECTIONS))
    begin = len(exchange_of([], mid_stream=False).records)
    bounds = [0, *range(begin, len(exchanges[0].records), size), len(exchanges[0].records)]
    return [
        [
            window
            for number, exchange in enumerate(exchanges)
            for window in on(bytes([number + 1]), windows(exchange, first, last))
        ]
        for first, last in itertools.pairwise(bounds)
    ]


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
    compare_cases(pairs, sampled(CASES, begin), 4)
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
        for parts in of_exchange(exchange, 10):
            pair.step(stores, *parts)
    assert len(pair.automaton.yields) <= 5 + pair.judge.judged / automaton.JUDGED


def test_a_window_with_nothing_in_it_makes_no_connection() -> None:
    """A crafted block may hold nothing new of a connection, at the end of its columns, too."""
    empty = [window._replace(numbers=[], occurrences=[]) for window in on(b"e", windows(joining()))]
    pair, stores = Pair(), Stores()
    pair.step(stores, empty)
    pair.step(stores, [*on(b"a", windows(joining())), *empty], empty)
    assert set(states_of(stores.walked.load().connections)) == {b"a" * 16}
