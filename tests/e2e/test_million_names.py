"""A million invented names neither fill the memory nor delay what ordinary clients are accused of.

Hostile clients say ever new software names, client, member and instance IDs. Before and meanwhile ordinary
clients with planted offences are captured again and again. All of them pass real feeders.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from expectations.judging.finding import Finding
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.catalogue import rule_named
from streaming.broker.findings_topic import FindingsTopic
from streaming.check.examination import examine
from streaming.demo.child import Child
from streaming.settings.release import load_schemas
from tests.captures import planted
from tests.e2e import million_names
from tests.e2e.sampled_road import FINDINGS_TOPIC, FRAMES_TOPIC, Sample, SampledRoad, curves, paced

NAMES: Final = int(os.environ.get("KIPWATCH_HOSTILE_NAMES", "1000000"))
SECONDS: Final = int(os.environ.get("KIPWATCH_HOSTILE_SECONDS", "900"))
FOLDER: Final = os.environ.get("KIPWATCH_HOSTILE_FOLDER", "")
"""The folder for samples and curves, if any."""
QUIET_PROBES: Final = 4
"""Probes before the attack. The first one finds caches empty and is not counted."""
PROBE_SECONDS: Final = 60.0
"""Seconds between the beginnings of two probes during the attack."""
GIVEN_UP: Final = 180.0
SAMPLE_SECONDS: Final = 5.0
WORKERS_MEBIBYTES: Final = 2_600
"""All of Spark's Python workers on two cores, pages that they share counted for each."""
FEEDER_MEBIBYTES: Final = 1_024
"""Half of what the systemd unit allows."""
USUAL_SECONDS: Final = 60.0
"""The limit of tests/e2e/test_hostile.py for the offences that one connection shows."""

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(SECONDS + 900)]


class Attacked(NamedTuple):
    """What was measured. Delays are in seconds after the last frame of a probe was published."""

    quiet: list[float]
    attacked: list[float]
    samples: list[Sample]


class Probes:
    """Ordinary clients with planted offences, fed again and again, each time as another cluster."""

    def __init__(self, road: SampledRoad, topic: FindingsTopic, expected: list[Finding]) -> None:
        self._port = expected[0].broker.rpartition(":")[2]
        self._expected = len(_direct(expected))
        self._road, self._topic = road, topic
        self._number = 0
        self.samples: list[Sample] = []

    def delay(self) -> float:
        """Feed once, and return after which time all is found that one connection shows by itself."""
        self._number += 1
        cluster, log = f"probe-{self._number}", self._road.folder / f"probe-{self._number}.log"
        kafka = ["--bootstrap", self._road.bootstrap, "--frames-topic", FRAMES_TOPIC]
        feed = ["feed", *kafka, "--ports", self._port, "--cluster", cluster, str(planted.CAPTURE)]
        with Child(feed, log) as feeder:
            feeder.wait_for('"stopped"', GIVEN_UP)
        published, found = time.monotonic(), dict[str, Finding]()
        while time.monotonic() < published + GIVEN_UP:
            found |= self.watch(cluster)
            if len(_direct(list(found.values()))) >= self._expected:
                return time.monotonic() - published
        raise AssertionError(f"{cluster}: {len(found)} findings after {GIVEN_UP:.0f} s")

    def watch(self, cluster: str = "") -> dict[str, Finding]:
        """Wait a moment, take a sample if one is due, and return the findings of a cluster among new ones."""
        fresh = self._topic.poll(0.5)
        # Those of the attack are too many to be kept.
        self._topic.findings.clear()
        if not self.samples or self._road.seconds > self.samples[-1].seconds + SAMPLE_SECONDS:
            sample = self._road.sample()
            self.samples += [sample] if sample else []
        return {finding.id: finding for finding in fresh if finding.cluster == cluster}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    expected = examine(planted.CAPTURE, load_schemas("")).findings
    begins, attacking = threading.Event(), list[float]()
    blocks = _attack(begins, max(finding.last_captured_at for finding in expected))
    with (
        SampledRoad(tmp_path_factory.mktemp("names"), blocks) as road,
        closing(FindingsTopic(road.bootstrap, FINDINGS_TOPIC)) as topic,
    ):
        probes = Probes(road, topic, expected)
        quiet = [probes.delay() for _ in range(QUIET_PROBES)][1:]
        begins.set()
        begin = road.seconds
        while road.seconds < begin + SECONDS:
            attacking.append(probes.delay())
            while road.seconds < begin + min(SECONDS, PROBE_SECONDS * len(attacking)):
                probes.watch()
        attacking.append(probes.delay())
        while road.seconds < begin + SECONDS + GIVEN_UP and probes.samples[-1].frames < 2 * NAMES:
            probes.watch()
    attacked = Attacked(quiet, attacking, probes.samples)
    _report(attacked, begin)
    return attacked


def _attack(begins: threading.Event, captured_at: int) -> Iterator[bytes]:
    begins.wait()
    blocks_a_second = NAMES / million_names.NAMES_OF_BLOCK / SECONDS
    blocks = million_names.capture(NAMES, captured_at, int(1e9 / blocks_a_second))
    yield from paced(blocks, blocks_a_second)
    # At the end of its input the feeder would end.
    threading.Event().wait()


def _direct(findings: list[Finding]) -> list[Finding]:
    """Return the findings that one connection shows; those of shared identities settle later."""
    return [finding for finding in findings if not isinstance(rule_named(finding.rule), IdentityRule)]


def _report(attacked: Attacked, begin: float) -> None:
    print("delays without the attack:", *(f"{delay:.1f}" for delay in attacked.quiet))
    print("delays during the attack:", *(f"{delay:.1f}" for delay in attacked.attacked))
    print("seconds names feeder driver java workers state open frames lag")
    for sample in attacked.samples[:: int(30 / SAMPLE_SECONDS)]:
        said = min(NAMES, max(0.0, sample.seconds - begin) * NAMES / SECONDS)
        memory = (sample.feeder, sample.driver, sample.java, sample.workers, sample.state)
        counts = (sample.open_connections, sample.frames, sample.lag)
        print(f"{sample.seconds - begin:.0f}", *(f"{value:.0f}" for value in (said, *memory, *counts)))
    if FOLDER:
        written = b"\n".join(map(msgspec.json.encode, attacked.samples))
        Path(FOLDER, "million-names.jsonl").write_bytes(written)
        title = "Resident memory while a million names are invented"
        Path(FOLDER, "million-names.svg").write_text(curves(title, attacked.samples))


def test_all_names_are_judged(attacked: Attacked) -> None:
    assert attacked.samples[-1].frames >= 2 * NAMES


def test_ordinary_offences_are_found_with_the_usual_delay(attacked: Attacked) -> None:
    assert statistics.median(attacked.attacked) < USUAL_SECONDS


def test_memory_is_bounded(attacked: Attacked) -> None:
    assert max(sample.workers for sample in attacked.samples) < WORKERS_MEBIBYTES
    assert max(sample.feeder for sample in attacked.samples) < FEEDER_MEBIBYTES
