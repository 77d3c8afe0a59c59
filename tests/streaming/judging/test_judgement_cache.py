"""The judgement cache gives what the rules give, and is used where it can be."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
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
from tests.exchange import ID_A, ID_B, Exchange
from tests.expectations.conversation.test_fold import BEATS, STEPS, beat, beats
from tests.mutations.mutator import MUTATORS
from tests.mutations.test_mutations import mutants_of
from tests.streaming.judging.stepping import CountingJudge, UncachedJudge, stepped
from tests.streaming.judging.test_bucket_step import on, windows
from tests.streaming.judging.travelling import travelled
from tests.streaming.query.shelf import Shelf

NAMES = default_schemas().api_names
SAMPLED = 23
"""Mutants of which one is judged in every run; `make long` judges all."""
IDS = (b"a", b"b", b"c")


# As Kafka makes them, and with all that rules on their form tell apart.
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
ANYBODY = st.builds(Names, MEMBERS, CLIENTS, INSTANCES)


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

    def answer(self, request: Record, body: dict[str, Any] | None = None, **how: Any) -> Record:
        return super().respond(request, self._renamed(body), **how)

    def _renamed(self, body: dict[str, Any] | None) -> dict[str, Any] | None:
        said = body or {}
        named = {name: said[name] for name in ("memberId", "clientInstanceId") if said.get(name)}
        return body and body | {name: self._texts.get(text, text) for name, text in named.items()}


def fetch(exchange: Exchange, **how: Any) -> None:
    exchange.respond(exchange.request("Fetch", 12, client_id="app", **how), {})


def look_up(exchange: Exchange, **how: Any) -> None:
    exchange.respond(exchange.request("FindCoordinator", 7, **how), {})


def commit(exchange: Exchange) -> None:
    exchange.respond(exchange.request("OffsetCommit", 8, client_id="app"), {})


def long_poll(exchange: Exchange) -> None:
    """The answer to an earlier fetch, and the next one."""
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
    asked = exchange.request("GetTelemetrySubscriptions", 0, client_id="app", instance_id=ID_A)
    exchange.respond(asked, {"clientInstanceId": identifier_text(ID_B)})
    push = {"clientInstanceId": identifier_text(ID_B)}
    exchange.respond(exchange.request("PushTelemetry", 0, push, client_id="app"), {})


DEEDS: dict[str, Callable[[Exchange], object]] = {
    "fetch": fetch,
    "fetch, settled": lambda exchange: fetch(exchange, settled=True),
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
    """Two heartbeats and then both answers, the first of which tells another interval."""
    requests = beat(exchange, "A", 1), beat(exchange, "A", 1)
    for number, interval in zip(order, (5000, 3000), strict=True):
        exchange.respond(requests[number], {"memberId": "A", "heartbeatIntervalMs": interval})


def in_turn(exchange: Exchange, *steps: Callable[[Exchange], object]) -> None:
    for step in steps:
        step(exchange)


PULSES: dict[str, Callable[[Exchange], object]] = {
    "A twice": STEPS["A twice"],
    "A joins twice": STEPS["A joins twice"],
    "A refused": STEPS["A refused"],
    "A renamed B twice": lambda exchange: beats(exchange, 2, "A", memberId="B"),
    "A unnamed twice": lambda exchange: beats(exchange, 2, "A", memberId=None),
    "B twice": lambda exchange: beats(exchange, 2, "B", memberId="B"),
    "of another group": of_another_group,
    "together": lambda exchange: out_of_turn(exchange, 0, 1),
    "crosswise": lambda exchange: out_of_turn(exchange, 1, 0),
    "with ID twice": lambda exchange: (DEEDS["look up"](exchange), DEEDS["look up"](exchange)),
    "with other ID": lambda exchange: in_turn(exchange, fetch, DEEDS["look up with other ID"]),
    "as other": lambda exchange: in_turn(exchange, fetch, DEEDS["fetch as other"]),
    "learn ID": learn_id,
    "A with ID twice": lambda exchange: beats_with_id(exchange, "A"),
    "ID with ID twice": lambda exchange: beats_with_id(exchange, identifier_text(ID_A)),
}
"""Each takes four frames."""
PULSE = st.lists(st.tuples(st.sampled_from([*PULSES]), st.integers(1, 3)), max_size=4).map(
    lambda runs: [deed for deed, times in runs for _ in range(times)]
)
ROUTINE = st.lists(st.sampled_from([*DEEDS, "A twice", "A twice", "answer", "wait"]), max_size=40)
ANYTHING = st.lists(st.sampled_from([*DEEDS, *STEPS]), max_size=40)
BEATING = st.lists(st.sampled_from(["A twice", "answer", *BEATS]), max_size=20)


def said(deeds: list[str], mid_stream: bool, names: Names | None = None, opening: int = 0) -> Exchange:
    exchange = Renamed(names or Names(), mid_stream)
    if not mid_stream:
        exchange.negotiate(**OPENINGS[opening])
    for deed in deeds:
        (DEEDS | STEPS | PULSES)[deed](exchange)
    return exchange


def batches(exchanges: list[Exchange], size: int) -> Iterator[list[Window]]:
    longest = max(len(exchange.records) for exchange in exchanges)
    for begin in range(0, longest, size):
        parts = zip(IDS, exchanges, strict=False)
        yield [one for name, exchange in parts for one in on(name, windows(exchange, begin, begin + size))]


def together(given: Iterator[list[Window]], count: int) -> Iterator[list[Window]]:
    while parts := list(itertools.islice(given, count)):
        yield list(itertools.chain(*parts))


def told(report: Report) -> object:
    """What a report says, in whatever order."""
    raw = msgspec.to_builtins(report, str_keys=True)
    raw["findings"] = sorted(raw["findings"], key=lambda finding: finding["id"])
    return raw | {name: sorted(map(str, raw[name])) for name in ("offences", "claims")}


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(ROUTINE | BEATING | ANYTHING, ANYBODY), min_size=1, max_size=3),
    st.integers(1, 12),
    st.integers(1, 3),
    st.booleans(),
)
def test_who_remembers_and_who_asks_each_time_say_the_same(
    scripts: list[tuple[list[str], Names]], size: int, at_once: int, mid_stream: bool
) -> None:
    """A step may hear several windows of a connection: one from each batch of Arrow's."""
    exchanges = [said(deeds, mid_stream, names) for deeds, names in scripts]
    compare([*together(batches(exchanges, size), at_once)])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(PULSE, ANYBODY), min_size=3, max_size=3))
def test_nobody_is_taken_for_another_one(scripts: list[tuple[list[str], Names]]) -> None:
    """Here a window is one deed, so that many windows are alike but for who says it, and after what."""
    exchanges = [said(deeds, False, names) for deeds, names in scripts]
    compare([*batches([opened(exchange) for exchange in exchanges], 4)])


@settings(max_examples=400, deadline=None)
@given(PULSE, st.lists(st.tuples(ANYBODY, OPENING, st.integers(0, 12), PULSE), min_size=3, max_size=3))
def test_nobody_is_taken_for_one_that_began_otherwise(
    deeds: list[str], scripts: list[tuple[Names, int, int, list[str]]]
) -> None:
    """All do the same up to some deed, but for how they begin."""
    exchanges = [said(deeds[:end] + others, False, names, opening) for names, opening, end, others in scripts]
    compare([*batches([opened(exchange) for exchange in exchanges], 4)])


def opened(exchange: Exchange) -> Exchange:
    """Let what comes after the negotiation begin with a window of its own."""
    exchange.records.insert(3, exchange.records[2])
    return exchange


def compare(given: list[list[Window]]) -> None:
    """Step batches twice with one cache, and compare with steps that ask the rules about everything."""
    cached = BucketStep(Judge(NAMES), NAMES)
    for turn in range(2):
        remembering, forgetting = Shelf(Bucket()), Shelf(Bucket())
        for batch in given:
            buckets = remembering.take(), forgetting.take()
            uncached = BucketStep(UncachedJudge(NAMES), NAMES)
            reports = (
                cached.process(turn, buckets[0], travelled(batch)),
                uncached.process(turn, buckets[1], batch),
            )
            assert told(reports[0]) == told(reports[1])
            remembering.put(buckets[0])
            forgetting.put(buckets[1])
            assert remembering.take() == forgetting.take()


@given(ANYTHING, st.integers(1, 12))
def test_what_travels_comes_as_it_went(deeds: list[str], size: int) -> None:
    for batch in batches([said(deeds, mid_stream=False)] * 2, size):
        assert [(window.connection, window.observations) for window in travelled(batch)] == [
            (window.connection, window.observations) for window in batch
        ]


def heard(deeds: list[str], members: Sequence[str] = ORDINARY) -> tuple[list[int], Bucket, Report]:
    """Batches of two deeds, on two connections one after the other; gives what the last batch came to.

    First it gives how many observations the judge was asked about in each batch of the second one.
    """
    judge, asked = CountingJudge(NAMES), list[int]()
    step, bucket, report, shelf = BucketStep(judge, NAMES), Bucket(), Report(0), Shelf()
    begin = len(said([], mid_stream=False).records)
    for name, member_id in zip(b"ab", members, strict=False):
        names = Names((member_id, "B"), [f"app {name}"], [bytes([name]) * 16])
        exchange = said(deeds, False, names)
        step.process(0, bucket, travelled(on(bytes([name]), windows(exchange, 0, begin))))
        asked.clear()
        for at in range(begin, len(exchange.records), 4):
            shelf.put(bucket)
            bucket = shelf.take()
            judge.asked = 0
            report = step.process(0, bucket, travelled(on(bytes([name]), windows(exchange, at, at + 4))))
            asked.append(judge.asked)
    return asked, bucket, report


def test_who_says_what_another_one_said_is_not_judged_again() -> None:
    asked, bucket, report = heard(["fetch", "fetch"] * 3)
    assert asked[1:] == [0, 0]
    assert report.frames == {"Fetch": {"request": 2, "response": 2}}
    assert report.checks["wire/malformed-request"] == {"conforms": 2}
    assert [state.conversation.progress.sequence for state in bucket.connections.values()] == [15, 15]


def test_who_says_it_with_a_client_instance_id_is_not_judged_again() -> None:
    asked, bucket, report = heard(["look up", "look up"] * 3)
    assert asked[1:] == [0, 0]
    assert report.checks["kip1313/instance-id-changed"] == {"conforms": 2}
    instance_ids = [state.conversation.instance_id for state in bucket.connections.values()]
    assert instance_ids == [b"a" * 16, b"b" * 16]


@pytest.mark.parametrize("foreign", ["look up with other ID", "fetch as other"])
def test_an_id_that_is_not_the_connections_own_is_judged_at_first(foreign: str) -> None:
    asked, _, _ = heard(["fetch", "look up", "fetch", foreign])
    assert asked[-1] > 0


def test_a_member_that_says_what_another_one_said_is_not_judged_again() -> None:
    asked, bucket, report = heard(["fetch", "answer"] * 4)
    assert asked[1:] == [0, 0, 0]
    assert report.frames.keys() == {"Fetch", "ConsumerGroupHeartbeat"}
    assert report.checks["kip1082/member-id-empty"] == {"conforms": 1}
    assert report.checks["kip1082/member-id-changed"] == {"conforms": 1}
    for state, member_id in zip(bucket.connections.values(), ORDINARY, strict=False):
        ((name, member),) = state.conversation.progress.members.items()
        assert (name, member.heartbeat) == (member_name("g", member_id), 18)
        assert member.until > member.before_until


@pytest.mark.parametrize("members", [("A", "B"), (ORDINARY[0], ZERO), (ORDINARY[0], ID_A.hex())])
def test_members_with_ids_of_another_form_are_judged(members: tuple[str, str]) -> None:
    asked, _, _ = heard(["fetch", "answer"] * 4, members)
    assert asked == [4, 4, 4, 4]


@pytest.mark.parametrize("news", ["out of range", "negotiate", "gap", "unreadable beat", "beat B", "leave"])
def test_news_is_judged(news: str) -> None:
    asked, _, _ = heard(["fetch", "fetch", "fetch", "fetch", news])
    assert asked[-1] > 0


def test_what_is_remembered_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgement_cache, "CAPACITY", 1)
    _, _, report = heard(["fetch", "commit", "commit", "fetch", "commit", "commit"])
    assert report.frames == {"OffsetCommit": {"request": 2, "response": 2}}


@pytest.mark.parametrize("size", [1, 4, 10_000])
def test_every_case_is_judged_by_the_cache_as_by_the_rules(size: int) -> None:
    """All cases of a reading share one cache, so that a case meets the transitions of others."""
    steps = Steps()
    for case in CASES:
        exchange, rules = case.played()
        compare_steps(case.title, exchange, steps.of(rules), size)


@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(1_800)]), SAMPLED]
)
def test_mutants_are_judged_by_the_cache_as_by_the_rules(step: int) -> None:
    """Every `step`th of all mutants, with one cache for all of them."""
    steps = Steps()
    mutants = (mutant for rule in MUTATORS for mutant in mutants_of(rule))
    for mutant in itertools.islice(mutants, 0, None, step):
        exchange, rules = mutant.performed()
        compare_steps(mutant.name, exchange, steps.of(rules), 4)


class Steps:
    """For each reading a step with a cache, and one that asks the rules about everything."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, ...], tuple[BucketStep, BucketStep]] = {}

    def of(self, rules: Sequence[Rule]) -> tuple[BucketStep, BucketStep]:
        reading = tuple(rule.spec for rule in rules)
        if reading not in self._steps:
            terms = Terms(rules)
            cached, uncached = Judge(NAMES, terms), UncachedJudge(NAMES, terms)
            self._steps[reading] = BucketStep(cached, NAMES), BucketStep(uncached, NAMES)
        return self._steps[reading]


def compare_steps(name: str, exchange: Exchange, pair: tuple[BucketStep, BucketStep], size: int) -> None:
    cached, uncached = (map(told, stepped(step, exchange, size)) for step in pair)
    assert [*cached] == [*uncached], name
