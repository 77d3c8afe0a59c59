"""The feeder's systemd unit: its command exists, and its only capability is to capture."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from streaming.commands import feed
from streaming.feeder.feeder import DRAIN_SECONDS, FLUSH_SECONDS

UNIT = Path(__file__).parents[2] / "deploy/systemd/kipwatch-feeder.service"


def settings() -> dict[str, str]:
    lines = UNIT.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_it_runs_the_feeder_with_flags_that_exist() -> None:
    program, command, *flags = settings()["ExecStart"].split()
    assert (Path(program).name, command) == ("kipwatch", "feed")
    parser = argparse.ArgumentParser(exit_on_error=False)
    feed.add_arguments(parser)
    assert parser.parse_args(flags).config.name in settings()["LoadCredential"]


def test_it_has_the_right_to_capture_and_no_other() -> None:
    unit = settings()
    assert unit["AmbientCapabilities"] == unit["CapabilityBoundingSet"] == "CAP_NET_RAW"
    assert unit["DynamicUser"] == unit["NoNewPrivileges"] == "yes"
    assert "AF_PACKET" in unit["RestrictAddressFamilies"].split()


def test_the_feeder_has_time_to_publish_what_it_holds() -> None:
    assert int(settings()["TimeoutStopSec"]) > DRAIN_SECONDS + FLUSH_SECONDS


def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    # The program is not installed here, and systemd looks for it.
    unit.write_text(UNIT.read_text().replace("/opt/kipwatch/bin/kipwatch", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert UNIT.name not in done.stderr
