"""A million invented names neither fill the memory nor delay what ordinary clients are accused of.

Hostile clients say ever new software names, client, member and instance IDs, as fast as the query judges
them. Before and meanwhile ordinary clients with planted offences are captured again and again. All of them
pass real feeders.
"""

from __future__ import annotations

import itertools
import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from expectations.judging.finding import Finding
from streaming.broker.topics import FindingsTopic
from streaming.check.examination import examine
from streaming.demo.road import Child
from streaming.settings.release import load_schemas
from tests.captures import planted
from tests.e2e import million_names
from tests.e2e.found import of_one_connection
from tests.e2e.sampled_road import FINDINGS_TOPIC, FRAMES_TOPIC, Sample, SampledRoad, curves

NAMES: Final = int(os.environ.get("KIPWATCH_HOSTILE_NAMES", "1000000"))
SECONDS: Final = int(os.environ.get("KIPWATCH_HOSTILE_SECONDS", "3600"))
"""The longest time for all names. Two quiet cores need less than half of it."""
FOLDER: Final = os.environ.get("KIPWATCH_HOSTILE_FOLDER", "")
"""The folder for samples and curves, if any."""
QUIET_PROBES: Final = 4
"""Probes before the attack. The first one finds caches empty and is not counted."""
PROBE_SECONDS: Final = 60.0
"""Seconds between the beginnings of two probes during the attack."""
GIVEN_UP: Final = 180.0
MOST_WAITING: Final = 20_000
"""Frames of the attack that wait to be judged: more would only show that what waits takes longer."""
SAMPLE_SECONDS: Final = 5.0
SPACING: Final = 500_000_000
"""Nanoseconds of capture time between two blocks."""
WORKERS_MEBIBYTES: Final = 2_600
"""All of Spark's Python workers on two cores, pages that they share counted for each."""
FEEDER_MEBIBYTES: Final = 1_024
"""Half of what the systemd unit allows."""
USUAL_SECONDS: Final = 60.0
"""The limit of tests/e2e/test_hostile.py for the offences that one connection shows."""

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(SECONDS + 900)]


class Attacked(NamedTuple):
    """What was measured. Delays are in seconds after the last frame of a probe was published.

    `names` is how many names were said.
    """

    quiet: list[float]
    attacked: list[float]
    samples: list[Sample]
    names: int


class Attack:
    """Blocks of the attack, the next one when few enough frames wait. `judged` is how many were judged."""

    def __init__(self, captured_at: int) -> None:
        self.judged = 0.0
        self.names = 0
        self._captured_at = captured_at
        self._begins = threading.Event()
        self._judged_before = 0.0

    def begin(self, judged: float) -> None:
        """Begin, when so many frames of others have been judged."""
        self._judged_before = judged
        self._begins.set()

    def note(self, sample: Sample) -> None:
        """Note how many frames have been judged."""
        self.judged = sample.frames - self._judged_before

    def blocks(self) -> Iterator[bytes]:
        """Yield the capture from when it begins, and then nothing for ever: without input a feeder ends."""
        self._begins.wait()
        blocks = million_names.capture(NAMES, self._captured_at, SPACING)
        yield next(blocks)
        for block in blocks:
            while self.names * million_names.FRAMES_OF_NAME > self.judged + MOST_WAITING:
                time.sleep(0.1)
            yield block
            self.names += million_names.NAMES_OF_BLOCK
        threading.Event().wait()


class Probes:
    """Ordinary clients with planted offences, fed again and again, each time as another cluster."""

    def __init__(self, road: SampledRoad, topic: FindingsTopic, expected: list[Finding]) -> None:
        self._port = expected[0].broker.rpartition(":")[2]
        self._expected = len(of_one_connection(expected))
        self._road, self._topic = road, topic
        self._number = 0
        self.samples: list[Sample] = []
        self.on_sample: Callable[[Sample], None] = lambda _: None

    def delay(self) -> float:
        """Feed once, and return after which time all is found that one connection shows by itself."""
        self._number += 1
        cluster, log = f"probe-{self._number}", self._road.folder / f"probe-{self._number}.log"
        kafka = ["--bootstrap", self._road.bootstrap, "--frames-topic", FRAMES_TOPIC]
        feed = ["feed", *kafka, "--ports", self._port, "--cluster", cluster, str(planted.CAPTURE)]
        found = dict[str, Finding]()
        with Child(feed, log):
            while '"stopped"' not in log.read_text():
                found |= self.watch(cluster)
        published = time.monotonic()
        while time.monotonic() < published + GIVEN_UP:
            if len(of_one_connection(found.values())) >= self._expected:
                return time.monotonic() - published
            found |= self.watch(cluster)
        return math.inf

    def watch(self, cluster: str = "") -> dict[str, Finding]:
        """Wait a moment, take a sample if one is due, and return the findings of a cluster among new ones."""
        fresh = self._topic.poll(0.5)
        # Those of the attack are too many to be kept.
        self._topic.findings.clear()
        if not self.samples or self._road.seconds > self.samples[-1].seconds + SAMPLE_SECONDS:
            sample = self._road.sample()
            if sample is not None:
                self.samples.append(sample)
                self.on_sample(sample)
        return {finding.id: finding for finding in fresh if finding.cluster == cluster}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    expected = examine(planted.CAPTURE, load_schemas("")).findings
    attack, delays = Attack(max(finding.last_captured_at for finding in expected)), list[float]()
    with (
        SampledRoad(tmp_path_factory.mktemp("names"), attack.blocks()) as road,
        closing(FindingsTopic(road.bootstrap, FINDINGS_TOPIC)) as topic,
    ):
        probes = Probes(road, topic, expected)
        quiet = [probes.delay() for _ in range(QUIET_PROBES)][1:]
        judged, begin = probes.samples[-1].frames, road.seconds
        probes.on_sample = attack.note
        attack.begin(judged)
        for number in itertools.count(1):
            delays.append(probes.delay())
            while road.seconds < begin + min(SECONDS, PROBE_SECONDS * number):
                probes.watch()
            if attack.names == NAMES or road.seconds >= begin + SECONDS:
                break
        ends = road.seconds + GIVEN_UP
        while attack.judged < attack.names * million_names.FRAMES_OF_NAME and road.seconds < ends:
            probes.watch()
    attacked = Attacked(quiet, delays, probes.samples, attack.names)
    _report(attacked, begin, judged)
    return attacked


def _report(attacked: Attacked, begin: float, judged: float) -> None:
    print(f"{attacked.names} names")
    print("delays without the attack:", *(f"{delay:.1f}" for delay in attacked.quiet))
    print("delays during the attack:", *(f"{delay:.1f}" for delay in attacked.attacked))
    print(
        "seconds, names judged, MiB of feeder, driver, JVM, workers, state; open connections, records waiting"
    )
    for sample in attacked.samples[:: int(30 / SAMPLE_SECONDS)]:
        names = max(0.0, sample.frames - judged) / million_names.FRAMES_OF_NAME
        memory = (sample.feeder, sample.driver, sample.java, sample.workers, sample.state)
        values = (sample.seconds - begin, names, *memory, sample.open_connections, sample.lag)
        print(*(f"{value:.0f}" for value in values))
    if FOLDER:
        written = b"\n".join(map(msgspec.json.encode, attacked.samples))
        Path(FOLDER, "million-names.jsonl").write_bytes(written)
        title = "Resident memory while a million names are invented"
        Path(FOLDER, "million-names.svg").write_text(curves(title, attacked.samples))


def test_all_names_are_judged(attacked: Attacked) -> None:
    assert attacked.names == NAMES
    assert attacked.samples[-1].frames >= NAMES * million_names.FRAMES_OF_NAME


def test_ordinary_offences_are_found_with_the_usual_delay(attacked: Attacked) -> None:
    assert statistics.median(attacked.attacked) < USUAL_SECONDS


def test_memory_is_bounded(attacked: Attacked) -> None:
    assert max(sample.workers for sample in attacked.samples) < WORKERS_MEBIBYTES
    assert max(sample.feeder for sample in attacked.samples) < FEEDER_MEBIBYTES
