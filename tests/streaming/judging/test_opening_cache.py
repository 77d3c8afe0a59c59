"""The cache of openings gives what the rules give, is used wherever it may be, and never elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.schema.registry import default_schemas
from expectations.conversation.bodies import ClusterDescription
from expectations.conversation.identifier import identifier_text
from expectations.conversation.occurrence import Evidence
from expectations.conversation.record_windows import windows_of
from expectations.conversation.window import Window
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Rule
from streaming.check.examination import records_of
from streaming.feeder.source import open_capture
from streaming.judging import opening_cache
from streaming.judging.bucket_step import BucketStep
from streaming.judging.opening_cache import OpeningCache
from streaming.state.bucket import Bucket
from streaming.state.bucket_layout import pack_bucket
from tests.captures import planted, real_clients
from tests.cases.test_cases import CASES
from tests.examples import examples
from tests.exchange import ID_A, ID_B, SOFTWARE, Exchange, advertisement
from tests.expectations.conversation.test_fold import STEPS
from tests.mutations.mutator import MUTATORS
from tests.mutations.test_mutations import mutants_of
from tests.streaming.judging.disguise import disguised
from tests.streaming.judging.stepping import CountingJudge, UncachedJudge
from tests.streaming.judging.test_bucket_step import on, windows
from tests.streaming.judging.test_judgement_cache import (
    ACTIVITIES,
    HEARTBEATS,
    NAMES_OF_ONE,
    OPENING,
    OPENINGS,
    SAMPLED,
    Names,
    Renamed,
    comparable,
    together,
)
from tests.streaming.judging.travelling import travelled
from tests.streaming.state.bucket_store import BucketStore

NAMES = default_schemas().api_names
UUIDS = ("8zQ4pXkCTt2cYd0sVhGm1A", "u1nGfQ5lT8-7bDk_QzWq3w")
TURNS = 2


@pytest.fixture(autouse=True)
def templates_are_learned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening_cache, "LEARNED_AT", 1)


class WatchedOpenings(OpeningCache):
    """Remembers which windows were left to the rules and to the judgement cache."""

    left: Sequence[Window] = ()

    def judge(self, *given: Any) -> list[Window]:
        left = self.left = super().judge(*given)
        return left


class Pair:
    """A step with a cache of openings, and one that asks the rules each time."""

    def __init__(self, terms: Terms | None = None, *, archives: bool = False) -> None:
        self.judge = CountingJudge(NAMES, terms)
        self.openings = WatchedOpenings(self.judge)
        self._cached = BucketStep(self.judge, NAMES, counts_usage=archives)
        self._cached.openings = self.openings
        self._uncached = BucketStep(UncachedJudge(NAMES, terms), NAMES, counts_usage=archives)

    def compare(self, batches: Iterable[Sequence[Window]]) -> None:
        """Step batches with and without the cache, and compare reports and stored states."""
        with_cache, without_cache = BucketStore(Bucket()), BucketStore(Bucket())
        for batch in batches:
            buckets = with_cache.load(), without_cache.load()
            is_first = not buckets[0].connections
            reports = (
                self._cached.process(0, buckets[0], travelled(batch)),
                self._uncached.process(0, buckets[1], travelled(batch)),
            )
            assert comparable(reports[0]) == comparable(reports[1])
            if is_first and not self.openings.left:
                assert pack_bucket(buckets[0]) == pack_bucket(buckets[1])
            with_cache.save(buckets[0])
            without_cache.save(buckets[1])
            assert with_cache.load() == without_cache.load()


def in_turns(pair: Pair, batches: Sequence[Sequence[Window]]) -> None:
    """Compare batches, and then the same in disguise: with the templates that the first turn taught."""
    for turn in range(TURNS):
        pair.compare([disguised(batch, turn) for batch in batches])


def exchange_of(activities: Sequence[str], names: Names, opening: int, is_closed: bool = False) -> Exchange:
    exchange = Renamed(names, mid_stream=False)
    exchange.negotiate(**OPENINGS[opening])
    for activity in activities:
        (ACTIVITIES | STEPS)[activity](exchange)
    if is_closed:
        exchange.close()
    return exchange


def batches_of(exchanges: Sequence[Exchange], size: int, at_once: int) -> list[list[Window]]:
    """Windows of `size` records of each connection, `at_once` of each in a batch."""
    longest = max(len(exchange.records) for exchange in exchanges)
    slices = (
        [
            window
            for name, exchange in zip(b"abcdef", exchanges, strict=False)
            for window in on(bytes([name]), windows(exchange, begin, begin + size))
        ]
        for begin in range(0, longest, size)
    )
    return [[*itertools.chain(*parts)] for parts in together(slices, at_once)]


SHORT = st.lists(st.sampled_from([*ACTIVITIES, *STEPS]), max_size=8)


@pytest.mark.slow
@examples(150)
@given(
    st.lists(st.tuples(SHORT | HEARTBEATS, NAMES_OF_ONE, OPENING, st.booleans()), min_size=1, max_size=4),
    st.integers(1, 30),
    st.integers(1, 8),
    st.booleans(),
)
def test_openings_are_judged_by_the_cache_as_by_the_rules(
    scripts: list[tuple[list[str], Names, int, bool]], size: int, at_once: int, archives: bool
) -> None:
    in_turns(Pair(archives=archives), batches_of([exchange_of(*script) for script in scripts], size, at_once))


@pytest.mark.slow
@examples(150)
@given(SHORT, st.lists(NAMES_OF_ONE, min_size=4, max_size=4), OPENING, st.booleans(), st.data())
def test_openings_of_the_same_statements_are_not_confused(
    activities: list[str], names: list[Names], opening: int, is_closed: bool, data: st.DataObject
) -> None:
    """All connections do the same, with IDs that are equal in other places, and at other moments.

    Batches cut through all of them at the same places.
    """
    exchanges = [exchange_of(activities, each, opening, is_closed) for each in names]
    for exchange in exchanges:
        moments = st.lists(st.integers(0, 2), min_size=len(exchange.records), max_size=len(exchange.records))
        retimed(exchange, data.draw(moments))
    size = data.draw(st.integers(1, len(exchanges[0].records)))
    in_turns(Pair(archives=data.draw(st.booleans())), batches_of(exchanges, size, 1))


def retimed(exchange: Exchange, gaps: list[int]) -> None:
    """Let the records follow each other after these times, in milliseconds."""
    at = exchange.records[0].captured_at
    for place, (record, gap) in enumerate(zip(exchange.records, gaps, strict=True)):
        at += gap * 1_000_000
        fields = {name: getattr(record, name) for name in type(record).__slots__}
        exchange.records[place] = type(record)(**fields | {"captured_at": at})


class Pairs:
    """A pair for each reading."""

    def __init__(self, *, archives: bool = False) -> None:
        self._archives = archives
        self._pairs: dict[tuple[str, ...], Pair] = {}

    def of(self, rules: Sequence[Rule]) -> Pair:
        reading = tuple(rule.spec for rule in rules)
        if reading not in self._pairs:
            self._pairs[reading] = Pair(Terms(rules), archives=self._archives)
        return self._pairs[reading]


def compare_exchange(pair: Pair, exchange: Exchange, size: int) -> None:
    placed = [(record, Evidence.in_file("exchange", record)) for record in exchange.records]
    parts = (placed[begin : begin + size] for begin in range(0, len(placed), size))
    in_turns(pair, [windows_of(default_schemas(), part) for part in parts])


@pytest.mark.parametrize(
    ("step", "size", "archives"),
    [
        (SAMPLED, 10_000, True),
        pytest.param(1, 10_000, False, marks=pytest.mark.slow),
        pytest.param(1, 10_000, True, marks=pytest.mark.slow),
        pytest.param(1, 4, False, marks=pytest.mark.slow),
    ],
)
def test_cases_are_judged_by_the_cache_as_by_the_rules(step: int, size: int, archives: bool) -> None:
    pairs = Pairs(archives=archives)
    for case in CASES[::step]:
        exchange, rules = case.played()
        compare_exchange(pairs.of(rules), exchange, size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(1_800)]), SAMPLED]
)
def test_mutants_are_judged_by_the_cache_as_by_the_rules(step: int) -> None:
    pairs = Pairs()
    mutants = (mutant for rule in MUTATORS for mutant in mutants_of(rule))
    for mutant in itertools.islice(mutants, 0, None, step):
        exchange, rules = mutant.performed()
        compare_exchange(pairs.of(rules), exchange, 10_000)


@pytest.mark.parametrize(("size", "archives"), [(10_000, False), (200, False), (200, True)])
@pytest.mark.parametrize("capture", [planted.CAPTURE, real_clients.CAPTURE], ids=["planted", "real"])
def test_captures_are_judged_by_the_cache_as_by_the_rules(capture: Path, size: int, archives: bool) -> None:
    schemas, pair = default_schemas(), Pair(archives=archives)
    with open_capture(capture) as packets:
        records, _ = records_of(schemas, packets, (), 1)
        placed = [(record, Evidence.in_file(capture.name, record)) for record in records]
    parts = (placed[begin : begin + size] for begin in range(0, len(placed), size))
    in_turns(pair, [windows_of(schemas, part) for part in parts])
    assert pair.openings.hits > 0


def joining(client_id: str = "app", member_id: str = UUIDS[0], group_id: str = "g") -> Exchange:
    exchange = Exchange()
    exchange.negotiate(client_id=client_id)
    for epoch in (0, 1):
        body = {"groupId": group_id, "memberId": member_id, "memberEpoch": epoch}
        request = exchange.request("ConsumerGroupHeartbeat", 1, body, client_id=client_id)
        exchange.respond(request, {"memberId": member_id, "memberEpoch": 1, "heartbeatIntervalMs": 5_000})
    return exchange


def compared(*exchanges: Exchange, terms: Terms | None = None, archives: bool = False) -> Pair:
    """Compare one batch for each exchange, on a connection of its own, with one cache for all."""
    pair = Pair(terms, archives=archives)
    for name, exchange in zip(b"abcdef", exchanges, strict=False):
        found = on(bytes([name]), windows(exchange), client=exchange.client, server=exchange.server)
        pair.compare([found])
    return pair


def test_an_opening_of_a_known_form_is_not_judged_again() -> None:
    pair = compared(joining())
    pair.judge.judged = 0
    pair.compare([on(b"z", windows(joining("other", UUIDS[1])), client="10.0.0.9:50000", run=7)])
    assert (pair.judge.judged, pair.openings.hits) == (0, 2)


@pytest.mark.parametrize("archives", [False, True])
def test_an_opening_that_goes_on_with_repetitions_is_not_judged_again(archives: bool) -> None:
    """The window of most openings in a batch holds what the connection says next."""

    def working(client_id: str, member_id: str) -> Exchange:
        exchange = joining(client_id, member_id)
        for _ in range(3):
            exchange.respond(exchange.request("Fetch", 12, client_id=client_id), {})
        return exchange

    pair = compared(working("app", UUIDS[0]), archives=archives)
    pair.compare([on(b"z", windows(working("other", UUIDS[1])), client="10.0.0.9:50000", run=7)])
    assert pair.openings.hits == 2


@pytest.mark.parametrize("archives", [False, True])
@pytest.mark.parametrize("is_closed", [False, True])
def test_an_opening_that_a_batch_cuts_anywhere_is_not_judged_again(is_closed: bool, archives: bool) -> None:
    def opened(client_id: str, member_id: str) -> Exchange:
        exchange = joining(client_id, member_id)
        if is_closed:
            exchange.close()
        return exchange

    known, other = opened("app", UUIDS[0]), opened("other", UUIDS[1])
    for cut in range(1, len(joining().records)):
        pair = Pair(archives=archives)
        for name, exchange, how in (b"a", known, {}), (b"b", other, {"client": "10.0.0.9:50000", "run": 7}):
            pair.judge.judged = 0
            pair.compare([on(name, windows(exchange, *part), **how) for part in ((0, cut), (cut, None))])
        assert (cut, pair.judge.judged, pair.openings.hits) == (cut, 0, 4)


def test_what_was_said_after_the_cut_of_an_opening_leaves_it_to_the_rules() -> None:
    """A repetition moves the connection's progress, which no template has."""

    def going_on(client_id: str, member_id: str) -> Exchange:
        exchange = joining(client_id, member_id)
        for api in ("Fetch", "Fetch", "Metadata"):
            exchange.respond(exchange.request(api, 12, client_id=client_id), {})
        return exchange

    pair = Pair()
    for name, exchange in (b"a", going_on("app", UUIDS[0])), (b"b", going_on("other", UUIDS[1])):
        parts = ((0, 9), (9, 11), (11, None))
        pair.compare([on(name, windows(exchange, *part)) for part in parts])
    assert pair.openings.hits == 2


def test_a_form_of_which_many_are_stored_alike_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many forms are tried on a connection that goes on; the others are judged by the rules."""
    monkeypatch.setattr(opening_cache, "FORMS_OF_KIND", 1)
    pair = Pair()
    for number, group in enumerate(["g", "h", "g", "h"]):
        exchange = joining(group_id=group)
        found = [on(bytes([number]), windows(exchange, *part)) for part in ((0, 3), (3, None))]
        pair.compare(found)
    assert pair.openings.hits == 8


def test_what_was_opened_by_a_template_goes_on_by_cached_transitions() -> None:
    def fetching() -> Exchange:
        exchange = joining()
        for _ in range(6):
            exchange.respond(exchange.request("Fetch", 12, client_id="app"), {})
        return exchange

    pair = compared(fetching())
    pair.judge.judged = 0
    pair.compare([on(name, windows(fetching())) for name in (b"b", b"c")])
    assert pair.judge.judged == 0


def test_a_form_is_learned_when_it_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening_cache, "LEARNED_AT", 3)
    assert compared(joining(), joining()).openings.hits == 0
    assert compared(joining(), joining(), joining(), joining()).openings.hits == 2


def test_a_cache_that_is_full_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening_cache, "TEMPLATES", 1)
    monkeypatch.setattr(opening_cache, "LEARNED_AT", 2)
    exchanges = [joining(group_id=group) for group in "gghhiigg"]
    pair = Pair()
    for number, exchange in enumerate(exchanges):
        pair.compare([on(bytes([number]), windows(exchange))])
    assert (pair.openings.clears, pair.openings.hits) == (1, 4)


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
    body = {"groupId": "g", "memberId": UUIDS[1], "memberEpoch": 0}
    exchange.respond(
        exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app"),
        {"memberId": UUIDS[1], "memberEpoch": 1, "heartbeatIntervalMs": 5_000},
    )
    return exchange


def joined_midway() -> Exchange:
    exchange = Exchange(mid_stream=True)
    exchange.negotiate(client_id="app")
    return exchange


UNUSUAL: dict[str, tuple[Callable[[], Exchange], int]] = {
    "a finding": (offending, 0),
    "a heartbeat in flight": (without_answer, 2),
    "a gap": (with_gap, 0),
    "a member ID in the client ID": (lambda: joining(f"app {UUIDS[0]}"), 0),
    "a member ID as group": (lambda: joining(group_id=UUIDS[0]), 0),
    "a member ID in hex": (lambda: joining(member_id=ID_A.hex()), 0),
    "a member ID that is no UUID": (lambda: joining(member_id="A"), 0),
    "a reserved member ID": (lambda: joining(member_id=identifier_text(bytes(16))), 0),
    "another client ID": (twice_as_other_client, 2),
    "two members": (of_two_members, 0),
    "midway": (joined_midway, 2),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_judged_as_by_the_rules(name: str) -> None:
    """Beside usual openings, whose templates must not be used for it."""
    make, hits = UNUSUAL[name]
    pair = compared(joining(), make(), joining(), make())
    assert pair.openings.hits == 2 + hits


def test_what_is_archived_of_an_opening_is_told_with_the_name_of_its_listener() -> None:
    terms = Terms(listeners={"10.0.0.2:9092": "inside"})
    exchanges = [joining(), joining("other", UUIDS[1]), joining()]
    exchanges[2].server = "10.0.0.3:9092"
    assert compared(*exchanges, terms=terms, archives=True).openings.hits == 3


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


def test_servers_that_users_configure_have_templates_of_their_own() -> None:
    described = {"10.0.0.2:9092": ClusterDescription("one", 1), "10.0.0.3:9092": ClusterDescription("two", 2)}

    def reaching(server: str) -> Exchange:
        exchange = Exchange(server=server)
        body = SOFTWARE | {"clusterId": "one", "nodeId": 1}
        exchange.respond(exchange.request("ApiVersions", 5, body, client_id="app"), advertisement())
        return exchange

    servers = ["10.0.0.2:9092", "10.0.0.3:9092", "10.0.0.4:9092"] * 2
    compared(*map(reaching, servers), terms=Terms(brokers=described))


def test_a_judge_that_records_sees_every_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountingJudge, "sees_all", True)
    pair = Pair()
    pair.compare([on(b"a", windows(joining()))])
    assert pair.openings.hits == 0
