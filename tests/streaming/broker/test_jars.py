"""The cache of jars is complete or absent, and resolved by one process at a time."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.broker.jars import complete, jars, seal
from streaming.user_error import UserError

# No artifact can be fetched through a proxy where nobody listens.
NO_NETWORK = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1"


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it, on a machine that cannot reach the network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", NO_NETWORK)
    return tmp_path / "kipwatch" / "jars"


def test_a_folder_is_complete_while_all_its_jars_are_there(tmp_path: Path) -> None:
    jar = tmp_path / "broker" / "a-1.jar"
    jar.parent.mkdir()
    jar.touch()
    assert not complete(tmp_path)
    seal(tmp_path)
    assert complete(tmp_path)
    jar.unlink()
    assert not complete(tmp_path)


def test_a_cache_that_cannot_be_written_is_a_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kipwatch").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"cannot keep jars in .*; set XDG_CACHE_HOME"):
        jars("broker")


@pytest.mark.jvm
def test_a_resolve_that_fails_says_why_and_leaves_no_partial_folder(empty_cache: Path) -> None:
    with pytest.raises(UserError, match=r"cannot fetch the pinned jars: .*; check the network"):
        jars("broker")
    assert [path.suffix for path in empty_cache.iterdir()] == [".lock"]


@pytest.mark.jvm
def test_two_processes_do_not_resolve_at_once(empty_cache: Path) -> None:
    with pytest.raises(UserError):
        jars("broker")
    (lock,) = empty_cache.iterdir()
    command = [sys.executable, "-m", "kipwatch", "prepare"]
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = subprocess.Popen(
            command, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        assert "looking for" in second.stdout.readline()
        assert "another process" in second.stdout.readline()
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 2
    assert errors.startswith("kipwatch: cannot fetch the pinned jars")
    assert errors.count("\n") == 1


@pytest.mark.jvm
def test_the_pinned_jars_are_there() -> None:
    broker = {jar.name for jar in jars("broker")}
    assert {"kafka_2.13-4.4.0.jar", "kafka-clients-4.4.0.jar", "log4j-slf4j-impl-2.25.5.jar"} <= broker
    assert not any(name.startswith("kafka-tools-api") for name in broker)
    assert {jar.name for jar in jars("connector")} == {
        "commons-pool2-2.13.1.jar",
        "kafka-clients-3.9.2.jar",
        "spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    }
