"""A query that cannot continue says why in one line, and what to do."""

from __future__ import annotations

import itertools
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from decoders.schema.registry import default_schemas
from streaming.bench.traffic import Traffic, publish_blocks
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.demo.progress import scrape
from streaming.demo.road import Child
from streaming.metrics.exposition import MetricsPage
from streaming.query.worker import LONGEST_INTERVAL
from streaming.settings.configuration import FramesTopicSettings, Topics
from tests.e2e.pages import free_pages, passes
from tests.e2e.process_tree import frozen, jvms, send_signal, workers
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]

CONNECTIONS = 40
ONE_PARTITION = Topics(frames=FramesTopicSettings(partitions=1))
STARTED, JUDGED, ENDED = 120.0, 120.0, 150.0
AMID_A_BATCH = 3.0
"""Seconds after which a batch has begun, and waits for workers that do not respond."""
_NUMBERS = itertools.count()


class StoppedQuery:
    """A broker, and the checkpoint of a query that has judged frames and was stopped."""

    def __init__(self, broker: EmbeddedBroker, folder: Path) -> None:
        self.broker, self.folder, self.checkpoint = broker, folder, folder / "checkpoint"
        self.topic = "frames"
        self.traffic = Traffic(default_schemas(), CONNECTIONS)

    def start(self, topic: str, checkpoint: Path, *flags: str) -> Child:
        (self.page_at,) = free_pages(1)
        command = ["run", "--bootstrap", self.broker.internal, "--frames-topic", topic]
        command += ["--checkpoint", str(checkpoint), "--metrics-address", self.page_at]
        command += flags if "--buckets" in flags else [*flags, "--buckets", "4"]
        return Child(command, self.folder / f"run-{next(_NUMBERS)}.log")

    def page(self) -> MetricsPage:
        page = scrape(self.page_at)
        assert page is not None
        return page

    def is_ready(self) -> bool:
        return passes(self.page_at, "readyz")

    def copied(self, name: str) -> Path:
        return Path(shutil.copytree(self.checkpoint, self.folder / name))

    def error_line(self, topic: str, checkpoint: Path, *flags: str) -> str:
        """The one error line of a query that ends by itself."""
        with self.start(topic, checkpoint, *flags) as query:
            query.wait(ENDED)
        lines = query.log.read_text(errors="replace").splitlines()
        assert not [line for line in lines if line.startswith("Traceback")]
        (error,) = [line for line in lines if line.startswith("kipwatch: ")]
        return error


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoppedQuery]:
    with EmbeddedBroker() as broker:
        stopped = StoppedQuery(broker, tmp_path_factory.mktemp("stopped"))
        prepare(stopped, stopped.topic, stopped.checkpoint)
        yield stopped


def prepare(stopped: StoppedQuery, topic: str, checkpoint: Path) -> None:
    """Let a query judge the opening of all connections, then stop it."""
    create_topics(stopped.broker.internal, topic, "kipwatch.findings", ONE_PARTITION)
    publish_blocks(stopped.broker.internal, topic, stopped.traffic.opening())
    with stopped.start(topic, checkpoint) as query:
        query.wait_for('"frames": ', STARTED + JUDGED)
    assert '"query": "stopped"' in query.log.read_text()


def end_between_batches(checkpoint: Path) -> None:
    """Remove the unfinished batch of the stopped query from a checkpoint, if there is one."""
    committed = {path.name for path in (checkpoint / "commits").glob("[0-9]*")}
    for path in (checkpoint / "offsets").glob("[0-9]*"):
        if path.name not in committed:
            path.unlink()


def test_after_a_restart_it_is_ready_when_the_gauges_count_every_connection(stopped: StoppedQuery) -> None:
    """There are no new frames meanwhile: each bucket reports by its own timer.

    The checkpoint is a copy, which no longer names the folder that it was copied from.
    """
    checkpoint = stopped.copied("restarted")
    assert str(stopped.checkpoint) in metadata(checkpoint)
    end_between_batches(checkpoint)
    with stopped.start(stopped.topic, checkpoint) as query:
        query.wait_for('"query": "started"', STARTED)
        assert not stopped.is_ready()
        until(stopped.is_ready, JUDGED + LONGEST_INTERVAL / 1000, query)
        page = stopped.page()
    assert page.total("kipwatch_open_connections") == CONNECTIONS
    assert page.total("kipwatch_connections") == CONNECTIONS
    assert page.total("kipwatch_state_bytes") > 0
    assert str(stopped.checkpoint) not in metadata(checkpoint)


def metadata(checkpoint: Path) -> str:
    """What Spark knows of the stateful steps."""
    return "".join(file.read_text() for file in checkpoint.glob("state/*/_metadata/v2/[0-9]*"))


def test_another_number_of_buckets_is_refused(stopped: StoppedQuery) -> None:
    publish_blocks(stopped.broker.internal, stopped.topic, stopped.traffic.round(0))
    error = stopped.error_line(stopped.topic, stopped.copied("other-buckets"), "--buckets", "3")
    assert "made with 4 buckets, not 3: run with --buckets 4" in error


def test_a_corrupt_checkpoint_is_an_error(stopped: StoppedQuery) -> None:
    checkpoint = stopped.copied("corrupt")
    latest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    latest.write_bytes(b"\0\1\2")
    for checksum in (checkpoint / "offsets").glob(".*.crc"):
        checksum.unlink()
    error = stopped.error_line(stopped.topic, checkpoint)
    assert "the checkpoint cannot be read" in error


def test_expired_frames_are_an_error_and_may_be_skipped(stopped: StoppedQuery) -> None:
    """Connections that were known by then count as interrupted: what the broker then serves conforms."""
    create_topics(stopped.broker.internal, "expired", "kipwatch.findings", ONE_PARTITION)
    checkpoint = stopped.folder / "expired"
    prepare(stopped, "expired", checkpoint)
    batches = list(stopped.traffic.round(0))
    publish_blocks(stopped.broker.internal, "expired", batches[:5])
    admin = AdminClient({"bootstrap.servers": stopped.broker.internal})
    delete_all(admin, "expired")
    kept = publish_blocks(stopped.broker.internal, "expired", batches[5:])
    error = stopped.error_line("expired", Path(shutil.copytree(checkpoint, stopped.folder / "refused")))
    assert "no longer holds all frames" in error and "--after-loss" in error
    with stopped.start("expired", checkpoint, "--after-loss", "true") as query:
        query.wait_for('"frames": ', STARTED + JUDGED)
        page = stopped.page()
        assert page.total("kipwatch_frames_total") == kept
        assert page.total("kipwatch_rule_checks_total", verdict="violates") == 0
        conforming = page.total(
            "kipwatch_rule_checks_total", rule="kip35/version-out-of-range", verdict="conforms"
        )
        assert conforming > 0
        # Behind that loss the query restarts, and skips no other one silently.
        until(lambda: query.log.read_text().count('"query": "started"') > 1, STARTED, query)
        with frozen(jvms(query.process_id)):
            publish_blocks(stopped.broker.internal, "expired", stopped.traffic.round(1))
            delete_all(admin, "expired")
        assert query.wait(ENDED) == 2
    assert '"reason": "frames-lost"' in query.log.read_text()


def delete_all(admin: AdminClient, topic: str) -> None:
    """Delete the records of a topic with one partition, as its retention does."""
    for deleted in admin.delete_records([TopicPartition(topic, 0, OFFSET_END)]).values():
        deleted.result()


def test_a_worker_that_is_killed_restarts_the_query(stopped: StoppedQuery) -> None:
    """As the kernel does when memory is short. The frames of the batch are judged, and once."""
    publish_blocks(stopped.broker.internal, stopped.topic, stopped.traffic.round(2))
    with stopped.start(stopped.topic, stopped.copied("killed")) as query:
        query.wait_for('"frames": ', STARTED + JUDGED)
        before = stopped.page().total("kipwatch_frames_total")
        victims = workers(query.process_id)
        send_signal(victims, signal.SIGSTOP)
        amid = publish_blocks(stopped.broker.internal, stopped.topic, stopped.traffic.round(3))
        time.sleep(AMID_A_BATCH)
        send_signal(victims, signal.SIGKILL)
        until(lambda: query.log.read_text().count('"frames": ') > 1, JUDGED, query)
        page = stopped.page()
    assert page.total("kipwatch_query_endings_total", reason="worker-ended") > 0
    assert page.total("kipwatch_frames_total") == before + amid


def test_a_checkpoint_that_is_moved_away_ends_the_query(stopped: StoppedQuery) -> None:
    """Spark would make the folder anew, and write into it what no query could start from."""
    checkpoint = stopped.copied("moved")
    with stopped.start(stopped.topic, checkpoint) as query:
        query.wait_for('"query": "started"', STARTED)
        checkpoint.rename(stopped.folder / "elsewhere")
        assert query.wait(ENDED) == 2
    assert '"reason": "checkpoint-gone"' in query.log.read_text()


@pytest.mark.parametrize("damage", ["metadata is empty", "metadata is gone", "offsets are gone"])
def test_a_damaged_checkpoint_is_an_error(stopped: StoppedQuery, damage: str) -> None:
    checkpoint = stopped.copied(damage.replace(" ", "-"))
    match damage:
        case "metadata is empty":
            (checkpoint / "metadata").write_text("")
            (checkpoint / ".metadata.crc").unlink()
        case "metadata is gone":
            (checkpoint / "metadata").unlink()
        case _:
            shutil.rmtree(checkpoint / "offsets")
    assert "the checkpoint cannot be read" in stopped.error_line(stopped.topic, checkpoint)


def test_a_recreated_topic_is_an_error(stopped: StoppedQuery) -> None:
    """The last test: the topic is gone afterwards."""
    admin = AdminClient({"bootstrap.servers": stopped.broker.internal})
    for deleted in admin.delete_topics([stopped.topic]).values():
        deleted.result()
    error = stopped.error_line(stopped.topic, stopped.copied("anew"))
    assert "no longer holds all frames" in error and "created again" in error
