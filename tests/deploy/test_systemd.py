"""The systemd units: their commands exist, the feeder may only capture, the query may finish a batch."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from streaming.commands import feed, run
from streaming.feeder.feeder import DRAIN_SECONDS, FLUSH_SECONDS
from streaming.query.application import LAST_BATCH_SECONDS
from tests.repository.tree import ROOT

FOLDER = ROOT / "deploy/systemd"
FEEDER, QUERY = FOLDER / "kipwatch-feeder.service", FOLDER / "kipwatch.service"


def settings(unit: Path) -> dict[str, str]:
    lines = unit.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_it_runs_the_feeder_with_flags_that_exist() -> None:
    program, command, *flags = settings(FEEDER)["ExecStart"].split()
    assert (Path(program).name, command) == ("kipwatch", "feed")
    parser = argparse.ArgumentParser(exit_on_error=False)
    feed.add_arguments(parser)
    assert parser.parse_args(flags).config.name in settings(FEEDER)["LoadCredential"]


def test_it_has_the_right_to_capture_and_no_other() -> None:
    unit = settings(FEEDER)
    assert unit["AmbientCapabilities"] == unit["CapabilityBoundingSet"] == "CAP_NET_RAW"
    assert unit["DynamicUser"] == unit["NoNewPrivileges"] == "yes"
    assert "AF_PACKET" in unit["RestrictAddressFamilies"].split()


def test_the_feeder_has_time_to_publish_what_it_holds() -> None:
    assert int(settings(FEEDER)["TimeoutStopSec"]) > DRAIN_SECONDS + FLUSH_SECONDS


def test_the_query_runs_with_flags_that_exist_and_keeps_its_checkpoint() -> None:
    program, command, *flags = settings(QUERY)["ExecStart"].split()
    assert (Path(program).name, command) == ("kipwatch", "run")
    parser = argparse.ArgumentParser(exit_on_error=False)
    run.add_arguments(parser)
    assert parser.parse_args(flags).checkpoint.startswith("${STATE_DIRECTORY}/")
    assert settings(QUERY)["StateDirectory"] == "kipwatch"


def test_the_query_has_time_to_finish_its_batch_before_its_jvm_is_stopped() -> None:
    assert settings(QUERY)["KillMode"] == "mixed"
    assert int(settings(QUERY)["TimeoutStopSec"]) > LAST_BATCH_SECONDS


def test_units_of_one_machine_share_no_folder() -> None:
    """A folder belongs to the dynamic user of one unit, and the other cannot use it."""
    owned = [settings(unit)["CacheDirectory"] for unit in (FEEDER, QUERY)]
    assert len({*owned}) == len(owned)
    for unit, folder in zip((FEEDER, QUERY), owned, strict=True):
        assert f"Environment=NUMBA_CACHE_DIR=%C/{folder}\n" in unit.read_text()


def test_the_query_reads_the_file_that_a_reload_changes() -> None:
    """A credential would be a copy made at the start."""
    unit = settings(QUERY)
    assert unit["ExecReload"] == "/bin/sh -c 'kill -HUP $MAINPID'"
    assert "LoadCredential" not in unit


@pytest.mark.parametrize("unit", [FEEDER, QUERY], ids=lambda unit: unit.stem)
def test_systemd_finds_nothing_wrong(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copied = tmp_path / unit.name
    # The program is not installed here, and systemd looks for it.
    copied.write_text(unit.read_text().replace("/opt/kipwatch/bin/kipwatch", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", copied], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr
