"""The stage of connections without Spark: stored values, refused state, timers, decisions and owners."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo

from expectations.conversation.observation import Window
from expectations.identity.claim import IdentityKind
from expectations.judging import automaton
from expectations.judging.finding import Suppressed
from expectations.judging.outcome import SUPPRESSED
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Level
from streaming.judging.bucket_input import pack_input
from streaming.judging.report import Report, unpack_report
from streaming.query import stages
from streaming.query.stage_rows import Stepped, key_of_bucket, unpack_stepped
from streaming.query.stages import (
    END_OF_TASK,
    BucketProcessor,
)
from streaming.query.worker import TICK_INTERVAL
from streaming.settings.configuration import Configuration, Suppression
from streaming.settings.decisions import Decisions
from streaming.settings.owners import Owner, owners_of
from streaming.state import StateError
from streaming.state.bucket import unpack_bucket
from tests.exchange import ID_A, ID_B, Exchange
from tests.streaming.captures import violating
from tests.streaming.judging.travelling import bucket_input, on, windows

BUCKETS = 8
NOW = 1_800_000_000_000


class Value:
    """One value of the state."""

    def __init__(self) -> None:
        self.stored: tuple[bytes] | None = None
        self.reads = self.writes = 0

    def get(self) -> tuple[bytes] | None:
        self.reads += 1
        return self.stored

    def update(self, value: tuple[bytes]) -> None:
        self.stored, self.writes = value, self.writes + 1


class Store:
    """Spark's handle, state and clock of one bucket."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.timers: list[int] = []

    def getValueState(self, name: str, _schema: str) -> Value:  # noqa: N802 - Spark's name
        return self.values.setdefault(name, Value())

    @property
    def writes(self) -> dict[str, int]:
        return {name: value.writes for name, value in self.values.items()}

    @property
    def stored(self) -> dict[str, bytes]:
        return {name: value.stored[0] for name, value in self.values.items() if value.stored}

    def registerTimer(self, due: int) -> None:  # noqa: N802
        self.timers.append(due)

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802
        return NOW


def process(
    store: Store,
    sent: list[Window],
    number: int = 3,
    *,
    buckets: int = BUCKETS,
    resumed_at: int = 0,
    terms: Terms | None = None,
) -> Report:
    return step(BucketProcessor(buckets, terms or Terms(), resumed_at=resumed_at), store, sent, number)


def step(processor: BucketProcessor, store: Store, sent: list[Window], number: int) -> Report:
    processor.init(store)
    (report,) = [
        unpack_report(one.report) for one in stepped_by(processor, store, number, sent) if one.report
    ]
    return report


def metadata_exchange() -> Exchange:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    return exchange


def test_a_replayed_batch_writes_no_state() -> None:
    """And what has no news leaves the contents as they are, which only findings need."""
    store, exchange = Store(), metadata_exchange()
    process(store, windows(exchange))
    assert store.writes == {"bucket": 1, "contents": 0}
    report = process(store, windows(exchange))
    assert store.writes == {"bucket": 1, "contents": 0}
    assert report.state_bytes == sum(map(len, store.stored.values()))
    exchange.request("Metadata", 12, client_id="app")
    process(store, windows(exchange, len(exchange.records) - 1))
    assert store.writes == {"bucket": 2, "contents": 0}
    exchange.request("Metadata", 14, instance_id=ID_A)
    process(store, windows(exchange, len(exchange.records) - 1))
    assert store.writes == {"bucket": 3, "contents": 0}
    exchange.request("Metadata", 14, instance_id=ID_B)
    assert process(store, windows(exchange, len(exchange.records) - 1)).findings
    assert store.writes == {"bucket": 4, "contents": 1}
    report = process(store, windows(exchange))
    assert store.writes == {"bucket": 4, "contents": 1}
    assert report.state_bytes == sum(map(len, store.stored.values()))


def test_connections_without_findings_read_no_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the judge judges them or the automaton moves them."""
    store, exchange, processor = Store(), metadata_exchange(), BucketProcessor(BUCKETS, Terms())
    step(processor, store, windows(exchange) + on(b"z", windows(violating(), 0, -1)), 3)
    assert "contents" in store.stored
    before = store.values["contents"].reads
    for learnt_at in (1_000, 1, 1):
        monkeypatch.setattr(automaton, "LEARNT_AT", learnt_at)
        begin = len(exchange.records)
        exchange.respond(exchange.request("Metadata", 12, client_id="app"))
        step(processor, store, windows(exchange, begin), 3)
    assert store.values["contents"].reads == before
    assert store.writes == {"bucket": 4, "contents": 1}


def test_another_number_of_buckets_is_refused_with_advice() -> None:
    store = Store()
    process(store, windows(metadata_exchange()))
    with pytest.raises(StateError, match=f"made with {BUCKETS} buckets, not 9: run with --buckets 8"):
        process(store, windows(metadata_exchange()), buckets=9)


def test_each_bucket_has_one_timer_and_timers_are_spread_over_the_minute() -> None:
    due = []
    for number in range(200):
        store = Store()
        for _ in range(2):
            process(store, windows(metadata_exchange()), number, buckets=200)
        (timer,) = (at for at in store.timers if at != END_OF_TASK)
        due.append(timer - NOW)
    assert min(due) > 0 and max(due) <= TICK_INTERVAL
    assert len({after // 1_000 for after in due}) > 40


def test_claims_wait_for_the_end_of_the_task_and_are_never_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    store, processor = Store(), BucketProcessor(BUCKETS, Terms())
    processor.init(store)
    told = [stepped_by(processor, store, 3, windows(metadata_exchange())) for _ in range(2)]
    assert not any(one.claims for rows in told for one in rows)
    assert store.timers.count(END_OF_TASK) == 1
    with pytest.raises(RuntimeError, match="claims would be lost"):
        processor.close()
    rows = processor.handleExpiredTimer((key_of_bucket(3),), store, ExpiredTimerInfo(END_OF_TASK))
    claims = [claim for row in rows for claim in unpack_stepped(row.stepped).claims]
    assert IdentityKind.CLIENT in {claim.identity.kind for claim in claims}
    processor.close()
    monkeypatch.setattr(stages, "MOST_BYTES", 0)
    exchange = Exchange(connection=b"2" * 16)
    exchange.negotiate(client_id="another")
    report, *others = stepped_by(processor, store, 3, windows(exchange))
    assert report.report and not report.claims
    assert others and all(one.claims for one in others)
    processor.close()


def stepped_by(processor: BucketProcessor, store: Store, number: int, sent: list[Window]) -> list[Stepped]:
    """Process windows and return what is passed on."""
    rows = iter([Row(input=pack_input(bucket_input(sent)))])
    passed = processor.handleInputRows((key_of_bucket(number),), rows, store)
    return [unpack_stepped(row.stepped) for row in passed]


def test_after_a_loss_known_connections_are_interrupted_once_and_new_ones_are_not() -> None:
    store, exchange = Store(), metadata_exchange()
    process(store, windows(exchange))
    known = len(exchange.records)
    exchange.request("Metadata", 12, client_id="app", settled=True)
    report = process(store, windows(exchange, known), resumed_at=NOW)
    assert "kip35/version-out-of-range" not in report.checks, "it waits for a response"
    assert report.findings == []
    assert unpack_bucket(store.stored["bucket"], lambda: None).resumed_at == NOW
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 12, client_id="app", settled=True)
    report = process(store, windows(exchange, known + 1), resumed_at=NOW)
    assert report.checks["kip35/version-out-of-range"] == {"conforms": 1}


CHANGED, MALFORMED = "kip1313/instance-id-changed", "kip511/software-name-malformed"


def test_suppressed_findings_carry_the_reason_and_count_as_suppressed() -> None:
    """Decisions change what is published, not what is stored."""
    suppression = Suppression(CHANGED, "fixed in 2.0", date(2999, 1, 1))
    decisions = Decisions(Configuration(levels={MALFORMED: Level.INFORMATION}, suppress=[suppression]))
    plain, decided = Store(), Store()
    as_found = process(plain, windows(violating(), 0, -1))
    report = process(decided, windows(violating(), 0, -1), terms=pickled(decisions.terms))
    suppressed = {found.rule: found.suppressed for found in report.findings if found.suppressed}
    assert suppressed == {CHANGED: Suppressed("fixed in 2.0", "2999-01-01")}
    levels = {(offence.rule, offence.level): count for offence, count in report.offences}
    assert levels == {(CHANGED, SUPPRESSED): 2, (MALFORMED, "information"): 1}
    assert report.checks == as_found.checks
    assert decided.stored == plain.stored


def test_a_disabled_rule_judges_nothing() -> None:
    terms = pickled(Decisions(Configuration(disable=[MALFORMED])).terms)
    report = process(Store(), windows(violating()), terms=terms)
    assert {finding.rule for finding in report.findings} == {CHANGED}
    assert MALFORMED not in report.checks


@pytest.mark.parametrize(("choices", "found"), [([], ["kip1082/member-id-empty"]), (["kip1082=text"], [])])
def test_a_kip_is_judged_in_the_configured_reading(choices: list[str], found: list[str]) -> None:
    """The text of KIP-1082 does not require a member ID in version 1."""
    exchange = Exchange()
    body = {"groupId": "g", "memberId": "", "memberEpoch": 0}
    exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app")
    terms = pickled(Decisions(Configuration(spec=choices)).terms)
    report = process(Store(), windows(exchange), terms=terms)
    assert [finding.rule for finding in report.findings] == found


def test_the_automaton_survives_a_task_but_not_its_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task unpickles the processor; a restarted query has another one."""
    monkeypatch.setattr(automaton, "LEARNT_AT", 2)
    processor, restarted = (BucketProcessor(BUCKETS, Terms()) for _ in range(2))
    tasks = [cloudpickle.loads(cloudpickle.dumps(each)) for each in (processor, processor, restarted)]
    reports = [step(task, Store(), windows(metadata_exchange()), 3) for task in tasks]
    assert [(report.judged, report.walked) for report in reports] == [(1, 0), (0, 1), (1, 0)]


def pickled(terms: Terms) -> Terms:
    """Return the terms as a worker receives them."""
    arrived: Terms = cloudpickle.loads(cloudpickle.dumps(terms))
    return arrived


def test_owners_travel_to_workers_and_clusters_are_told_apart() -> None:
    """The same offences on connections of two clusters, of which one client is somebody's."""
    owners = owners_of([Owner("payments", client_id="app", client="10.0.0.1")])
    here = on(b"a", windows(violating()), cluster="here")
    there = on(b"b", windows(violating()), cluster="there", client="10.0.0.9:1")
    report = process(Store(), [*here, *there], terms=pickled(Terms(owner_of=owners.of)))
    assert {(finding.cluster, finding.owner) for finding in report.findings} == {
        ("here", "payments"),
        ("there", None),
    }
    counted = {(offence.cluster, offence.owner, offence.rule): count for offence, count in report.offences}
    assert counted == {
        (cluster, owner, rule): times
        for cluster, owner in (("here", "payments"), ("there", None))
        for rule, times in ((MALFORMED, 1), (CHANGED, 2))
    }
