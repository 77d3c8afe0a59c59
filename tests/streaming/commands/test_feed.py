"""`kipwatch feed`: dry runs, privileges, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from streaming.feeder.capture import RETIRE_MILLISECONDS, can_capture
from streaming.feeder.feeder import FeederHeartbeats
from tests.decoders.wire.conversation import metadata, prefixed
from tests.exchange import Exchange
from tests.streaming.captures import conforming, write_capture
from tests.streaming.commands.ran import Kipwatch
from tests.waiting import until

PATIENCE = 120.0
"""Seconds. Code may have to be compiled first."""

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not can_capture(), reason="only root with permission to capture can give up root"
)


def test_a_dry_run_shows_each_record_and_the_totals(kipwatch: Kipwatch, captures: Path) -> None:
    """It needs no Kafka: nobody listens at the bootstrap address."""
    ran = kipwatch("feed", captures / "clean.pcap", "--dry-run", "--bootstrap", "127.0.0.1:1")
    assert ran.status == 0
    ready, *lines, stopped = ran.output.splitlines()
    assert next(iter(json.loads(ready).items())) == ("feeder", "ready")
    totals = json.loads(stopped)
    assert len(lines) == sum(totals["records"].values()) > 4
    assert "opened" in lines[0]
    assert "request API 18 v4" in lines[1]
    assert "response matched 2" in lines[2]
    assert "closed fin" in lines[-1]
    assert totals["bytes"]["framed"] > 0


def test_a_file_without_the_watched_port_is_an_error_that_names_its_ports(
    kipwatch: Kipwatch, captures: Path
) -> None:
    path = captures / "clean.pcap"
    ran = kipwatch("feed", path, "--dry-run", "--ports", "9093,9094")
    assert ran.error_line == (
        f"nothing was published: {path} holds no data on port 9093, 9094; "
        "it has Kafka on port 9092: use --ports 9092"
    )


def test_a_file_may_be_fed_with_every_port_watched(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange, configuration = Exchange(server="10.0.0.2:19092"), tmp_path / "kipwatch.toml"
    exchange.negotiate(client_id="app")
    capture = write_capture(tmp_path / "a.pcap", exchange)
    for text, status in (("ports = []", 0), ("", 2)):
        configuration.write_text(text)
        assert kipwatch("feed", capture, "--dry-run", "--config", configuration).status == status


def test_an_empty_file_is_called_so(kipwatch: Kipwatch, captures: Path) -> None:
    path = captures / "empty.pcap"
    assert kipwatch("feed", path, "--dry-run").error_line == f"{path} is empty: it holds no packet"


def test_heartbeats_are_numbered_and_belong_to_no_connection() -> None:
    beats = FeederHeartbeats(run=7, cluster="orders", feeder="rack-1")
    first, second = beats.at(100), beats.at(200)
    assert (first.sequence, second.sequence) == (1, 2)
    assert (first.captured_at, second.captured_at) == (100, 200)
    assert first.connection == second.connection
    assert first.connection != FeederHeartbeats(run=8, cluster="orders", feeder="rack-1").at(1).connection


def test_what_is_saved_is_what_was_captured_with_its_secrets(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange, password = conforming(), "cGFzc3dvcmQgb2YgYSB1c2Vy"
    exchange.request("SaslAuthenticate", 2, {"authBytes": password}, client_id="app")
    capture, saved = write_capture(tmp_path / "capture.pcap", exchange), tmp_path / "saved.pcap"
    assert kipwatch("feed", capture, "--dry-run", "--save", saved).status == 0
    assert saved.read_bytes() == capture.read_bytes()
    assert b"password of a user" in saved.read_bytes()


@pytest.mark.parametrize("command", [["record", "--bootstrap", "127.0.0.1:1"], ["probe", "127.0.0.1:1"]])
def test_a_full_disk_is_one_line(kipwatch: Kipwatch, command: list[str]) -> None:
    behind = ["--", "true"] if "record" in command else []
    line = kipwatch(*command, "--save", "/dev/full", *behind).error_line
    assert line == "cannot write /dev/full: No space left on device"


def test_what_was_read_is_published_although_the_disk_is_full(kipwatch: Kipwatch, captures: Path) -> None:
    ran = kipwatch("feed", captures / "clean.pcap", "--dry-run", "--save", "/dev/full")
    assert ran.error_line == "cannot write /dev/full: No space left on device"
    assert json.loads(ran.output.splitlines()[-1])["records"]["request"] == 2


def test_settings_of_the_client_are_checked_before_anything_is_read(
    kipwatch: Kipwatch, captures: Path, tmp_path: Path
) -> None:
    configuration = tmp_path / "kipwatch.toml"
    configuration.write_text('[kafka]\n"sasl.mechanism" = "MAGIC"\n"no.such" = true')
    flags = ["--config", configuration, "--feeder-metrics-address", "127.0.0.1:0"]
    ran = kipwatch("feed", captures / "clean.pcap", *flags)
    assert ran.error_line.startswith("the table [kafka] is invalid")
    assert ran.output == ""


def test_the_feeder_ends_although_its_pipe_is_idle(captures: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streaming.commands.main", "feed", "-", "--dry-run", "--ports", "9092"]
    log = tmp_path / "feeder.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
    assert process.stdin is not None
    process.stdin.write((captures / "clean.pcap").read_bytes())
    process.stdin.flush()
    try:
        _wait_for("closed fin", log, process)
    finally:
        process.terminate()
        assert process.wait(10) == 0, log.read_text()
    assert json.loads(log.read_text().splitlines()[-1])["feeder"] == "stopped"


@pytest.mark.capture
@needs_root
def test_the_capability_suffices_without_root(tmp_path: Path) -> None:
    command = ["setpriv", "--reuid=nobody", "--clear-groups", "--inh-caps=-all,+net_raw"]
    command += ["--ambient-caps=-all,+net_raw", "--bounding-set=-all,+net_raw", *_feed("--dry-run")]
    # Not below the folder of the test, which belongs to root alone.
    with TemporaryDirectory() as compiled:
        _copy_compiled_code(Path(compiled))
        environment = {**os.environ, "NUMBA_CACHE_DIR": compiled}
        status = _status_of_short_run(command, tmp_path, environment)
    assert status["Uid"].split()[1] != "0"


@pytest.mark.capture
@needs_root
def test_root_is_given_up_once_the_capture_is_open(tmp_path: Path) -> None:
    status = _status_of_short_run(_feed("--dry-run", "--user", "nobody"), tmp_path)
    assert "0" not in status["Uid"].split() + status["Gid"].split()
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0


@pytest.mark.capture
@needs_root
def test_traffic_is_read_after_root_is_given_up(tmp_path: Path) -> None:
    """Compiled code is loaded before: the user cannot read root's cache."""
    log = tmp_path / "feeder.log"
    with socket.create_server(("127.0.0.1", 0)) as listener, log.open("wb") as output:
        port = str(listener.getsockname()[1])
        command = _feed("--dry-run", "--user", "nobody", "--ports", port)
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_for('"ready"', log, process)
            # Packets of several blocks of the ring are read at once.
            process.send_signal(signal.SIGSTOP)
            for _ in range(3):
                with socket.create_connection(listener.getsockname()) as client:
                    client.sendall(prefixed(metadata(1)))
                    listener.accept()[0].close()
                time.sleep(4 * RETIRE_MILLISECONDS / 1000)
            process.send_signal(signal.SIGCONT)
            _wait_for("closed", log, process)
        finally:
            process.terminate()
            assert process.wait(60) == 0, log.read_text()
    assert "request API 3 " in log.read_text()


@pytest.mark.capture
@needs_root
def test_a_user_that_does_not_exist_is_one_line(kipwatch: Kipwatch) -> None:
    flags = ["--user", "no-such-user", "--feeder-metrics-address", "127.0.0.1:0"]
    assert kipwatch("feed", *flags).error_line.startswith("there is no user 'no-such-user'")


@pytest.mark.capture
@pytest.mark.skipif(not can_capture(), reason="not permitted to capture packets")
def test_an_interface_that_is_missing_is_one_line(kipwatch: Kipwatch) -> None:
    line = kipwatch("feed", "--interface", "lo,nope0", "--dry-run").error_line
    assert line == "cannot capture on interface nope0: No such device"


def _feed(*flags: str) -> list[str]:
    command = [sys.executable, "-m", "streaming.commands.main", "feed", "--interface", "lo", "--ports", "1"]
    return [*command, "--feeder-metrics-address", "127.0.0.1:0", *flags]


def _copy_compiled_code(folder: Path) -> None:
    """Copy compiled code to a folder of the user nobody."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kipwatch" / "numba"
    if cache.is_dir():
        shutil.copytree(cache, folder / "kipwatch" / "numba")
    for place in (folder, *folder.rglob("*")):
        shutil.chown(place, "nobody")


def _wait_for(text: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    def is_logged() -> bool:
        logged = log.read_text()
        assert text in logged or process.poll() is None, logged
        return text in logged

    until(is_logged, PATIENCE, every=0.05)


def _status_of_short_run(
    command: list[str], folder: Path, environment: dict[str, str] | None = None
) -> dict[str, str]:
    """Run a feeder until it is ready. Returns its status in /proc."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    log = folder / "feeder.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        _wait_for('"ready"', log, process)
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
