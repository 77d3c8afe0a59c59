"""The step of connections as Spark calls it, but without Spark: what is stored, refused, scheduled."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row

from expectations.conversation.window import Window
from expectations.judging.finding import Suppressed
from expectations.judging.outcome import SUPPRESSED
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Level
from streaming.judging.bucket_input import pack_input
from streaming.judging.report import Report
from streaming.query.identity_stage import Stepped
from streaming.query.partition_keys import key_of_bucket
from streaming.query.stages import SUMMARY_INTERVAL, BucketProcessor
from streaming.settings.configuration import Configuration, Suppression
from streaming.settings.decisions import Decisions
from streaming.state.bucket_layout import unpack_bucket
from streaming.state.state_error import StateError
from tests.exchange import ID_A, Exchange
from tests.streaming.captures import violating
from tests.streaming.judging.test_bucket_step import windows
from tests.streaming.judging.travelling import bucket_input

NOW = 1_800_000_000_000
BUCKETS = 8


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


def hear(
    store: Store,
    said: list[Window],
    number: int = 3,
    *,
    buckets: int = BUCKETS,
    resumed_at: int = 0,
    terms: Terms | None = None,
) -> Report:
    return step(BucketProcessor(buckets, terms or Terms(), resumed_at=resumed_at), store, said, number)


def step(processor: Any, store: Store, said: list[Window], number: int) -> Report:
    processor.init(store)
    rows = [Row(input=pack_input(bucket_input(said)))]
    stepped = [
        msgspec.msgpack.decode(row.stepped, type=Stepped)
        for row in processor.handleInputRows((key_of_bucket(number),), iter(rows), store)
    ]
    (report,) = [msgspec.msgpack.decode(one.report, type=Report) for one in stepped if one.report]
    return report


def asking() -> Exchange:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    return exchange


def test_what_was_heard_before_is_not_written_again() -> None:
    store, exchange = Store(), asking()
    hear(store, windows(exchange))
    assert store.writes == {"bucket": 1, "contents": 1}
    report = hear(store, windows(exchange))
    assert store.writes == {"bucket": 1, "contents": 1}
    assert report.state_bytes == sum(map(len, store.stored.values()))
    exchange.request("Metadata", 12, client_id="app")
    hear(store, windows(exchange, len(exchange.records) - 1))
    assert store.writes == {"bucket": 2, "contents": 1}
    exchange.request("Metadata", 14, instance_id=ID_A)
    hear(store, windows(exchange, len(exchange.records) - 1))
    assert store.writes == {"bucket": 3, "contents": 2}


def test_what_many_said_before_is_heard_without_the_contents_of_connections() -> None:
    store, exchange, processor = Store(), asking(), BucketProcessor(BUCKETS, Terms())
    step(processor, store, windows(exchange), 3)
    reads = []
    for _ in range(3):
        begin = len(exchange.records)
        exchange.respond(exchange.request("Metadata", 12, client_id="app"))
        step(processor, store, windows(exchange, begin), 3)
        reads.append(store.values["contents"].reads)
    assert reads == [1, 1, 1]


def test_another_number_of_buckets_is_refused_and_says_what_to_do() -> None:
    store = Store()
    hear(store, windows(asking()))
    with pytest.raises(StateError, match=f"made with {BUCKETS} buckets, not 9: run with --buckets 8"):
        hear(store, windows(asking()), buckets=9)


def test_a_bucket_has_one_timer_and_those_of_many_are_spread() -> None:
    due = []
    for number in range(200):
        store = Store()
        for _ in range(2):
            hear(store, windows(asking()), number, buckets=200)
        (timer,) = store.timers
        due.append(timer - NOW)
    assert min(due) > 0 and max(due) <= SUMMARY_INTERVAL
    assert len({after // 1_000 for after in due}) > 40


def test_after_a_loss_known_connections_are_interrupted_once_and_new_ones_are_not() -> None:
    store, exchange = Store(), asking()
    hear(store, windows(exchange))
    known = len(exchange.records)
    exchange.request("Metadata", 12, client_id="app", settled=True)
    report = hear(store, windows(exchange, known), resumed_at=NOW)
    assert report.checks["kip35/version-out-of-range"] == {"undecided": 1}
    assert report.findings == []
    assert unpack_bucket(store.stored["bucket"], lambda: None).resumed_at == NOW
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 12, client_id="app", settled=True)
    report = hear(store, windows(exchange, known + 1), resumed_at=NOW)
    assert report.checks["kip35/version-out-of-range"] == {"conforms": 1}


CHANGED, MALFORMED = "kip1313/instance-id-changed", "kip511/software-name-malformed"


def test_suppressed_findings_are_told_with_the_reason_and_alarm_nobody() -> None:
    """Both are told as decided; what is kept is as it would be without the decisions."""
    borne = Suppression(CHANGED, "fixed in 2.0", date(2999, 1, 1))
    decisions = Decisions(Configuration(levels={MALFORMED: Level.INFORMATION}, suppress=[borne]))
    plain, decided = Store(), Store()
    as_found = hear(plain, windows(violating(), 0, -1))
    report = hear(decided, windows(violating(), 0, -1), terms=travelled(decisions.terms))
    told = {found.rule: found.suppressed for found in report.findings if found.suppressed}
    assert told == {CHANGED: Suppressed("fixed in 2.0", "2999-01-01")}
    levels = {(offence.rule, offence.level): count for offence, count in report.offences}
    assert levels == {(CHANGED, SUPPRESSED): 2, (MALFORMED, "information"): 1}
    assert report.checks == as_found.checks
    assert decided.stored == plain.stored


def test_a_rule_that_is_off_judges_nobody() -> None:
    terms = travelled(Decisions(Configuration(disable=[MALFORMED])).terms)
    report = hear(Store(), windows(violating()), terms=terms)
    assert {finding.rule for finding in report.findings} == {CHANGED}
    assert MALFORMED not in report.checks


@pytest.mark.parametrize(("choices", "found"), [([], ["kip1082/member-id-empty"]), (["kip1082=text"], [])])
def test_the_reading_of_a_kip_is_the_chosen_one(choices: list[str], found: list[str]) -> None:
    """The text of KIP-1082 does not demand a member ID of version 1."""
    exchange = Exchange()
    body = {"groupId": "g", "memberId": "", "memberEpoch": 0}
    exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app")
    terms = travelled(Decisions(Configuration(spec=choices)).terms)
    report = hear(Store(), windows(exchange), terms=terms)
    assert [finding.rule for finding in report.findings] == found


def test_what_is_remembered_of_judging_outlives_a_task_but_not_its_query() -> None:
    """Each task gets the processor anew; a query that is started again has another one."""
    processor, store = BucketProcessor(BUCKETS, Terms()), Store()
    tasks = [cloudpickle.loads(cloudpickle.dumps(processor)) for _ in range(2)]
    for task in (*tasks, restarted := BucketProcessor(BUCKETS, Terms())):
        task.init(store)
    assert tasks[0]._step is tasks[1]._step is not restarted._step


def travelled(terms: Terms) -> Terms:
    """Give the terms as a worker gets them."""
    arrived: Terms = cloudpickle.loads(cloudpickle.dumps(terms))
    return arrived
