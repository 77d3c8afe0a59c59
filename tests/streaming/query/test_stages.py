"""The stages without Spark: blocks in, one row per bucket out; stored values, refused state, timers."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo

from decoders.frame.record import Kind, Record
from expectations.conversation.observation import EVIDENCE_BYTES, Window
from expectations.conversation.pseudonyms import Pseudonyms
from expectations.identity.claim import IdentityKind
from expectations.judging import automaton
from expectations.judging.finding import Suppressed
from expectations.judging.outcome import SUPPRESSED
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Level
from streaming.judging.bucket_input import MOST_RECORDS, BucketInput, bucket_of, pack_input, unpack_input
from streaming.judging.report import TENTH, Report, unpack_report
from streaming.query import stages
from streaming.query.stage_rows import Stepped, bucket_of_key, key_of_bucket, unpack_stepped
from streaming.query.stages import (
    COUNTING_BUCKET,
    END_OF_TASK,
    BucketProcessor,
    decode_stage,
)
from streaming.query.worker import TICK_INTERVAL
from streaming.settings.configuration import Configuration, Suppression
from streaming.settings.decisions import Decisions
from streaming.settings.owners import Owner, owners_of
from streaming.state import StateError
from streaming.state.bucket import unpack_bucket
from tests.decoders.frame.columnar.batches import block
from tests.exchange import ID_A, ID_B, Exchange
from tests.streaming.captures import violating
from tests.streaming.judging.test_step import on, windows
from tests.streaming.judging.travelling import bucket_input

BUCKETS = 8


def batch_of(values: Sequence[bytes | None], first_offset: int = 100) -> pa.RecordBatch:
    """Records of the topic, of which a block has a bytes value."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array(values, pa.binary()),
            pa.array(["kipwatch.frames"] * len(values)),
            pa.array([1] * len(values), pa.int32()),
            pa.array(range(first_offset, first_offset + len(values)), pa.int64()),
        ],
        names=["value", "topic", "partition", "offset"],
    )


def decoded(*batches: pa.RecordBatch) -> list[dict[int, BucketInput]]:
    results = []
    for batch in decode_stage(BUCKETS)(iter(batches)):
        assert batch.schema.names == ["bucket", "input"]
        assert batch.schema.types == [pa.int32(), pa.binary()]
        buckets, rows = (column.to_pylist() for column in batch.columns)
        numbers = map(bucket_of_key, buckets)
        results.append(dict(zip(numbers, map(unpack_input, rows), strict=True)))
    return results


def records() -> list[Record]:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for _ in range(20):
        exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    return exchange.records


def record_on(connection: bytes, record: Record) -> Record:
    return dataclasses.replace(record, connection=connection)


def test_a_batch_becomes_a_row_for_each_of_its_buckets() -> None:
    """Two connections of one bucket share a row, and steady traffic folds, in however many blocks it is."""
    one, two, three = (number.to_bytes(4) * 4 for number in (1, 1 + BUCKETS, 2))
    sent = [record_on(connection, record) for record in records() for connection in (one, two, three)]
    (inputs,) = decoded(batch_of([block(sent[:50]), block(sent[50:])]))
    assert inputs.keys() == {1, 2}
    assert [window.connection.id for window in inputs[1].columns().windows()] == [one, two]
    (window,) = inputs[2].columns().windows()
    assert window.connection.client == "10.0.0.1:40000" and window.connection.server == "10.0.0.2:9092"
    assert sum(seen.count for seen in window.observations) == len(records())
    assert len(window.observations) < 8
    assert inputs[1].unreadable == inputs[2].unreadable == 0
    assert inputs[1].blocks + inputs[2].blocks == 2


def test_a_record_that_is_no_block_is_counted_and_affects_no_other() -> None:
    """The report has the reason; the evidence of other records keeps their own places."""
    connection = (3).to_bytes(4) * 4
    first, second, third = (record_on(connection, record) for record in records()[:3])
    good = block([first])
    (inputs,) = decoded(batch_of([good, b"not a frame", None, good[:-9], block([second, third])]))
    assert inputs[3].unreadable == 3 and inputs[3].blocks == 5
    assert inputs[3].refusal.startswith("damaged: ")
    told = [(record.key, record.size, record.value) for record in inputs[3].quarantined]
    assert told == [
        ("kipwatch.frames/1/101", 11, b"not a frame"),
        ("kipwatch.frames/1/102", 0, b""),
        ("kipwatch.frames/1/103", len(good) - 9, good[:-9]),
    ]
    assert inputs[3].quarantined[2].reason == inputs[3].refusal
    (window,) = inputs[3].columns().windows()
    assert [seen.kind for seen in window.observations] == [Kind.OPENED, Kind.REQUEST, Kind.RESPONSE]
    evidence = window.observations[2].evidence
    assert (evidence.source, evidence.partition) == ("kipwatch.frames", 1)
    assert (evidence.offset, evidence.row) == (104, 1)
    assert evidence.beginning == records()[2].frame[:EVIDENCE_BYTES]


def test_nothing_but_foreign_records_is_counted_in_a_bucket_of_its_own() -> None:
    (inputs,) = decoded(batch_of([b"not a frame", None]))
    assert inputs.keys() == {COUNTING_BUCKET}
    assert inputs[0].unreadable == 2 and inputs[0].said is None


def test_of_many_foreign_records_a_bounded_part_is_passed_on() -> None:
    """Whatever the number of Arrow batches in a task."""
    values = [b"not a frame"] * MOST_RECORDS
    first, second = decoded(batch_of(values), batch_of(values))
    assert len(first[0].quarantined) == MOST_RECORDS and second[0].quarantined == []
    assert first[0].unreadable == second[0].unreadable == MOST_RECORDS


def test_with_pseudonyms_no_bytes_of_a_foreign_record_are_passed_on() -> None:
    terms = Terms(pseudonyms=Pseudonyms(b"k" * 32))
    (batch,) = decode_stage(BUCKETS, terms=terms)(iter([batch_of([b"a plain client ID"])]))
    (record,) = unpack_input(batch.column("input")[0].as_py()).quarantined
    assert (record.size, record.value) == (17, b"")


def test_every_record_is_counted_once_at_its_own_time_of_capture() -> None:
    """In tenths of a second, although most are folded; one of the rows has the counts of all."""
    sent = records()
    connections = [number.to_bytes(4) * 4 for number in (1, 2)]
    both = block([record_on(connection, record) for record in sent for connection in connections])
    (inputs,) = decoded(batch_of([both]))
    expected = Counter(record.captured_at // TENTH for record in sent)
    (captured,) = [part.captured for part in inputs.values() if part.captured]
    assert captured == {tenth: 2 * count for tenth, count in expected.items()}


def test_each_arrow_batch_yields_one() -> None:
    values = [block([record_on(bytes(16), record)]) for record in records()]
    first, empty, second = decoded(batch_of(values[:3]), batch_of(values).slice(0, 0), batch_of(values[3:]))
    assert (len(first), len(empty), len(second)) == (1, 0, 1)


@given(st.binary(min_size=16, max_size=16), st.integers(1, 1000))
def test_a_connection_has_one_bucket(connection: bytes, buckets: int) -> None:
    assert 0 <= bucket_of(connection, buckets) < buckets
    assert bucket_of(connection, buckets) == bucket_of(bytes(bytearray(connection)), buckets)


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
    assert [one.claims for rows in told for one in rows] == [[], []]
    assert store.timers.count(END_OF_TASK) == 1
    with pytest.raises(RuntimeError, match="claims would be lost"):
        processor.close()
    rows = processor.handleExpiredTimer((key_of_bucket(3),), store, ExpiredTimerInfo(END_OF_TASK))
    claims = [claim for row in rows for claim in unpack_stepped(row.stepped).claims]
    assert IdentityKind.CLIENT in {claim.kind for claim in claims}
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
