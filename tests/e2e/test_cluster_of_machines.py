"""A Spark cluster of machines with addresses of their own: an executor is lost, the driver starts again.

Once with a folder that all machines see, once with an object store and executors that come and go.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from streaming.broker import child_guard
from streaming.broker.jars import jars
from streaming.broker.topics import FindingsTopic
from streaming.check.examination import examine
from tests.e2e import object_store
from tests.e2e.found import found_so_far, likenesses
from tests.e2e.machines import CAPTURES, DRIVER, JUDGED, Machines
from tests.e2e.process_tree import children
from tests.e2e.standalone import lacks_our_packages, wait_for
from tests.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces"),
    pytest.mark.skipif(not lacks_our_packages(), reason="no Python for the workers without our packages"),
]


FOLDER, STORE = "folder", "object-store"
COME_AND_GO = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
}
WITHOUT_GO = pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")


@pytest.fixture(params=[FOLDER, pytest.param(STORE, marks=WITHOUT_GO)])
def machines(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machines]:
    """With a store, what needs the network outside is fetched first: the machines have none."""
    stored = request.param == STORE
    program = object_store.build_program(tmp_path) if stored else Path()
    if stored:
        jars("s3")
    with ExitStack() as stack:
        machines = Machines(stack, tmp_path)
        if stored:
            for name, value in object_store.CREDENTIALS.items():
                monkeypatch.setenv(name, value)
            found_at = object_store.serve_bucket(stack, program, machines.network.hub, tmp_path)
            machines.spark |= found_at | COME_AND_GO
            machines.checkpoints = f"s3a://{object_store.BUCKET}"
        yield machines


def test_an_executor_and_the_driver_are_killed_and_the_query_grows(machines: Machines) -> None:
    """Findings equal those of `check`; a larger checkpoint, made from the topic, changes none of them."""
    checked = examine([capture for capture, _ in CAPTURES], default_schemas())
    expected = likenesses(checked.findings)
    assert len(expected) > 40

    machines.feed(*CAPTURES[0])
    first = machines.start_query()
    wait_for(machines.log, '"query": "starting-workers"', JUDGED)
    assert_executors_know_the_driver(machines)
    ((lost, *_), _) = machines.executors().values()
    os.kill(lost, signal.SIGKILL)
    wait_for(machines.log, '"query": "batch"', JUDGED)

    machines.feed(*CAPTURES[1])
    os.kill(children(first.pid)[0], signal.SIGKILL)
    first.wait(30)
    second = machines.start_query()
    with closing(FindingsTopic(machines.broker.internal, "kipwatch.findings")) as topic:
        wait_for(machines.log, '"query": "batch"', JUDGED)
        until(lambda: found_so_far(topic) == expected, JUDGED)
        child_guard.stop(second)

        machines.start_query(buckets=24, partitions=6)
        until(lambda: machines.frames_judged() == checked.frames, JUDGED)
        topic.poll(5.0)
        assert found_so_far(topic) == expected
    assert all(machines.executors().values())


def assert_executors_know_the_driver(machines: Machines) -> None:
    until(lambda: [len(each) for each in machines.executors().values()] == [1, 1], JUDGED)
    executors = machines.executors()
    address = machines.network.addresses[DRIVER]
    for (executor,) in executors.values():
        command = Path(f"/proc/{executor}/cmdline").read_text()
        assert (
            f"CoarseGrainedScheduler@{address}:" in command or f"CoarseGrainedScheduler@{DRIVER}:" in command
        )
