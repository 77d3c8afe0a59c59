"""A checkpoint that cannot be used, or is in use, is told in one line before Spark starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from streaming.settings.checkpoint_folder import held_checkpoint, local_folder
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError
from tests.streaming.commands.ran import Ran, run_process

NOWHERE = "127.0.0.1:1"


def at(location: object) -> Configuration:
    return Configuration(checkpoint=str(location))


def run(checkpoint: object) -> Ran:
    return run_process("run", "--bootstrap", NOWHERE, "--checkpoint", checkpoint)


@pytest.mark.slow
def test_run_refuses_a_checkpoint_that_cannot_be_used(tmp_path: Path) -> None:
    """It needs no Kafka for that: nothing listens at the address."""
    assert run("/proc/nope").error_line.startswith("the checkpoint /proc/nope cannot be created (")
    file = tmp_path / "file"
    file.touch()
    assert run(file).error_line == (f"the checkpoint {file} is no folder: remove it, or correct `checkpoint`")


@pytest.mark.slow
def test_run_refuses_a_checkpoint_that_is_in_use(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "checkpoint"
    with held_checkpoint(at(folder)):
        told = run(f"file://{folder}").error_line
    assert told.startswith(f"the checkpoint {folder} is in use by another query on this machine: ")


def test_a_checkpoint_is_free_when_its_process_was_killed(tmp_path: Path) -> None:
    """So a restart after a crash is refused nothing."""
    script = (
        "import sys, time; from streaming.settings.checkpoint_folder import held_checkpoint as held;"
        "from streaming.settings.configuration import Configuration\n"
        "with held(Configuration(checkpoint=sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match="is in use by another query"), held_checkpoint(at(tmp_path)):
            pass
        holder.kill()
    with held_checkpoint(at(tmp_path)):
        assert list(tmp_path.iterdir()) == [], "a copy of the checkpoint contains no lock"


def test_a_folder_that_was_deleted_or_replaced_is_no_longer_there(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    with held_checkpoint(at(folder)) as has_checkpoint:
        assert has_checkpoint()
        folder.rename(tmp_path / "moved")
        assert not has_checkpoint()
        folder.mkdir()
        assert not has_checkpoint()


def test_two_checkpoints_are_two(tmp_path: Path) -> None:
    with held_checkpoint(at(tmp_path / "a")), held_checkpoint(at(tmp_path / "b")):
        pass


def in_hadoop(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HADOOP_CONF_DIR", "/etc/hadoop")


def nothing(_: pytest.MonkeyPatch) -> None:
    """The environment of a machine without Hadoop."""


@pytest.mark.parametrize(
    ("location", "spark", "change", "folder"),
    [
        ("/a/b", {}, nothing, Path("/a/b")),
        ("file:/a/b", {}, in_hadoop, Path("/a/b")),
        ("file:///a/b", {}, nothing, Path("/a/b")),
        ("s3a://bucket/b", {}, nothing, None),
        ("/a/b", {}, in_hadoop, None),
        ("/a/b", {"spark.hadoop.fs.defaultFS": "hdfs://name:9"}, nothing, None),
    ],
)
def test_a_checkpoint_elsewhere_is_left_to_spark(
    monkeypatch: pytest.MonkeyPatch,
    location: str,
    spark: dict[str, str],
    change: Callable[[pytest.MonkeyPatch], None],
    folder: Path | None,
) -> None:
    change(monkeypatch)
    configuration = Configuration(checkpoint=location, spark=spark)
    assert local_folder(configuration) == folder
