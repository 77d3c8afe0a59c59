"""What the doctor says of this machine: users, interfaces, checkpoints, the clock."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from streaming.doctor import Answer, Diagnosis, machine
from streaming.settings.configuration import Configuration

YES, NOTE, NO = Answer.YES, Answer.NOTE, Answer.NO


def of_checkpoint(location: str) -> Diagnosis:
    return machine.checkpoint(Configuration(checkpoint=location))


def test_without_the_right_to_capture_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "can_capture", lambda: False)
    found = machine.capture_right()
    assert (found.answer, "CAP_NET_RAW" in found.detail) == (NO, True)


def test_the_user_of_a_feeder_must_exist() -> None:
    assert machine.feeder_user("no-such-user").detail.startswith("does not exist: create it")
    assert machine.feeder_user("nobody").answer is (NO if os.geteuid() else YES)


def test_only_root_can_become_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert machine.feeder_user("nobody").detail.startswith("only root can become it")


def test_an_interface_must_exist() -> None:
    assert machine.interface("lo").answer is YES
    missing = machine.interface("eth77")
    assert missing.answer is NO
    assert missing.detail.startswith("does not exist: write one of ")
    assert "lo" in missing.detail


@pytest.mark.parametrize(("flags", "answer"), [("0x1002", NO), ("0x1003", YES)])
def test_an_interface_that_is_down_is_told(
    flags: str, answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the lowest bit of the flags differs, IFF_UP."""
    (tmp_path / "flags").write_text(f"{flags}\n")
    monkeypatch.setattr(machine, "Path", lambda _: tmp_path / "flags")
    found = machine.interface("lo")
    assert (found.answer, "ip link set lo up" in found.detail) == (answer, answer is NO)


def test_a_checkpoint_that_can_be_created_or_is_empty(tmp_path: Path) -> None:
    new = of_checkpoint(str(tmp_path / "state" / "checkpoint"))
    assert (new.answer, "creates it" in new.detail) == (YES, True)
    assert of_checkpoint(f"file://{tmp_path}").detail == f"{tmp_path} is empty"


def test_a_checkpoint_that_was_used_is_told_with_its_latest_batch(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for name in ("9", "10", ".11.crc"):
        (tmp_path / "offsets" / name).touch()
    found = of_checkpoint(str(tmp_path))
    assert (found.answer, found.detail) == (YES, f"{tmp_path} is readable, up to batch 10")


def test_a_checkpoint_that_is_something_else(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert of_checkpoint(str(file)).answer is NO
    assert of_checkpoint(str(tmp_path)).answer is NOTE
    assert of_checkpoint(f"{file}/checkpoint").answer is NO


def test_a_checkpoint_where_the_kernel_permits_and_refuses_is_tried() -> None:
    """Root may write to /proc, says access(2), and nobody can create a file there."""
    found = of_checkpoint("/proc/nope")
    assert found.answer is NO
    assert found.detail.startswith("/proc/nope cannot be created (")
    assert found.detail.endswith("let this user write to /proc, or correct `checkpoint`")


def test_a_checkpoint_of_another_user_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the kernel's answer is replaced."""
    (tmp_path / "offsets").mkdir()
    batch = tmp_path / "offsets" / "0"
    batch.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: path != batch)
    found = of_checkpoint(str(tmp_path))
    assert found.answer is NO
    assert found.detail.startswith(f"this user may not use {batch}: run as its owner")


def test_a_checkpoint_elsewhere_is_not_judged() -> None:
    assert of_checkpoint("s3a://bucket/checkpoint").answer is NOTE


@pytest.mark.parametrize(("state", "answer"), [(0, YES), (5, NOTE), (-1, NOTE)])
def test_the_clock_is_what_the_kernel_knows_of_it(
    monkeypatch: pytest.MonkeyPatch, state: int, answer: Answer
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(adjtimex=lambda _: state))
    assert machine.clock().answer is answer


def test_the_kernel_answers_here() -> None:
    assert machine.clock().answer in (YES, NOTE)
