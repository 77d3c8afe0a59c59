"""What is routine is judged without asking the rules, and comes to just what they would say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoders.schema.registry import default_schemas
from expectations.conversation.connection_window import ConnectionWindow
from expectations.judge import ConnectionState, Judge
from expectations.outcome import Outcome
from streaming.query import routine
from streaming.query.bucket import Bucket, BucketStep, pack_bucket, unpack_bucket
from streaming.query.report import Report
from tests.exchange import ID_A, Exchange
from tests.expectations.test_fold import STEPS
from tests.streaming.query.test_bucket import on, windows
from tests.streaming.query.travelling import folded, observed, travelled

NAMES = default_schemas().api_names
IDS = (b"a", b"b", b"c")


class CountingJudge(Judge):
    """Counts the observations that it is asked about."""

    asked = 0

    def hear_each(self, state: ConnectionState, window: ConnectionWindow) -> list[Outcome]:
        self.asked += len(window.observations)
        return super().hear_each(state, window)


def fetch(exchange: Exchange, **how: object) -> None:
    exchange.answer(exchange.request("Fetch", 12, client_id="app", **how), {})


def commit(exchange: Exchange) -> None:
    exchange.answer(exchange.request("OffsetCommit", 8, client_id="app"), {})


def long_poll(exchange: Exchange) -> None:
    """The answer to an earlier fetch, and the next one."""
    paired = {seen.paired_sequence for seen in exchange.records}
    waiting = [seen for seen in exchange.records if seen.frame[:2] == (1).to_bytes(2)]
    for request in waiting:
        if request.sequence not in paired:
            exchange.answer(request, {})
            break
    exchange.request("Fetch", 12, client_id="app", settled=True)


def write_unacknowledged(exchange: Exchange) -> None:
    exchange.request("Produce", 9, {"acks": 0}, client_id="app")


DEEDS: dict[str, Callable[[Exchange], object]] = {
    "fetch": fetch,
    "fetch, settled": lambda exchange: fetch(exchange, settled=True),
    "fetch with ID": lambda exchange: exchange.answer(
        exchange.request("Metadata", 14, instance_id=ID_A, client_id="app"), {}
    ),
    "commit": commit,
    "long poll": long_poll,
    "unacknowledged": write_unacknowledged,
}
ROUTINE = st.lists(st.sampled_from([*DEEDS, "A twice", "answer", "wait"]), max_size=40)
ANYTHING = st.lists(st.sampled_from([*DEEDS, *STEPS]), max_size=40)


def said(deeds: list[str], mid_stream: bool) -> Exchange:
    exchange = Exchange(mid_stream=mid_stream)
    if not mid_stream:
        exchange.negotiate(client_id="app")
    for deed in deeds:
        (DEEDS | STEPS)[deed](exchange)
    return exchange


def batches(exchanges: list[Exchange], size: int) -> Iterator[list[ConnectionWindow]]:
    longest = max(len(exchange.records) for exchange in exchanges)
    for begin in range(0, longest, size):
        parts = zip(IDS, exchanges, strict=False)
        yield [one for name, exchange in parts for one in on(name, windows(exchange, begin, begin + size))]


def together(given: Iterator[list[ConnectionWindow]], count: int) -> Iterator[list[ConnectionWindow]]:
    while parts := list(itertools.islice(given, count)):
        yield list(itertools.chain(*parts))


def told(report: Report) -> object:
    """What a report says, in whatever order."""
    raw = msgspec.to_builtins(report, str_keys=True)
    raw["findings"] = sorted(raw["findings"], key=lambda finding: finding["id"])
    return raw | {name: sorted(map(str, raw[name])) for name in ("offences", "claims")}


@settings(max_examples=400, deadline=None)
@given(
    st.lists(ROUTINE | ANYTHING, min_size=1, max_size=3), st.integers(1, 12), st.integers(1, 3), st.booleans()
)
def test_who_remembers_and_who_asks_each_time_say_the_same(
    scripts: list[list[str]], size: int, at_once: int, mid_stream: bool
) -> None:
    """A step may hear several windows of a connection: one from each batch of Arrow's."""
    exchanges = [said(deeds, mid_stream) for deeds in scripts]
    experienced = BucketStep(Judge(NAMES), NAMES)
    for turn in range(2):
        remembering = forgetting = pack_bucket(Bucket())
        for batch in together(batches(exchanges, size), at_once):
            buckets = unpack_bucket(remembering), unpack_bucket(forgetting)
            forgetful = BucketStep(Judge(NAMES), NAMES)
            reports = (
                experienced.hear(turn, buckets[0], travelled(batch)),
                forgetful.hear(turn, buckets[1], batch),
            )
            assert told(reports[0]) == told(reports[1])
            remembering, forgetting = map(pack_bucket, buckets)
            assert unpack_bucket(remembering) == unpack_bucket(forgetting)


@given(ANYTHING, st.integers(1, 12))
def test_what_travels_comes_as_it_went(deeds: list[str], size: int) -> None:
    for batch in batches([said(deeds, mid_stream=False)] * 2, size):
        assert observed(folded(batch)) == batch
        assert [window.observed(window.brief.moments) for window in travelled(batch)] == batch


def heard(deeds: list[str], names: bytes) -> tuple[CountingJudge, Bucket, Report]:
    """Batches of two deeds on one connection after the other; gives what the last batch came to."""
    judge = CountingJudge(NAMES)
    step, bucket, exchange = BucketStep(judge, NAMES), Bucket(), said(deeds, mid_stream=False)
    opening = said([], mid_stream=False)
    begin = len(opening.records)
    report = Report(0)
    for name in names:
        step.hear(0, bucket, travelled(on(bytes([name]), windows(exchange, 0, begin))))
        for at in range(begin, len(exchange.records), 4):
            bucket = unpack_bucket(pack_bucket(bucket))
            judge.asked = 0
            report = step.hear(0, bucket, travelled(on(bytes([name]), windows(exchange, at, at + 4))))
    return judge, bucket, report


def test_who_says_what_another_one_said_is_not_judged_again() -> None:
    judge, bucket, report = heard(["fetch", "fetch"] * 3, b"ab")
    assert judge.asked == 0
    assert report.frames == {"Fetch": {"request": 2, "response": 2}}
    assert report.checks["wire/malformed-request"] == {"conforms": 2}
    assert [state.conversation.latest_sequence for state in bucket.connections.values()] == [15, 15]


def test_beside_routine_only_heartbeats_are_judged() -> None:
    judge, _, report = heard(["fetch", "answer"] * 4, b"ab")
    assert judge.asked == 2
    assert report.frames.keys() == {"Fetch", "ConsumerGroupHeartbeat"}
    assert report.checks["kip1082/member-id-empty"] == {"conforms": 1}


@pytest.mark.parametrize("news", ["out of range", "negotiate", "gap", "unreadable beat"])
def test_news_is_judged(news: str) -> None:
    judge, _, _ = heard(["fetch", "fetch", "fetch", "fetch", news], b"ab")
    assert judge.asked > 0


def test_what_is_remembered_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routine, "MOST_REMEMBERED", 1)
    _, _, report = heard(["fetch", "commit", "commit", "fetch", "commit", "commit"], b"ab")
    assert report.frames == {"OffsetCommit": {"request": 2, "response": 2}}
