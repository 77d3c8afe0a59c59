"""Both images, built and run here: the feeder with NET_RAW alone, the application without any right."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.check.examination import examine
from streaming.query.application import LAST_BATCH_SECONDS
from tests.captures import planted
from tests.deploy.images import CACHE, USER, Container, base, build
from tests.e2e.feeding import feed_capture
from tests.e2e.found import found_so_far, likenesses
from tests.waiting import until

PROGRAMS = ("mmdebstrap", "chroot", "runc")
PATIENCE = 900.0
CONVERSE = """
import socket
listener = socket.create_server(("127.0.0.1", 9092))
client = socket.create_connection(("127.0.0.1", 9092))
accepted = listener.accept()[0]
# ApiVersions v3 of the client "test".
client.sendall(bytes.fromhex("0000001400120003000000010004746573740002610262" + "00"))
print(len(accepted.recv(100)))
"""

pytestmark = [
    pytest.mark.long,
    pytest.mark.jvm,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes images without Docker"),
    pytest.mark.skipif(
        not all(map(shutil.which, PROGRAMS)), reason="apt-get install --no-install-recommends mmdebstrap runc"
    ),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Build an image and return its root."""
    folder = tmp_path_factory.mktemp("images")
    debian = base(folder)

    def built(part: str) -> Path:
        build(debian, part, folder / part)
        return folder / part

    yield built
    shutil.rmtree(folder, ignore_errors=True)


def test_the_feeder_captures_as_root_without_any_capability_but_net_raw(
    image: Callable[[str], Path], tmp_path: Path
) -> None:
    root = image("feeder")
    assert not (root / "usr/bin/java").exists()
    command = ["feed", "--interface", "lo", "--ports", "9092", "--dry-run"]
    with Container(root, tmp_path / "feeder", command, user=0, capabilities=["CAP_NET_RAW"]) as feeder:
        until(lambda: '"feeder": "ready"' in feeder.log.read_text(), PATIENCE, feeder)
        assert feeder.run("sh", "-c", "touch /made").returncode != 0
        own, of_image = "/tmp/compiled/kipwatch/numba", f"{CACHE}/kipwatch/numba"
        compared = feeder.run("diff", "--recursive", own, of_image).stdout
        assert of_image in compared and own not in compared, "it has compiled something"
        assert feeder.run("/opt/kipwatch/bin/python", "-c", CONVERSE).stdout == "24\n"
        assert feeder.stop(60) == 0
    assert "request API 18 v3" in feeder.log.read_text()
    print(f"feeder: {mebibytes(root)} MiB")


def test_the_application_judges_as_a_user_without_rights(
    image: Callable[[str], Path], tmp_path: Path
) -> None:
    """It reads from a broker here, keeps its checkpoint on a volume, and ends in time."""
    root = image("application")
    expected = likenesses(examine(planted.CAPTURE, default_schemas()).findings)
    volume = tmp_path / "volume"
    volume.mkdir()
    os.chown(volume, USER, USER)
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, "kipwatch.frames", "kipwatch.findings")
        flags = ["--ports", "37429", "--bootstrap", broker.internal]
        feed_capture(planted.CAPTURE, tmp_path / "feed.log", *flags)
        command = ["run", "--bootstrap", broker.internal, "--checkpoint", "/var/lib/kipwatch/checkpoint"]
        mounts = {"/var/lib/kipwatch/checkpoint": volume}
        with Container(
            root, tmp_path / "application", command, own_network=False, mounts=mounts
        ) as application:
            until(lambda: '"query": "batch"' in application.log.read_text(), PATIENCE, application)
            with closing(FindingsTopic(broker.internal, "kipwatch.findings")) as topic:
                until(lambda: found_so_far(topic) == expected, PATIENCE, application)
            assert application.stop(LAST_BATCH_SECONDS + 30) == 0
    assert (volume / "commits").is_dir()
    assert '"query": "stopped"' in application.log.read_text()
    print(f"application: {mebibytes(root)} MiB")


def mebibytes(root: Path) -> str:
    done = subprocess.run(["du", "-sm", root], capture_output=True, text=True, check=True)
    return done.stdout.split()[0]
