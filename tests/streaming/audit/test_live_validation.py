"""A sample of a batch is validated in a process of its own; whatever happens there, the query goes on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from expectations.judging.finding import Finding
from streaming.audit import live_validation
from streaming.audit.live_validation import (
    AFTER_FAILURE,
    FIRST_AFTER,
    MOST,
    SHARE,
    Demands,
    LiveValidation,
    Successes,
    ValidationOutcome,
    drawn,
    sample_of,
)
from streaming.judging.report import Report
from streaming.settings.configuration import Configuration
from tests.decoders.frame.columnar.batches import block
from tests.exchange import Exchange
from tests.streaming.archive.test_archive import grouped, judged
from tests.streaming.captures import violating

PATIENCE = 120.0
POLICIES = Path(__file__).parents[2] / "expectations" / "suites" / "policies"
TABLES = {"records", "frames", "usage", "errors", "findings", "coverage", "connections", "groups", "brokers"}
BASE = 1_780_000_000_000_000_000
"""A day of 2026, in nanoseconds."""


NOISE = """
import pickle
load = pickle.load
def load_noisily(stream):
    print("noise", flush=True)
    return load(stream)
pickle.load = load_noisily
"""
"""Lets a process print whenever it reads a sample."""


class Shown:
    """What the metrics page would show."""

    def __init__(self) -> None:
        self.successes: Successes = {}
        self.policies: Demands = {}
        self.outcomes = Counter[ValidationOutcome]()
        self.seconds = 0.0

    def show_expectations(self, successes: Successes, policies: Demands) -> None:
        self.successes.update(successes)
        self.policies = policies

    def count_validation(self, outcome: ValidationOutcome, seconds: float = 0.0) -> None:
        self.outcomes[outcome] += 1
        self.seconds += seconds

    @property
    def failed(self) -> set[tuple[str, str]]:
        return {labels for labels, success in self.successes.items() if not success}


class Live:
    """A live validation whose batches take as long as the test says."""

    def __init__(self, bootstrap: str = "127.0.0.1:1", policies: str = "") -> None:
        self.shown, self.batch_seconds = Shown(), FIRST_AFTER
        configuration = Configuration(bootstrap=bootstrap, policies=policies)
        self.validation = LiveValidation(configuration, self.shown, lambda: self.batch_seconds)

    def validate(self, reports: Sequence[Report], findings: Sequence[Finding]) -> None:
        self.validation.begin(reports, findings)
        self.validation.wait(PATIENCE)


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A mock broker with a topic of frames; it lives as long as the producer that made it."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (metadata,) = producer.list_topics(timeout=5).brokers.values()
    producer.produce("kipwatch.frames", block(of_2026(grouped()).records), partition=0)
    assert producer.flush(5) == 0
    yield f"{metadata.host}:{metadata.port}"


def of_2026(exchange: Exchange, connection: bytes = b"v" * 16) -> Exchange:
    exchange.records[:] = [
        replace(record, captured_at=BASE + record.captured_at, connection=connection)
        for record in exchange.records
    ]
    return exchange


@pytest.mark.slow
def test_each_expectation_is_shown_and_what_it_costs_decides_when_the_next_is_due(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    live = Live(bootstrap)
    live.batch_seconds -= 1.0
    assert not live.validation.is_due()
    live.batch_seconds += 1.0
    assert live.validation.is_due()
    reports = [judged(of_2026(violating())), judged(of_2026(grouped(), b"g" * 16))]
    findings = [finding for report in reports for finding in report.findings]
    live.validate(reports, findings)
    assert live.shown.outcomes == {ValidationOutcome.DONE: 1}
    assert {suite for suite, _ in live.shown.successes} == TABLES
    assert live.shown.failed == set()
    first = live.shown.seconds
    assert first > 0
    assert not live.validation.is_due()
    live.batch_seconds += first / SHARE
    assert live.validation.is_due()

    unheard = msgspec.structs.replace(findings[0], rule="kip1313/never-heard-of")
    live.validate(reports, [unheard, *findings[1:]])
    assert live.shown.failed == {("findings", "rule-in-catalogue")}
    assert live.shown.outcomes == {ValidationOutcome.DONE: 2}
    assert 0 < live.shown.seconds - first < first, "the library is loaded once"
    assert "findings/rule-in-catalogue" in capsys.readouterr().out
    live.validation.close()
    assert not live.validation.is_due()


@pytest.mark.slow
def test_policies_are_validated_beside_the_suites_in_their_authors_words(bootstrap: str) -> None:
    live = Live(bootstrap, str(POLICIES))
    live.validate([judged(of_2026(violating())), judged(of_2026(grouped(), b"g" * 16))], [])
    live.validation.close()
    assert live.shown.outcomes == {ValidationOutcome.DONE: 1}
    demanded = live.shown.policies["software-named", "each-names-itself"]
    assert demanded == "Every service names its software."
    assert {suite for suite, _ in live.shown.successes} == TABLES | {
        suite for suite, _ in live.shown.policies
    }
    assert live.shown.failed <= live.shown.policies.keys()


@pytest.mark.slow
def test_where_kafka_cannot_be_read_the_tables_are_validated_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What libraries print meanwhile is no reply."""
    (tmp_path / "sitecustomize.py").write_text(NOISE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    live = Live()
    live.validate([judged(of_2026(grouped()))], [])
    live.validation.close()
    assert live.shown.outcomes == {ValidationOutcome.FAILED: 1}
    assert {suite for suite, _ in live.shown.successes} == TABLES - {"records", "frames"}


def test_without_the_library_nothing_is_due_and_that_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_validation, "_LIBRARY", "no_such_library")
    live = Live()
    assert not live.validation.is_due()
    assert live.shown.outcomes == {ValidationOutcome.UNAVAILABLE: 1}


def test_a_validator_that_ends_is_counted_and_another_one_is_tried_much_later(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live_validation, "_VALIDATOR", "no_such_module")
    live = Live()
    for number in (1, 2):
        assert live.validation.is_due()
        live.validate([Report(0)], [])
        assert live.shown.outcomes == {ValidationOutcome.FAILED: number}
        assert not live.validation.is_due()
        live.batch_seconds += AFTER_FAILURE / SHARE


def test_a_validator_that_hangs_is_ended_and_counted_and_holds_up_no_batch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "hanging_validator.py").write_text("import time\ntime.sleep(1_000)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(live_validation, "_VALIDATOR", "hanging_validator")
    monkeypatch.setattr(live_validation, "LONGEST", 0.5)
    live = Live()
    live.validation.begin([Report(0)], [])
    assert not live.validation.is_due()
    live.validation.wait(PATIENCE)
    assert live.shown.outcomes == {ValidationOutcome.FAILED: 1}
    assert "the validator ended" in capsys.readouterr().out


def test_a_validator_that_hangs_ends_with_the_query(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hanging_validator.py").write_text("import time\ntime.sleep(1_000)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(live_validation, "_VALIDATOR", "hanging_validator")
    live = Live()
    began = time.monotonic()
    live.validation.begin([Report(0)], [])
    live.validation.close()
    live.validation.wait(PATIENCE)
    assert live.shown.outcomes == {}
    assert time.monotonic() - began < PATIENCE


def test_a_sample_is_drawn_from_all_buckets() -> None:
    buckets = [[(bucket, row) for row in range(100)] for bucket in range(64)]
    sample = drawn(buckets, MOST)
    assert len(set(sample)) == len(sample) == MOST
    assert {bucket for bucket, _ in sample} == set(range(64))
    assert drawn(buckets[:3], MOST) == [*chain.from_iterable(buckets[:3])]


def test_a_sample_is_bounded_however_large_the_batch() -> None:
    report = judged(grouped())
    many = msgspec.structs.replace(report, usage=report.usage * 2 * MOST)
    findings = judged(violating()).findings * 2 * MOST
    sample = sample_of([many, many], findings)
    assert len(sample.usage) == len(sample.findings) == MOST
    assert sample.checks == {
        rule: {verdict: 2 * count for verdict, count in verdicts.items()}
        for rule, verdicts in report.checks.items()
    }
