"""A query that cannot go on says in one line why, and what to do; what can be borne is counted."""

from __future__ import annotations

import itertools
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from decoders.schema.registry import default_schemas
from streaming.bench.traffic import Traffic, publish
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import free_ports
from streaming.broker.topics import create_topics
from streaming.demo.child import Child
from streaming.demo.page import MetricsPage, scrape

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(600)]

CONNECTIONS = 40
STARTED, JUDGED, ENDED = 120.0, 120.0, 150.0
_NUMBERS = itertools.count()


class Ground:
    """A broker, and the checkpoint of a query that has judged something and was then stopped."""

    def __init__(self, broker: EmbeddedBroker, folder: Path) -> None:
        self.broker, self.folder, self.checkpoint = broker, folder, folder / "checkpoint"
        self.topic, self.poisoned = "frames", 0.0
        self.traffic = Traffic(default_schemas(), CONNECTIONS)

    def start(self, topic: str, checkpoint: Path, *flags: str) -> Child:
        (port,) = free_ports(1)
        self.page_at = f"127.0.0.1:{port}"
        command = ["run", "--bootstrap", self.broker.internal, "--frames-topic", topic]
        command += ["--checkpoint", str(checkpoint), "--metrics-address", self.page_at]
        command += flags if "--buckets" in flags else [*flags, "--buckets", "4"]
        return Child(command, self.folder / f"run-{next(_NUMBERS)}.log")

    def page(self) -> MetricsPage:
        page = scrape(self.page_at)
        assert page is not None
        return page

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.page_at}/readyz", timeout=10):
                return True
        except urllib.error.HTTPError as refused:
            assert refused.code == 503
            return False

    def copied(self, name: str) -> Path:
        return Path(shutil.copytree(self.checkpoint, self.folder / name))

    def last_words(self, topic: str, checkpoint: Path, *flags: str) -> str:
        """What a query that ends by itself says on its standard error, in one line."""
        with self.start(topic, checkpoint, *flags) as query:
            query.wait(ENDED)
        lines = query.log.read_text(errors="replace").splitlines()
        assert not [line for line in lines if line.startswith("Traceback")]
        (told,) = [line for line in lines if line.startswith("kipwatch: ")]
        return told


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with EmbeddedBroker() as broker:
        ground = Ground(broker, tmp_path_factory.mktemp("ground"))
        prepared(ground, ground.topic, ground.checkpoint)
        yield ground


def prepared(ground: Ground, topic: str, checkpoint: Path) -> None:
    """Let a query judge the opening of all connections, and two records that are none; then stop it."""
    create_topics(ground.broker.internal, topic, "kipwatch.findings", partitions=1)
    publish(ground.broker.internal, topic, ground.traffic.opening())
    poison = Producer({"bootstrap.servers": ground.broker.internal})
    for value in (b"", b"poison"):
        poison.produce(topic, value, b"key")
    assert poison.flush(30) == 0
    with ground.start(topic, checkpoint) as query:
        query.wait_for('"frames": ', STARTED + JUDGED)
        ground.poisoned = ground.page().total("kipwatch_undecodable_frames_total", reason="not-a-record")
    assert '"query": "stopped"' in query.log.read_text()


def end_between_batches(checkpoint: Path) -> None:
    """Take from a checkpoint the batch that was under way when the query was stopped, if one was."""
    committed = {path.name for path in (checkpoint / "commits").glob("[0-9]*")}
    for path in (checkpoint / "offsets").glob("[0-9]*"):
        if path.name not in committed:
            path.unlink()


def test_a_poisoned_record_is_counted_and_harms_nothing(ground: Ground) -> None:
    assert ground.poisoned == 2


def test_after_a_restart_it_is_ready_once_the_gauges_tell_of_every_connection(ground: Ground) -> None:
    """Nothing new happens in the meantime, from the first batch on: each bucket reports by its own timer."""
    checkpoint = ground.copied("restarted")
    end_between_batches(checkpoint)
    with ground.start(ground.topic, checkpoint) as query:
        query.wait_for('"query": "started"', STARTED)
        assert not ground.is_ready()
        deadline = time.monotonic() + JUDGED
        while not ground.is_ready():
            query.check_running()
            assert time.monotonic() < deadline
            time.sleep(0.5)
        page = ground.page()
    assert page.total("kipwatch_open_connections") == CONNECTIONS
    assert page.total("kipwatch_connections") == CONNECTIONS
    assert page.total("kipwatch_state_bytes") > 0


def test_what_a_kill_left_of_the_first_batch_is_swept_away(ground: Ground) -> None:
    """Offsets that were written, and not yet moved to their place."""
    checkpoint = ground.folder / "killed-at-first"
    (checkpoint / "offsets").mkdir(parents=True)
    left = checkpoint / "offsets" / ".0.3f0c3ad2-9d5e-4c1b-a1f9-6a3b1b0f6e55.tmp"
    left.write_text("v1")
    (checkpoint / "kipwatch-keys-dealt").touch()
    with ground.start(ground.topic, checkpoint) as query:
        query.wait_for('"frames": ', STARTED + JUDGED)
    assert not left.exists()


def test_another_number_of_buckets_is_refused(ground: Ground) -> None:
    publish(ground.broker.internal, ground.topic, ground.traffic.round(0))
    told = ground.last_words(ground.topic, ground.copied("other-buckets"), "--buckets", "3")
    assert "made with 4 buckets, not 3: run with --buckets 4" in told


def test_a_corrupt_checkpoint_is_told(ground: Ground) -> None:
    checkpoint = ground.copied("corrupt")
    latest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    latest.write_bytes(b"\0\1\2")
    for checksum in (checkpoint / "offsets").glob(".*.crc"):
        checksum.unlink()
    told = ground.last_words(ground.topic, checkpoint)
    assert "the checkpoint cannot be read" in told


def test_frames_that_expired_are_told_and_may_be_passed_over(ground: Ground) -> None:
    """Connections that were known by then are taken as interrupted, and judged no worse than that."""
    create_topics(ground.broker.internal, "expired", "kipwatch.findings", partitions=1)
    checkpoint = ground.folder / "expired"
    prepared(ground, "expired", checkpoint)
    count = publish(ground.broker.internal, "expired", ground.traffic.round(0))
    admin = AdminClient({"bootstrap.servers": ground.broker.internal})
    begin = CONNECTIONS * 7 + 2 + count // 2
    for deleted in admin.delete_records([TopicPartition("expired", 0, begin)]).values():
        deleted.result()
    told = ground.last_words("expired", Path(shutil.copytree(checkpoint, ground.folder / "refused")))
    assert "no longer holds all frames" in told and "--after-loss" in told
    with ground.start("expired", checkpoint, "--after-loss", "true") as query:
        query.wait_for('"frames": ', STARTED + JUDGED)
        page = ground.page()
    assert page.total("kipwatch_frames_total") == count - count // 2
    assert page.total("kipwatch_rule_checks_total", verdict="violates") == 0
    assert (
        page.total("kipwatch_rule_checks_total", rule="kip35/version-out-of-range", verdict="undecided") > 0
    )


def test_a_topic_that_was_made_anew_is_told(ground: Ground) -> None:
    checkpoint = ground.folder / "anew"
    prepared(ground, "anew", checkpoint)
    admin = AdminClient({"bootstrap.servers": ground.broker.internal})
    for deleted in admin.delete_topics(["anew"]).values():
        deleted.result()
    told = ground.last_words("anew", checkpoint)
    assert "no longer holds all frames" in told and "made anew" in told
