"""The judgement cache returns what the rules return, and is used wherever it may be."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Record
from decoders.schema.registry import default_schemas
from expectations.conversation.identifier import RESERVED, ZERO, identifier_text
from expectations.conversation.members import member_name
from expectations.conversation.window import Window
from expectations.judging.judge import Judge
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Rule
from streaming.judging import judgement_cache
from streaming.judging.bucket_step import BucketStep
from streaming.judging.report import Report
from streaming.state.bucket import Bucket
from tests.cases.test_cases import CASES
from tests.examples import examples
from tests.exchange import ID_A, ID_B, Exchange
from tests.expectations.conversation.test_fold import BEATS, STEPS, beat, beats
from tests.mutations.mutator import MUTATORS
from tests.mutations.test_mutations import mutants_of
from tests.streaming.judging.stepping import CountingJudge, UncachedJudge, stepped
from tests.streaming.judging.test_bucket_step import on, windows
from tests.streaming.judging.travelling import travelled, travelled_columns
from tests.streaming.state.bucket_store import BucketStore

NAMES = default_schemas().api_names
SAMPLED = 23
"""Mutants of which one is judged in every run; `make long` judges all."""
IDS = (b"a", b"b", b"c")


# In Kafka's form, and in every other form that rules distinguish.
ORDINARY = ("8zQ4pXkCTt2cYd0sVhGm1A", "u1nGfQ5lT8-7bDk_QzWq3w", "aaaaaaaaaaaaaaaaaaaaaa")
MEMBERS = st.one_of(
    st.permutations(ORDINARY),
    st.permutations([identifier_text(ID_A), *ORDINARY[:2]]),
    st.permutations(["A", "B", ZERO, identifier_text(ID_A), ID_B.hex(), ORDINARY[0], ORDINARY[0] + "=="]),
)


CLIENTS = st.permutations(["app", "another app", ""])
INSTANCES = st.permutations([ID_A, ID_B, bytes(range(32, 48)), RESERVED[1]])


class Names(NamedTuple):
    """The IDs of two members, of two clients and of two client instances."""

    members: Sequence[str] = ORDINARY
    clients: Sequence[str] = ("app", "other app")
    instances: Sequence[bytes] = (ID_A, ID_B)


OPENINGS: list[dict[str, Any]] = [
    {"client_id": "app"},
    {},
    {"client_id": "other"},
    {"version": 6, "client_id": "app", "instance_id": ID_A},
    {"version": 6, "instance_id": ID_B},
]
OPENING = st.sampled_from([0, 0, 0, *range(len(OPENINGS))])
NAMES_OF_ONE = st.builds(Names, MEMBERS, CLIENTS, INSTANCES)


class Renamed(Exchange):
    """An exchange with IDs of its own, for members A and B, clients app and other, and both instances."""

    def __init__(self, names: Names, mid_stream: bool) -> None:
        super().__init__(mid_stream=mid_stream)
        self._texts = dict(zip(["A", "B"], names.members, strict=False))
        self._clients = dict(zip(["app", "other"], names.clients, strict=False))
        self._instances = dict(zip([ID_A, ID_B], names.instances, strict=False))
        self._texts |= {identifier_text(old): identifier_text(new) for old, new in self._instances.items()}

    def request(self, api: str, version: int, body: dict[str, Any] | None = None, **how: Any) -> Record:
        how["client_id"] = self._clients.get(how.get("client_id", ""), how.get("client_id"))
        how["instance_id"] = self._instances.get(how.get("instance_id", b""), how.get("instance_id"))
        return super().request(api, version, self._renamed(body), **how)

    def respond(self, request: Record, body: dict[str, Any] | None = None, **how: Any) -> Record:
        return super().respond(request, self._renamed(body), **how)

    def _renamed(self, body: dict[str, Any] | None) -> dict[str, Any] | None:
        fields = body or {}
        named = {name: fields[name] for name in ("memberId", "clientInstanceId") if fields.get(name)}
        return body and body | {name: self._texts.get(text, text) for name, text in named.items()}


def fetch(exchange: Exchange, **how: Any) -> None:
    exchange.respond(exchange.request("Fetch", 12, client_id="app", **how), {})


def look_up(exchange: Exchange, **how: Any) -> None:
    exchange.respond(exchange.request("FindCoordinator", 7, **how), {})


def commit(exchange: Exchange) -> None:
    exchange.respond(exchange.request("OffsetCommit", 8, client_id="app"), {})


def long_poll(exchange: Exchange) -> None:
    """The response to an earlier fetch, and the next fetch."""
    paired = {seen.paired_sequence for seen in exchange.records}
    waiting = [seen for seen in exchange.records if seen.frame[:2] == (1).to_bytes(2)]
    for request in waiting:
        if request.sequence not in paired:
            exchange.respond(request, {})
            break
    exchange.request("Fetch", 12, client_id="app", settled=True)


def write_unacknowledged(exchange: Exchange) -> None:
    exchange.request("Produce", 9, {"acks": 0}, client_id="app")


def learn_id(exchange: Exchange) -> None:
    request = exchange.request("GetTelemetrySubscriptions", 0, client_id="app", instance_id=ID_A)
    exchange.respond(request, {"clientInstanceId": identifier_text(ID_B)})
    push = {"clientInstanceId": identifier_text(ID_B)}
    exchange.respond(exchange.request("PushTelemetry", 0, push, client_id="app"), {})


ACTIVITIES: dict[str, Callable[[Exchange], object]] = {
    "fetch": fetch,
    "fetch, settled": lambda exchange: fetch(exchange, settled=True),
    "fetch, informed": lambda exchange: fetch(exchange, informed=True),
    "not listed": lambda exchange: exchange.respond(exchange.request("Heartbeat", 4, informed=True), {}),
    "look up": lambda exchange: look_up(exchange, instance_id=ID_A),
    "look up with other ID": lambda exchange: look_up(exchange, instance_id=ID_B),
    "look up with both": lambda exchange: look_up(exchange, instance_id=ID_A, client_id="app"),
    "fetch as other": lambda exchange: exchange.respond(exchange.request("Fetch", 12, client_id="other"), {}),
    "learn ID": learn_id,
    "commit": commit,
    "long poll": long_poll,
    "unacknowledged": write_unacknowledged,
}


def of_another_group(exchange: Exchange) -> None:
    for _ in range(2):
        body = {"groupId": "h", "memberId": "A", "memberEpoch": 1}
        request = exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app")
        exchange.respond(request, {"memberId": "A", "heartbeatIntervalMs": 5000})


def beats_with_id(exchange: Exchange, member_id: str) -> None:
    for _ in range(2):
        body = {"groupId": "g", "memberId": member_id, "memberEpoch": 1}
        request = exchange.request("ConsumerGroupHeartbeat", 2, body, instance_id=ID_A)
        exchange.respond(request, {"memberId": member_id, "heartbeatIntervalMs": 5000})


def out_of_turn(exchange: Exchange, *order: int) -> None:
    """Two heartbeats and then both responses, which have different intervals."""
    requests = beat(exchange, "A", 1), beat(exchange, "A", 1)
    for number, interval in zip(order, (5000, 3000), strict=True):
        exchange.respond(requests[number], {"memberId": "A", "heartbeatIntervalMs": interval})


def in_turn(exchange: Exchange, *steps: Callable[[Exchange], object]) -> None:
    for step in steps:
        step(exchange)


FOUR_FRAMES: dict[str, Callable[[Exchange], object]] = {
    "A twice": STEPS["A twice"],
    "A joins twice": STEPS["A joins twice"],
    "A refused": STEPS["A refused"],
    "A renamed B twice": lambda exchange: beats(exchange, 2, "A", memberId="B"),
    "A unnamed twice": lambda exchange: beats(exchange, 2, "A", memberId=None),
    "B twice": lambda exchange: beats(exchange, 2, "B", memberId="B"),
    "of another group": of_another_group,
    "together": lambda exchange: out_of_turn(exchange, 0, 1),
    "crosswise": lambda exchange: out_of_turn(exchange, 1, 0),
    "with ID twice": lambda exchange: (ACTIVITIES["look up"](exchange), ACTIVITIES["look up"](exchange)),
    "with other ID": lambda exchange: in_turn(exchange, fetch, ACTIVITIES["look up with other ID"]),
    "as other": lambda exchange: in_turn(exchange, fetch, ACTIVITIES["fetch as other"]),
    "learn ID": learn_id,
    "A with ID twice": lambda exchange: beats_with_id(exchange, "A"),
    "ID with ID twice": lambda exchange: beats_with_id(exchange, identifier_text(ID_A)),
}
"""Activities of four frames each."""
FOUR_FRAME_STEPS = st.lists(st.tuples(st.sampled_from([*FOUR_FRAMES]), st.integers(1, 3)), max_size=4).map(
    lambda runs: [activity for activity, times in runs for _ in range(times)]
)
STEADY = st.lists(st.sampled_from([*ACTIVITIES, "A twice", "A twice", "response", "wait"]), max_size=40)
ANYTHING = st.lists(st.sampled_from([*ACTIVITIES, *STEPS]), max_size=40)
HEARTBEATS = st.lists(st.sampled_from(["A twice", "response", *BEATS]), max_size=20)


def exchange_of(
    activities: list[str], mid_stream: bool, names: Names | None = None, opening: int = 0
) -> Exchange:
    exchange = Renamed(names or Names(), mid_stream)
    if not mid_stream:
        exchange.negotiate(**OPENINGS[opening])
    for activity in activities:
        (ACTIVITIES | STEPS | FOUR_FRAMES)[activity](exchange)
    return exchange


def numbered(exchange: Exchange, place: int, count: int) -> Exchange:
    """Number the records as a run does in which `count` connections send in turns."""
    for at, record in enumerate(exchange.records):
        fields = {name: getattr(record, name) for name in Record.__slots__}
        for name in ("sequence", "paired_sequence"):
            fields[name] = fields[name] and fields[name] * count + place
        exchange.records[at] = Record(**fields)
    return exchange


def batches(exchanges: list[Exchange], size: int) -> Iterator[list[Window]]:
    exchanges = [numbered(each, place, len(exchanges)) for place, each in enumerate(exchanges)]
    longest = max(len(exchange.records) for exchange in exchanges)
    for begin in range(0, longest, size):
        parts = zip(IDS, exchanges, strict=False)
        yield [one for name, exchange in parts for one in on(name, windows(exchange, begin, begin + size))]


def together(windows_of_batches: Iterator[list[Window]], count: int) -> Iterator[list[list[Window]]]:
    while parts := list(itertools.islice(windows_of_batches, count)):
        yield parts


def comparable(report: Report) -> object:
    """Return the contents of a report without their order."""
    raw = msgspec.to_builtins(report, str_keys=True, order="deterministic")
    raw["findings"] = sorted(raw["findings"], key=lambda finding: finding["id"])
    *changes, further = raw["changes"]
    raw["changes"] = [*(sorted(map(str, kind)) for kind in changes), further]
    return raw | {
        name: sorted(map(str, raw[name])) for name in ("offences", "claims", "usage", "requests", "brokers")
    }


@pytest.mark.slow
@examples(400)
@given(
    st.lists(st.tuples(STEADY | HEARTBEATS | ANYTHING, NAMES_OF_ONE), min_size=1, max_size=3),
    st.integers(1, 12),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
def test_steps_with_and_without_the_cache_return_the_same(
    scripts: list[tuple[list[str], Names]], size: int, at_once: int, mid_stream: bool, as_columns: bool
) -> None:
    """A step may process several windows of a connection: one from each Arrow batch."""
    exchanges = [exchange_of(activities, mid_stream, names) for activities, names in scripts]
    compare([*together(batches(exchanges, size), at_once)], as_columns)


@pytest.mark.slow
@examples(400)
@given(st.lists(st.tuples(FOUR_FRAME_STEPS, NAMES_OF_ONE), min_size=3, max_size=3), st.booleans())
def test_connections_are_not_confused(scripts: list[tuple[list[str], Names]], as_columns: bool) -> None:
    """A window is one activity here, so many windows differ only in connection and earlier traffic."""
    exchanges = [exchange_of(activities, False, names) for activities, names in scripts]
    compare([*together(batches([opened(exchange) for exchange in exchanges], 4), 1)], as_columns)


@pytest.mark.slow
@examples(400)
@given(
    FOUR_FRAME_STEPS,
    st.lists(st.tuples(NAMES_OF_ONE, OPENING, st.integers(0, 12), FOUR_FRAME_STEPS), min_size=3, max_size=3),
    st.booleans(),
)
def test_connections_with_different_beginnings_are_not_confused(
    activities: list[str], scripts: list[tuple[Names, int, int, list[str]]], as_columns: bool
) -> None:
    """All connections perform the same activities up to some point, but begin differently."""
    exchanges = [
        exchange_of(activities[:end] + others, False, names, opening)
        for names, opening, end, others in scripts
    ]
    compare([*together(batches([opened(exchange) for exchange in exchanges], 4), 1)], as_columns)


def opened(exchange: Exchange) -> Exchange:
    """Let the traffic after the negotiation begin in a new window."""
    exchange.records.insert(3, exchange.records[2])
    return exchange


def compare(batches_of_windows: list[list[list[Window]]], as_columns: bool) -> None:
    """Step batches twice with one cache, and compare with steps without a cache."""
    cached = BucketStep(Judge(NAMES), NAMES, counts_usage=True)
    for turn in range(2):
        with_cache, without_cache = BucketStore(Bucket()), BucketStore(Bucket())
        for parts in batches_of_windows:
            batch = [*itertools.chain(*parts)]
            buckets = with_cache.load(), without_cache.load()
            uncached = BucketStep(UncachedJudge(NAMES), NAMES, counts_usage=True)
            if as_columns:
                report = cached.process_columns(turn, buckets[0], [*map(travelled_columns, parts)])
            else:
                report = cached.process(turn, buckets[0], travelled(batch))
            assert comparable(report) == comparable(uncached.process(turn, buckets[1], batch))
            with_cache.save(buckets[0])
            without_cache.save(buckets[1])
            assert with_cache.load() == without_cache.load()


@given(ANYTHING, st.integers(1, 12))
def test_packing_windows_loses_nothing(activities: list[str], size: int) -> None:
    for batch in batches([exchange_of(activities, mid_stream=False)] * 2, size):
        assert [(window.connection, window.observations) for window in travelled(batch)] == [
            (window.connection, window.observations) for window in batch
        ]


def judged_per_batch(
    activities: list[str], members: Sequence[str] = ORDINARY
) -> tuple[list[int], Bucket, Report]:
    """Process batches of two activities on two connections, one connection after the other.

    Returns how many observations the rules judged in each batch of the second connection, the bucket, and the
    report of the last batch.
    """
    judge, judged = CountingJudge(NAMES), list[int]()
    step, bucket, report, store = BucketStep(judge, NAMES), Bucket(), Report(0), BucketStore()
    begin = len(exchange_of([], mid_stream=False).records)
    for name, member_id in zip(b"ab", members, strict=False):
        names = Names((member_id, "B"), [f"app {name}"], [bytes([name]) * 16])
        exchange = numbered(exchange_of(activities, False, names), name, 200)
        step.process(0, bucket, travelled(on(bytes([name]), windows(exchange, 0, begin))))
        judged.clear()
        for at in range(begin, len(exchange.records), 4):
            store.save(bucket)
            bucket = store.load()
            judge.judged = 0
            report = step.process(0, bucket, travelled(on(bytes([name]), windows(exchange, at, at + 4))))
            judged.append(judge.judged)
    return judged, bucket, report


def test_equal_statements_of_another_connection_are_not_judged_again() -> None:
    judged, bucket, report = judged_per_batch(["fetch", "fetch"] * 3)
    assert judged[1:] == [0, 0]
    assert report.frames == {"Fetch": {"request": 2, "response": 2}}
    assert report.checks["wire/malformed-request"] == {"conforms": 2}
    assert [state.conversation.progress.sequence for state in bucket.connections.values()] == [3097, 3098]


def test_equal_statements_with_another_client_instance_id_are_not_judged_again() -> None:
    judged, bucket, report = judged_per_batch(["look up", "look up"] * 3)
    assert judged[1:] == [0, 0]
    assert report.checks["kip1313/instance-id-changed"] == {"conforms": 2}
    instance_ids = [state.conversation.instance_id for state in bucket.connections.values()]
    assert instance_ids == [b"a" * 16, b"b" * 16]


@pytest.mark.parametrize("foreign", ["look up with other ID", "fetch as other"])
def test_an_id_other_than_the_connections_own_is_judged_at_first(foreign: str) -> None:
    judged, _, _ = judged_per_batch(["fetch", "look up", "fetch", foreign])
    assert judged[-1] > 0


def test_equal_heartbeats_of_another_member_are_not_judged_again() -> None:
    judged, bucket, report = judged_per_batch(["fetch", "response"] * 4)
    assert judged[1:] == [0, 0, 0]
    assert report.frames.keys() == {"Fetch", "ConsumerGroupHeartbeat"}
    assert report.checks["kip1082/member-id-empty"] == {"conforms": 1}
    assert report.checks["kip1082/member-id-changed"] == {"conforms": 1}
    for state, member_id in zip(bucket.connections.values(), ORDINARY, strict=False):
        ((name, member),) = state.conversation.progress.members.items()
        assert (name, member.heartbeat) == (
            member_name("g", member_id),
            18 * 200 + state.conversation.connection[0],
        )
        assert member.until > member.before_until


@pytest.mark.parametrize("members", [("A", "B"), (ORDINARY[0], ZERO), (ORDINARY[0], ID_A.hex())])
def test_members_with_ids_of_another_form_are_judged(members: tuple[str, str]) -> None:
    judged, _, _ = judged_per_batch(["fetch", "response"] * 4, members)
    assert judged == [4, 4, 4, 4]


@pytest.mark.parametrize(
    "activity", ["out of range", "negotiate", "gap", "unreadable beat", "beat B", "leave"]
)
def test_new_statements_are_judged(activity: str) -> None:
    judged, _, _ = judged_per_batch(["fetch", "fetch", "fetch", "fetch", activity])
    assert judged[-1] > 0


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgement_cache, "CAPACITY", 1)
    _, _, report = judged_per_batch(["fetch", "commit", "commit", "fetch", "commit", "commit"])
    assert report.frames == {"OffsetCommit": {"request": 2, "response": 2}}


@pytest.mark.parametrize("as_columns", [False, True])
@pytest.mark.parametrize(
    "size", [4, pytest.param(1, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.slow)]
)
def test_every_case_is_judged_by_the_cache_as_by_the_rules(size: int, as_columns: bool) -> None:
    """All cases of a reading share one cache, so that a case meets the transitions of others."""
    steps = Steps()
    for case in CASES:
        exchange, rules = case.played()
        compare_steps(case.title, exchange, steps.of(rules), size, as_columns)


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(1_800)]), SAMPLED]
)
def test_mutants_are_judged_by_the_cache_as_by_the_rules(step: int) -> None:
    """Every `step`th of all mutants, with one cache for all of them."""
    steps = Steps()
    mutants = (mutant for rule in MUTATORS for mutant in mutants_of(rule))
    for mutant in itertools.islice(mutants, 0, None, step):
        exchange, rules = mutant.performed()
        compare_steps(mutant.name, exchange, steps.of(rules), 4, as_columns=True)


class Steps:
    """For each reading a step with a cache, and one without."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, ...], tuple[BucketStep, BucketStep]] = {}

    def of(self, rules: Sequence[Rule]) -> tuple[BucketStep, BucketStep]:
        reading = tuple(rule.spec for rule in rules)
        if reading not in self._steps:
            terms = Terms(rules)
            cached, uncached = Judge(NAMES, terms), UncachedJudge(NAMES, terms)
            self._steps[reading] = BucketStep(cached, NAMES), BucketStep(uncached, NAMES)
        return self._steps[reading]


def compare_steps(
    name: str, exchange: Exchange, pair: tuple[BucketStep, BucketStep], size: int, as_columns: bool
) -> None:
    cached, uncached = pair
    reports = [*map(comparable, stepped(cached, exchange, size, as_columns=as_columns))]
    assert reports == [*map(comparable, stepped(uncached, exchange, size))], name
