"""What earlier versions wrote: their topic is read from its beginning, and their checkpoint is gone on from.

A checkpoint whose layout is another one is refused.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka import Producer

from decoders.schema.registry import default_schemas
from expectations.judging.finding import Finding
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.check.examination import examine
from streaming.demo.road import Child
from streaming.state.bucket import STATE_VERSION
from tests.compatibility.earlier import BUCKETS, Earlier, versions
from tests.compatibility.week import PORT, week
from tests.compatibility.write import FRAMES, ONE_PARTITION
from tests.e2e.pages import free_pages
from tests.streaming.captures import write_packets

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(600)]

JUDGED, SETTLED = 150.0, 4.0

Likenesses = Counter[tuple[object, ...]]

LAYOUTS = {name: Earlier(name).about.state_version for name in versions()}
GOES_ON = [name for name, layout in LAYOUTS.items() if layout == STATE_VERSION]
REFUSED = [name for name, layout in LAYOUTS.items() if layout != STATE_VERSION]


class Restored:
    """A broker with the topic of an earlier version."""

    def __init__(self, broker: EmbeddedBroker, earlier: Earlier, folder: Path) -> None:
        self.earlier, self.folder, self._bootstrap = earlier, folder, broker.internal
        create_topics(broker.internal, FRAMES, "unused", ONE_PARTITION)
        producer = Producer({"bootstrap.servers": broker.internal})
        for key, value in earlier.topic():
            producer.produce(FRAMES, value, key)
        assert producer.flush(30) == 0

    def query(self, checkpoint: Path, findings: str) -> Child:
        command = ["run", "--bootstrap", self._bootstrap, "--buckets", str(BUCKETS)]
        command += ["--checkpoint", str(checkpoint), "--findings-topic", findings]
        command += ["--metrics-address", free_pages(1)[0]]
        return Child(command, self.folder / f"{findings}.log")

    def refusal(self, checkpoint: Path, findings: str) -> str:
        """What a query says that ends by itself."""
        with self.query(checkpoint, findings) as query:
            query.wait(JUDGED)
        return query.log.read_text()

    def found(
        self, checkpoint: Path, expected: Counter[tuple[object, ...]], topic: str
    ) -> Counter[tuple[object, ...]]:
        """The findings of a query, some seconds after those expected have come."""
        create_topics(self._bootstrap, FRAMES, topic, ONE_PARTITION)
        with (
            self.query(checkpoint, topic) as query,
            closing(FindingsTopic(self._bootstrap, topic)) as findings,
        ):
            deadline = time.monotonic() + JUDGED
            while likenesses(findings.findings.values()) != expected and time.monotonic() < deadline:
                query.check_running()
                findings.poll(1.0)
            findings.poll(SETTLED)
            return likenesses(findings.findings.values())


@pytest.fixture(scope="module")
def restored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restored]:
    with EmbeddedBroker() as broker:
        yield Restored(broker, Earlier(request.param), tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    return checked_week(tmp_path_factory.mktemp("captured"))


def checked_week(folder: Path) -> list[Finding]:
    """The findings of `check` on what was captured."""
    captured = write_packets(folder / "week.pcap", chain.from_iterable(week()))
    return examine(captured, default_schemas(), [PORT]).findings


def likenesses(findings: Iterable[Finding]) -> Likenesses:
    return Counter(finding.likeness() for finding in findings)


@pytest.mark.long
@pytest.mark.parametrize("restored", LAYOUTS, indirect=True)
def test_its_topic_is_judged_from_the_beginning(restored: Restored, checked: list[Finding]) -> None:
    expected = likenesses(checked)
    assert restored.found(restored.folder / "new", expected, "anew") == expected


@pytest.mark.long
@pytest.mark.parametrize("restored", GOES_ON, indirect=True)
def test_the_query_goes_on_from_its_checkpoint(restored: Restored, checked: list[Finding]) -> None:
    """At another path."""
    checkpoint = restored.earlier.unpack_checkpoint(restored.folder)
    until = restored.earlier.about.judged_until
    assert any(each.first_captured_at <= until < each.last_captured_at for each in checked)
    expected = likenesses(each for each in checked if each.last_captured_at > until)
    assert restored.found(checkpoint, expected, "continued") == expected


@pytest.mark.long
@pytest.mark.parametrize("restored", REFUSED, indirect=True)
def test_a_checkpoint_of_another_layout_is_refused_in_one_line_that_says_what_to_do(
    restored: Restored,
) -> None:
    layout = restored.earlier.about.state_version
    checkpoint = restored.earlier.unpack_checkpoint(restored.folder)
    said = restored.refusal(checkpoint, "refused")
    refusal = (
        f"the checkpoint holds state of version {layout}, this kipwatch writes {STATE_VERSION}: "
        "run the kipwatch that wrote it, or start with a new checkpoint folder"
    )
    assert said.splitlines()[-1] == f"kipwatch: the query stopped: {refusal}"
    assert "Traceback" not in said


def test_what_this_version_stores_is_kept() -> None:
    """So that the next one has something to read, and one goes on from it here."""
    assert version("kipwatch") in GOES_ON, "its layout has changed: `make compatibility`"
