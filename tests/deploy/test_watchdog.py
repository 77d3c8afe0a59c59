"""The watchdog's receiver: it acts once when the alert stops arriving, and anew after it came back."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.tree import ROOT
from tests.waiting import until

PROGRAM = ROOT / "deploy/watchdog/watchdog.py"
AFTER = 1.5


class Watchdog:
    """A running receiver, whose command adds a line to a file, and fails before there are enough lines."""

    def __init__(self, folder: Path, enough: int = 1) -> None:
        self.acted = folder / "acted"
        name = repr(str(self.acted))
        add = f"open({name}, 'a').write('silent\\n'); exit(len([*open({name})]) < {enough})"
        command = [sys.executable, "-u", str(PROGRAM), "--listen", "127.0.0.1:0", "--after", str(AFTER)]
        self.process = subprocess.Popen(
            [*command, "--", sys.executable, "-c", add], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]

    def post(self, name: str = "KipwatchWatchdog", status: str = "firing") -> int:
        return self.ask(json.dumps({"alerts": [{"status": status, "labels": {"alertname": name}}]}).encode())

    def get(self) -> int:
        return self.ask(None)

    def times_acted(self) -> int:
        return len(self.acted.read_text().splitlines()) if self.acted.exists() else 0

    def ask(self, body: bytes | None) -> int:
        try:
            with urllib.request.urlopen(f"http://{self.address}", body, timeout=10) as response:
                status: int = response.status
                return status
        except urllib.error.HTTPError as error:
            return error.code

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture
def watchdog(tmp_path: Path) -> Iterator[Watchdog]:
    with Watchdog(tmp_path) as started:
        yield started


@pytest.mark.slow
def test_it_acts_once_for_each_silence(watchdog: Watchdog) -> None:
    assert (watchdog.post(), watchdog.get(), watchdog.times_acted()) == (200, 200, 0)
    until(lambda: watchdog.times_acted() == 1)
    assert watchdog.get() == 503
    time.sleep(2 * AFTER)
    assert watchdog.times_acted() == 1
    assert (watchdog.post(), watchdog.get()) == (200, 200)
    until(lambda: watchdog.times_acted() == 2)


@pytest.mark.slow
def test_a_command_that_fails_is_run_again(tmp_path: Path) -> None:
    with Watchdog(tmp_path, enough=2) as watchdog:
        until(lambda: watchdog.times_acted() == 2)
        time.sleep(AFTER)
        assert watchdog.times_acted() == 2


@pytest.mark.slow
def test_the_command_runs_although_other_alerts_arrive(watchdog: Watchdog) -> None:
    def other_arrives() -> bool:
        assert watchdog.post("KipwatchStalled") == 400
        return watchdog.times_acted() == 1

    until(other_arrives)


@pytest.mark.parametrize("body", [b"", b"KipwatchWatchdog", b"[]", b'{"alerts": 1}', b'{"alerts": [{}]}'])
def test_a_body_that_is_no_notification_is_refused(watchdog: Watchdog, body: bytes) -> None:
    assert watchdog.ask(body) == 400


@pytest.mark.parametrize(
    ("name", "status"), [("KipwatchStalled", "firing"), ("KipwatchWatchdog", "resolved")]
)
def test_another_alert_is_no_sign_of_life(watchdog: Watchdog, name: str, status: str) -> None:
    assert watchdog.post(name, status) == 400


@pytest.mark.parametrize("length", ["-1", "much"])
def test_a_body_without_an_end_is_refused(watchdog: Watchdog, length: str) -> None:
    connection = http.client.HTTPConnection(watchdog.address, timeout=10)
    connection.request("POST", "/", headers={"Content-Length": length})
    assert connection.getresponse().status == 411
    connection.close()
