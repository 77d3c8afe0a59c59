"""The step of a bucket: equal results however it is stored and split, publication and expiry by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from decoders.retention import KEPT_FOR, MILLISECOND, REPUBLISH_AFTER
from decoders.schema.registry import default_schemas
from expectations.conversation.observation import Window
from expectations.judging.automaton import Automaton
from expectations.judging.finding import Finding
from expectations.judging.judge import Judge
from expectations.judging.terms import Terms
from streaming.judging.report import OpenConnections, Report
from streaming.judging.step import BucketStep
from streaming.state import StateError
from streaming.state.bucket import STATE_VERSION, Bucket, pack_bucket
from tests.examples import examples
from tests.exchange import ID_A, ID_B, SOFTWARE, Exchange, advertisement
from tests.expectations.conversation.steps import STEPS
from tests.streaming.captures import violating
from tests.streaming.judging.stepping import SECRET
from tests.streaming.judging.travelling import on, travelled, windows
from tests.streaming.state.bucket_store import BucketStore, held, states_of

NAMES, APIS = default_schemas().api_names, default_schemas().by_key
NOW = 1_800_000_000_000


class WindowStep:
    """Processes windows as they come from the decode stage, with an automaton as the query has one."""

    def __init__(self, judge: Judge, *, counts_usage: bool = False) -> None:
        self._step = BucketStep(judge, APIS, counts_usage=counts_usage, automaton=Automaton(judge, SECRET))

    def process(self, number: int, bucket: Bucket, windows: Sequence[Window]) -> Report:
        return self._step.process(number, bucket, travelled(windows))

    def tick(self, number: int, bucket: Bucket, now: int) -> Report:
        return self._step.tick(number, bucket, now)


def step(listeners: dict[str, str] | None = None) -> WindowStep:
    return WindowStep(Judge(NAMES, Terms(listeners=listeners or {})))


@dataclass
class Totals:
    """Sums of reports."""

    findings: dict[str, Finding] = field(default_factory=dict)
    checks: Counter[tuple[str, str]] = field(default_factory=Counter)
    offences: Counter[object] = field(default_factory=Counter)
    frames: Counter[tuple[str, str]] = field(default_factory=Counter)
    undecodable: Counter[str] = field(default_factory=Counter)

    def add(self, report: Report) -> None:
        self.findings.update({finding.id: finding for finding in report.findings})
        self.undecodable.update(report.undecodable)
        for offence, count in report.offences:
            self.offences[offence] += count
        for sums, counts in ((self.checks, report.checks), (self.frames, report.frames)):
            for name, inner in counts.items():
                sums.update({(name, key): count for key, count in inner.items()})

    @property
    def judged(self) -> object:
        findings = {
            key: (finding.likeness(), finding.level, finding.message)
            for key, finding in self.findings.items()
        }
        return findings, self.checks, self.offences, self.frames, self.undecodable


@examples(120)
@given(st.lists(st.sampled_from(list(STEPS)), max_size=30), st.integers(0, 40), st.booleans(), st.booleans())
@example(
    ["informed, refused", "informed, no response", "negotiate", "informed, refused", "informed, refused"],
    2,
    False,
    False,
)
@example(["informed", "negotiate", "informed", "informed, refused"], 2, False, False)
def test_a_conversation_stored_midway_is_judged_as_in_one_step(
    steps: list[str], split: int, mid_stream: bool, closed: bool
) -> None:
    """At any split, with any traffic before and after it."""
    exchange = Exchange(mid_stream=mid_stream)
    for name in steps:
        STEPS[name](exchange)
    if closed:
        exchange.close()
    in_one_step, split_up = Totals(), Totals()
    bucket = Bucket()
    in_one_step.add(step().process(0, bucket, windows(exchange)))
    in_one_step.add(step().tick(0, bucket, NOW))
    bucket, store = Bucket(), BucketStore()
    for part in (windows(exchange, 0, split), windows(exchange, split)):
        split_up.add(step().process(0, bucket, part))
        store.save(bucket)
        assert held(store.load()) == held(bucket)
        bucket = store.load()
    split_up.add(step().tick(0, bucket, NOW))
    assert split_up.judged == in_one_step.judged


def test_a_bucket_that_was_never_stored_is_empty() -> None:
    assert held(BucketStore().load()) == held(Bucket())


@pytest.mark.parametrize("version", [1, STATE_VERSION + 1])
def test_state_of_another_version_is_refused_with_advice(version: int) -> None:
    """Of an earlier one, and of one to come."""
    store = BucketStore(Bucket())
    store.bucket = bytes([version]) + (store.bucket or b"")[1:]
    versions = f"version {version}, this kipwatch writes {STATE_VERSION}"
    advice = "run the kipwatch that wrote it, or start with a new checkpoint folder"
    with pytest.raises(StateError, match=f"{versions}: {advice}$"):
        store.load()


def test_missing_contents_of_connections_are_refused_with_advice() -> None:
    bucket, store = Bucket(), BucketStore()
    step().process(0, bucket, windows(violating(), 0, 4))
    store.save(bucket)
    store.contents = None
    with pytest.raises(StateError, match=r"0 bytes of connections where \d+ belong: bring the folder"):
        states_of(store.load().connections)


def test_a_closed_connection_is_removed_and_an_open_one_kept() -> None:
    bucket, exchange = Bucket(), violating()
    report = step().process(0, bucket, windows(exchange, 0, -1))
    assert len(bucket.connections) == 1
    assert sum(row.count for row in report.open_connections) == 1
    report = step().process(0, bucket, windows(exchange, -1))
    assert states_of(bucket.connections) == {}
    assert report.open_connections == []


def test_connections_are_judged_separately() -> None:
    """Two connections with one ID each: only a connection with both IDs offends."""
    one, other = Exchange(), Exchange()
    one.request("Metadata", 14, client_id="app", instance_id=ID_A)
    other.request("Metadata", 14, client_id="app", instance_id=ID_B)
    bucket = Bucket()
    report = step().process(0, bucket, on(b"a", windows(one)) + on(b"b", windows(other)))
    assert len(bucket.connections) == 2
    assert report.findings == []


def test_windows_are_processed_in_order_of_sequence() -> None:
    """Spark returns rows in any order."""
    exchange = violating()
    parts = [window for at in range(len(exchange.records)) for window in windows(exchange, at, at + 1)]
    forward, backward = Totals(), Totals()
    forward.add(step().process(0, Bucket(), parts))
    backward.add(step().process(0, Bucket(), parts[::-1]))
    assert backward.judged == forward.judged
    assert len(forward.findings) == 2


def test_a_replayed_window_changes_no_judgement() -> None:
    bucket, exchange = Bucket(), violating()
    step().process(0, bucket, windows(exchange, 0, 4))
    before = pack_bucket(bucket)
    report = step().process(0, bucket, windows(exchange, 0, 4))
    assert (report.checks, report.offences, report.findings) == ({}, [], [])
    assert pack_bucket(bucket) == before


def test_a_finding_that_grew_is_published_again_after_ten_minutes_and_only_then() -> None:
    bucket, exchange = Bucket(), Exchange()
    exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)

    def offend() -> list[int]:
        exchange.request("Metadata", 14, instance_id=ID_B)
        return occurrences(step().process(0, bucket, windows(exchange, len(exchange.records) - 1)))

    def occurrences(report: Report) -> list[int]:
        return [finding.occurrences for finding in report.findings]

    step().process(0, bucket, windows(exchange))
    assert offend() == [1]
    assert occurrences(step().tick(0, bucket, NOW)) == []
    assert offend() == []
    assert occurrences(step().tick(0, bucket, NOW + REPUBLISH_AFTER - 1)) == []
    assert occurrences(step().tick(0, bucket, NOW + REPUBLISH_AFTER)) == [2]
    assert occurrences(step().tick(0, bucket, NOW + 2 * REPUBLISH_AFTER)) == []


def test_a_finding_that_grew_is_published_when_its_connection_closes() -> None:
    bucket, exchange = Bucket(), violating()
    step().process(0, bucket, windows(exchange, 0, 4))
    assert step().process(0, bucket, windows(exchange, 4, 5)).findings == []
    (finding,) = step().process(0, bucket, windows(exchange, 5)).findings
    assert (finding.rule, finding.occurrences) == ("kip1313/instance-id-changed", 2)


def test_a_silent_connection_expires_after_a_day_of_the_capture_clock() -> None:
    """The clock is that of the bucket's records: an outage of kipwatch itself expires no connection."""
    early, late = Exchange(), Exchange()
    early.request("Metadata", 12, client_id="app")
    late.at = early.at - 1_000_000 + KEPT_FOR
    late.request("Metadata", 12, client_id="app")
    bucket = Bucket()
    step().process(0, bucket, on(b"a", windows(early)) + on(b"b", windows(late)))
    step().tick(0, bucket, NOW)
    assert len(bucket.connections) == 2
    late.wait(1)
    late.request("Metadata", 12, client_id="app")
    step().process(0, bucket, on(b"b", windows(late, 2)))
    report = step().tick(0, bucket, NOW + REPUBLISH_AFTER)
    assert states_of(bucket.connections).keys() == {b"b" * 16}
    assert [row.count for row in report.open_connections] == [1]


def test_what_grew_of_a_silent_connection_is_published_before_it_expires() -> None:
    """A query that catches up reads days within minutes, and ticks sooner than it publishes again."""
    bucket, exchange, late = Bucket(), Exchange(), Exchange()
    exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)
    exchange.request("Metadata", 14, instance_id=ID_B)
    step().process(0, bucket, windows(exchange))
    assert step().tick(0, bucket, NOW).findings == []
    exchange.request("Metadata", 14, instance_id=ID_B)
    late.at = exchange.at + 2 * KEPT_FOR
    late.request("Metadata", 12, client_id="app")
    step().process(0, bucket, windows(exchange, 2) + on(b"l", windows(late)))
    soon, then = (step().tick(0, bucket, NOW + after) for after in (REPUBLISH_AFTER - 1, REPUBLISH_AFTER))
    assert [finding.occurrences for report in (soon, then) for finding in report.findings] == [2]
    assert states_of(bucket.connections).keys() == {b"l" * 16}


def test_a_clock_that_is_wrong_by_years_expires_nobody_else() -> None:
    """One frame of the year 2100 made all others look silent, for as long as the bucket is stored."""
    present, future = Exchange(at=NOW * MILLISECOND), Exchange(at=NOW * MILLISECOND + 75 * 365 * KEPT_FOR)
    for exchange in (present, future):
        exchange.request("Metadata", 12, client_id="app")
    bucket = Bucket()
    step().process(0, bucket, on(b"a", windows(present)) + on(b"b", windows(future)))
    step().tick(0, bucket, NOW + 60_000)
    assert states_of(bucket.connections).keys() == {b"a" * 16, b"b" * 16}
    step().tick(0, bucket, NOW + 60_000 + KEPT_FOR // MILLISECOND)
    assert states_of(bucket.connections).keys() == {b"a" * 16, b"b" * 16}


def test_open_connections_are_counted_by_software_and_listener() -> None:
    named, unnamed = Exchange(), Exchange()
    named.negotiate(client_id="app")
    unnamed.request("Metadata", 12, client_id="app")
    found = on(b"a", windows(named)) + on(b"b", windows(named)) + on(b"c", windows(unnamed))
    found += on(b"d", windows(named), server="10.0.0.3:9092")
    report = step({"10.0.0.2:9092": "WATCHED"}).process(3, Bucket(), found)
    assert report.bucket == 3
    assert report.open_connections == [
        OpenConnections(None, None, "WATCHED", 1),
        OpenConnections("tester", "1.0", "10.0.0.3:9092", 1),
        OpenConnections("tester", "1.0", "WATCHED", 2),
    ]


def test_frames_are_counted_by_api_and_undecodable_frames_by_reason() -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for _ in range(5):
        exchange.request("Metadata", 12, client_id="app")
    exchange.request("Metadata", 12, frame=bytes.fromhex("0003000c00000009ffff00ff"))
    exchange.request("Metadata", 12, frame=bytes.fromhex("7fff00050000000affff"))
    report = step().process(0, Bucket(), windows(exchange))
    assert report.frames == {
        "ApiVersions": {"request": 1, "response": 1},
        "Metadata": {"request": 6},
        "unknown": {"request": 1},
    }
    assert sum(report.undecodable.values()) == 2 and report.undecodable["unknown-api"] == 1


def test_frames_of_removed_versions_are_told_apart_from_those_of_no_release() -> None:
    """An old client sends them; nothing newer than the schemas is in use."""
    exchange = Exchange()
    old = exchange.request("Produce", 2, frame=bytes.fromhex("00000002000000090003617070"))
    exchange.respond(old, frame=bytes.fromhex("0000000900000000"))
    exchange.request("Produce", 99, frame=bytes.fromhex("000000630000000affff"))
    report = step().process(0, Bucket(), windows(exchange))
    assert report.undecodable == {"removed-version": 2, "unknown-api": 1}


def test_offences_are_counted_by_the_software_that_commits_them() -> None:
    exchange = Exchange()
    request = exchange.request(
        "ApiVersions", 6, SOFTWARE | {"clientSoftwareName": "a b"}, client_id="app", instance_id=ID_A
    )
    exchange.respond(request, advertisement(42))
    ((offence, count),) = step().process(0, Bucket(), windows(exchange)).offences
    assert (offence.rule, offence.level, offence.role) == (
        "kip511/software-name-malformed",
        "violation",
        "client",
    )
    assert (offence.software_name, offence.software_version, count) == ("a b", "1.0", 1)
    assert (offence.cluster, offence.listener) == ("", "10.0.0.2:9092")


def test_a_connection_whose_opening_was_lost_counts_as_joined_midway() -> None:
    """A topic may have lost its first records, for longer than the query remembers connections."""
    joined, lost = Exchange(mid_stream=True), Exchange()
    for exchange in (joined, lost):
        exchange.negotiate(client_id="app")
        exchange.request("Metadata", 12, client_id="app")
    facts = []
    for exchange, begin in ((joined, 0), (lost, 1)):
        bucket = Bucket()
        report = step().process(0, bucket, windows(exchange, begin))
        (state,) = states_of(bucket.connections).values()
        conversation = msgspec.structs.replace(state.conversation, opened_at=0)
        facts.append((conversation, report.checks))
        assert state.conversation.opened_at == exchange.records[begin].captured_at
    assert facts[0] == facts[1]
