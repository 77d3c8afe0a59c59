"""Steps a bucket as the query does, with an automaton and without one; both must come to the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from decoders.retention import REPUBLISH_AFTER
from decoders.schema.registry import default_schemas
from expectations.conversation.observation import Window
from expectations.identity.claim import united
from expectations.identity.packed_claims import PackedClaims
from expectations.judging.automaton import Automaton
from expectations.judging.cells import FACTS, HAS_FINDINGS, IN_FLIGHT, SERVER, TEXT
from expectations.judging.judge import ConnectionState, Judge
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Rule
from streaming.judging.report import Report
from streaming.judging.step import BucketStep
from streaming.state.bucket import Bucket
from streaming.state.connections import Connections
from tests.cases.notation import Case
from tests.exchange import Exchange
from tests.streaming.judging.activities import IDS
from tests.streaming.judging.disguise import disguised
from tests.streaming.judging.travelling import in_batches, on, travelled, windows
from tests.streaming.state.bucket_store import BucketStore, held

NAMES, APIS = default_schemas().api_names, default_schemas().by_key
SECRET = bytes(range(32))
"""The secret of automata: equal runs of a test are alike."""
NOW = 1_800_000_000_000
"""The processing time of the first tick, in milliseconds."""


class CountingJudge(Judge):
    """Counts the observations that the rules judge."""

    judged = 0

    def judge(self, state: ConnectionState, window: Window) -> Outcome:
        self.judged += len(window.observations)
        return super().judge(state, window)


def comparable(report: Report) -> dict[str, object]:
    """Return the contents of a report without their order, and without how many windows were walked.

    Equal claims of several connections are merged, as they are before they are judged.
    """
    claims = united(report.claims)
    report = msgspec.structs.replace(report, claims=PackedClaims())
    raw: dict[str, Any] = msgspec.to_builtins(report, str_keys=True, order="deterministic")
    raw["claims"] = msgspec.to_builtins(claims, str_keys=True, order="deterministic")
    raw["findings"] = sorted(raw["findings"], key=lambda finding: finding["id"])
    *changes, further = raw["changes"]
    raw["changes"] = [*(sorted(map(str, kind)) for kind in changes), further]
    for name in ("offences", "claims", "usage", "requests", "brokers"):
        raw[name] = sorted(map(str, raw[name]))
    return {name: value for name, value in raw.items() if name not in ("walked", "judged", "clears")}


def difference(report: Report, expected: Report) -> dict[str, tuple[object, object]]:
    """Return what differs in two reports, by name."""
    found, wanted = comparable(report), comparable(expected)
    return {name: (found[name], wanted[name]) for name in found if found[name] != wanted[name]}


class Stores:
    """What a bucket stores that is stepped with an automaton, and one that is stepped without."""

    def __init__(self) -> None:
        self.walked, self.judged = BucketStore(Bucket()), BucketStore(Bucket())
        self.ticks = 0


class Pair:
    """A step with an automaton and one without. The automaton stays from one bucket to the next.

    `judge` counts the observations that are left to it where there is an automaton, `walked` the windows that
    are not.
    """

    def __init__(self, terms: Terms | None = None, *, archives: bool = True, resumed_at: int = 0) -> None:
        self.judge, plain = CountingJudge(NAMES, terms), Judge(NAMES, terms)
        self.automaton, self.walked = Automaton(plain, SECRET), 0
        self._walking = BucketStep(
            self.judge, APIS, resumed_at, counts_usage=archives, automaton=self.automaton
        )
        self._judging = BucketStep(plain, APIS, resumed_at, counts_usage=archives)

    def step(self, stores: Stores, *parts: Sequence[Window]) -> Report:
        """Step both buckets with the windows of some Arrow batches, which must come to the same."""
        buckets = stores.walked.load(), stores.judged.load()
        columns = [columns for part in parts for columns in travelled(part)]
        report, expected = (
            step.process(0, bucket, columns)
            for step, bucket in zip((self._walking, self._judging), buckets, strict=True)
        )
        differing = difference(report, expected)
        assert not differing, differing
        assert report.walked + report.judged == expected.judged
        self.walked += report.walked
        _save(stores, buckets)
        return report

    def walk(self, bucket: Bucket, *parts: Sequence[Window]) -> Report:
        """Step a bucket with the automaton alone."""
        return self._walking.process(0, bucket, [columns for part in parts for columns in travelled(part)])

    def tick(self, stores: Stores) -> Report:
        """Let ten minutes pass in both buckets, which must come to the same."""
        stores.ticks += 1
        now = NOW + stores.ticks * REPUBLISH_AFTER
        buckets = stores.walked.load(), stores.judged.load()
        report = self._walking.tick(0, buckets[0], now)
        differing = difference(report, self._judging.tick(0, buckets[1], now))
        assert not differing, differing
        _save(stores, buckets)
        return report

    def compare(self, batches: Iterable[Sequence[Sequence[Window]]], ticks_every: int = 3) -> None:
        """Step buckets with batches, with ticks in between and one at the end."""
        stores = Stores()
        for number, parts in enumerate(batches, 1):
            self.step(stores, *parts)
            if number % ticks_every == 0:
                self.tick(stores)
        self.tick(stores)

    def compare_in_turns(self, batches: Sequence[Sequence[Sequence[Window]]], turns: int = 2) -> None:
        """Compare batches, and then the same in disguise: with the transitions that were learnt before."""
        for turn in range(turns):
            self.compare([[disguised(part, turn) for part in parts] for parts in batches])


def _save(stores: Stores, buckets: tuple[Bucket, Bucket]) -> None:
    for store, bucket in zip((stores.walked, stores.judged), buckets, strict=True):
        store.save(bucket)
    walked, judged = stores.walked.load(), stores.judged.load()
    assert rows(walked.connections) == rows(judged.connections)
    if stores.walked.contents == stores.judged.contents:
        # Equal rows are read as equal states, so nothing is left to compare but the rest of the buckets.
        walked.connections = judged.connections = Connections()
    assert held(walked) == held(judged)


def rows(connections: Connections) -> dict[bytes, object]:
    """Return what is stored of connections beside their contents."""
    return {
        connections.id_at(place): (
            connections.clients[place],
            connections.facts.values[connections.rows[place, FACTS]],
            connections.servers.values[connections.rows[place, SERVER]],
            connections.rows[place, HAS_FINDINGS:TEXT].tolist(),
            [connections.texts.values[text] for text in connections.rows[place, TEXT:].tolist()],
            connections.in_flight.values[connections.rows[place, IN_FLIGHT]],
        )
        for place in range(len(connections.rows))
    }


class Pairs:
    """A pair for each reading."""

    def __init__(self, *, archives: bool = True) -> None:
        self._archives = archives
        self._pairs: dict[tuple[str, ...], Pair] = {}

    @property
    def clears(self) -> int:
        """How often their automata were full."""
        return sum(pair.automaton.clears for pair in self._pairs.values())

    def of(self, rules: Sequence[Rule]) -> Pair:
        reading = tuple(rule.spec for rule in rules)
        if reading not in self._pairs:
            self._pairs[reading] = Pair(Terms(rules), archives=self._archives)
        return self._pairs[reading]

    def compare(self, cases: Iterable[Case], size: int) -> None:
        """Compare what cases say in batches of so many records."""
        for case in cases:
            exchange, rules = case.exchange()
            self.of(rules).compare_in_turns(in_batches(exchange, size))


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
