"""Which client software has series of its own, whatever clients call themselves; no count is lost."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expectations.judging.outcome import Offence
from expectations.report.client import Software
from streaming.metrics.definitions import FINDINGS
from streaming.metrics.labels import (
    FORMER,
    INVALID,
    LEAVES_AFTER,
    MINUTE,
    OTHER,
    UNKNOWN,
    WAITING_PER_SLOT,
    LabelSlots,
    SoftwareSlots,
)
from streaming.query.application_metrics import ApplicationMetrics

LIMIT = 100
JAVA = ("apache-kafka-java", "4.1.0")
INVENTED = [(f"invented-{number}", "1.0") for number in range(LIMIT)]
RULE = "kip35/version-out-of-range"
Series: TypeAlias = tuple[str, ...]


class Clock:
    """The metrics of an application, whose connections and findings a test makes minute by minute."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.metrics = ApplicationMetrics([RULE], version="0.1.0", kafka="4.4.0", label_limit=limit)
        self.now = 0.0
        self.metrics.reassign_labels(self.now)

    def minute(self, connections: Iterable[Software], at_once: int = 1) -> None:
        self.metrics.show_connections({(software, "L"): at_once for software in connections})
        self.now += MINUTE
        self.metrics.reassign_labels(self.now)

    def minutes(self, count: int, connections: Iterable[Software], at_once: int = 1) -> None:
        shown = list(connections)
        for _ in range(count):
            self.minute(shown, at_once)

    def shown(self) -> set[Software]:
        (family,) = (each for each in self.metrics.registry.collect() if each.name == "kipwatch_connections")
        return {
            (sample.labels["client_software_name"], sample.labels["client_software_version"])
            for sample in family.samples
        }

    def findings(self) -> dict[Series, float]:
        name = FINDINGS.name.removesuffix("_total")
        (family,) = (each for each in self.metrics.registry.collect() if each.name == name)
        return {
            tuple(sample.labels.values()): sample.value
            for sample in family.samples
            if sample.name == FINDINGS.name
        }

    def find(self, software: Software, amount: int = 1) -> None:
        self.metrics.count_findings(Offence(RULE, "violation", "client", *software), amount)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_hundred_invented_names_do_not_keep_a_real_one_out(clock: Clock) -> None:
    clock.minute(INVENTED)
    clock.minute([JAVA])
    assert clock.shown() == {(OTHER, OTHER)}
    clock.minutes(11, [JAVA])
    assert clock.shown() == {JAVA}


def test_what_comes_at_once_with_invented_names_is_there_if_it_is_seen_more(clock: Clock) -> None:
    connections: dict[tuple[Software, str], int] = {(software, "L"): 1 for software in INVENTED}
    clock.metrics.show_connections(connections | {(JAVA, "L"): 5})
    assert JAVA in clock.shown()


def test_a_name_that_stays_is_not_displaced_by_a_burst(clock: Clock) -> None:
    """Of a thousand connections under each of a hundred names, nor by names that change every minute."""
    clock.minutes(120, [JAVA])
    clock.minutes(5, [JAVA, *INVENTED, *((f"more-{number}", "1") for number in range(LIMIT))], at_once=1000)
    assert JAVA in clock.shown()
    for minute in range(30):
        clock.minute([JAVA, *((f"{name}-{minute}", version) for name, version in INVENTED)])
    assert JAVA in clock.shown()


def test_a_name_that_was_seen_for_long_outlasts_a_night(clock: Clock) -> None:
    clock.minutes(24 * 60, [JAVA])
    clock.minutes(8 * 60, INVENTED)
    clock.minute([JAVA, *INVENTED])
    assert JAVA in clock.shown()


def test_invented_versions_cost_only_the_name_that_has_them(clock: Clock) -> None:
    librdkafka = ("librdkafka", "2.11.0")
    forged = [("librdkafka", f"6.{number}") for number in range(LIMIT)]
    clock.minute([*forged, ("librdkafka", "2.10.0")])
    clock.minutes(15, [JAVA, librdkafka])
    clock.minute([*forged, JAVA, librdkafka])
    shown = clock.shown()
    assert {JAVA, librdkafka, ("librdkafka", OTHER)} <= shown
    assert len(shown) == 1 + LIMIT // 10 + 1


def test_only_what_kip_511_allows_takes_a_slot() -> None:
    slots = SoftwareSlots(1, lambda amount: None)
    for malformed in ("a b", "café", "a/1", "\x00", "x" * 300 + "\N{HORIZONTAL ELLIPSIS}", FORMER):
        assert slots.admit(malformed, "1.0") == (INVALID, INVALID)
    assert slots.admit(None, None) == (UNKNOWN, UNKNOWN)
    assert slots.admit(*JAVA) == JAVA
    assert slots.admit(JAVA[0], "not a version") == (JAVA[0], INVALID)
    assert slots.admit(JAVA[0], "") == (JAVA[0], UNKNOWN)
    assert slots.admit("librdkafka", "2.11.0") == (OTHER, OTHER)


@pytest.mark.parametrize("name", [UNKNOWN, OTHER, INVALID])
def test_nobody_can_name_himself_like_those_without_a_name(name: str) -> None:
    """The alert waits for offences of `unknown` to go on."""
    assert SoftwareSlots(LIMIT, lambda amount: None).admit(name, "1.0") == (INVALID, INVALID)


def test_a_hundred_thousand_names_leave_no_memory_of_most() -> None:
    slots = LabelSlots(3)
    for name in ("first", "second", "third"):
        assert slots.see(name)
    tracemalloc.start()
    for number in range(100_000):
        slots.see(f"invented-{number}")
        if number % 100 == 0:
            slots.see("steady", 2)
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 1_000 * 2 * WAITING_PER_SLOT * 3
    assert not slots.see("steady")
    for minute in range(20):
        slots.reassign(minute * MINUTE)
        slots.see("steady")
    assert slots.see("steady")


def test_findings_of_software_that_is_gone_keep_their_series_for_an_hour_and_their_count_for_ever() -> None:
    clock = Clock(limit=1)
    clock.find(INVENTED[0], 3)
    clock.minutes(11, [JAVA])
    clock.find(JAVA, 4)
    own, former, java = (
        (RULE, "violation", "client", *software, UNKNOWN, UNKNOWN, UNKNOWN)
        for software in (INVENTED[0], (FORMER, FORMER), JAVA)
    )
    assert clock.shown() == {(OTHER, OTHER)}
    clock.minutes(50, [JAVA])
    assert clock.findings().keys() >= {own}
    clock.minutes(12, [JAVA])
    clock.find(JAVA, 5)
    found = {tuple(labels): value for labels, value in clock.findings().items()}
    assert found[former] == 3 and found[java] >= 5 and own not in found
    assert sum(found.values()) == 12


names = st.sampled_from(["a", "b", "c", "d", "e", "not valid", None])
found = st.lists(st.tuples(names, st.sampled_from(["1", "2", "?", None]), st.integers(1, 9)), max_size=5)


@given(st.lists(st.tuples(found, st.integers(1, 30)), max_size=30))
def test_sums_stay_exact_whatever_clients_call_themselves(
    batches: list[tuple[list[tuple[str | None, str | None, int]], int]],
) -> None:
    """At each scrape the page adds up, and so does what Prometheus sees grow; no counter falls."""
    clock, total, grown = Clock(limit=2), 0, 0.0
    seen: dict[Series, float] = {}
    changed_at: dict[Series, float] = {}
    for findings, minutes in batches:
        for name, version, amount in findings:
            clock.find((name, version), amount)
            total += amount
        for _ in range(minutes):
            page = clock.findings()
            assert sum(page.values()) == total
            assert all(page[series] >= value for series, value in seen.items() if series in page)
            gone = [series for series in seen if series not in page]
            assert all(clock.now - changed_at[series] >= LEAVES_AFTER for series in gone)
            grew = {series: value - seen.get(series, 0) for series, value in page.items()}
            grown += sum(amount for series, amount in grew.items() if FORMER not in series)
            changed_at |= {series: clock.now for series, amount in grew.items() if amount}
            seen = page
            clock.minute({(name, version) for name, version, _ in findings})
    assert grown == total
    assert len({series[:2] for series in seen}) <= (2 * 2 + 3) * 5
