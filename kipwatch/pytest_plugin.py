"""A plugin of pytest: its fixture `kipwatch_record` puts `kipwatch record` between tests and their brokers.

    @pytest.fixture(scope="session")
    def bootstrap(broker, kipwatch_record):
        return kipwatch_record(broker.bootstrap)

The session fails if the recorded traffic violates a rule, and names the test in which each finding was made.
With `provoke="older-broker"`, or another provocation, brokers seem to misbehave meanwhile. kipwatch runs as a
process of its own, so nothing of it is imported beside the code that is tested.
"""

from __future__ import annotations

import bisect
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_HOLDS = "import os, sys; print(os.environ['KIPWATCH_BOOTSTRAP'], flush=True); sys.stdin.read()"
"""What runs behind the relays in place of a client: it tells their addresses and waits for its end."""
Begun = list[tuple[int, str]]
"""When tests began, in nanoseconds since the epoch, and their IDs, in this order."""
Record = Callable[..., str]
"""Takes brokers and, as `provoke`, a provocation."""
_BEGUN = pytest.StashKey[Begun]()
_VERDICTS = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kipwatch", "record and check the Kafka traffic of tests (kipwatch_record)")
    group.addoption(
        "--kipwatch-folder",
        type=Path,
        default=Path("kipwatch"),
        metavar="DIR",
        help="folder for traffic.pcap, check.xml and evidence of each recording (default: %(default)s)",
    )
    group.addoption(
        "--kipwatch-flags",
        default="",
        metavar="FLAGS",
        help="further flags of `kipwatch record`, such as '--fail-on improvement --config kipwatch.toml'",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what the session adds up."""
    config.stash[_BEGUN], config.stash[_VERDICTS] = [], []


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note when a test began."""
    item.config.stash[_BEGUN].append((time.time_ns(), item.nodeid))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdict of each recording."""
    for verdict in config.stash[_VERDICTS]:
        terminalreporter.write_line(f"kipwatch: {verdict}")


@pytest.fixture(scope="session")
def kipwatch_record(pytestconfig: pytest.Config) -> Iterator[Record]:
    """Return a function that takes brokers, as `HOST:PORT,…`, and returns the relays to connect to instead.

    It takes the name of one provocation, too: a session is one run. When the session ends, the traffic is
    checked, and the session fails if `kipwatch record` does.
    """
    recordings: dict[tuple[str, str], RunningRecord] = {}
    # Each worker of pytest-xdist has recordings of its own.
    worker = getattr(pytestconfig, "workerinput", {}).get("workerid", "")

    def record(bootstrap: str, provoke: str = "") -> str:
        if provoke == "all" or "," in provoke:
            pytest.fail("kipwatch_record: name one provocation: a session is one run", pytrace=False)
        if (bootstrap, provoke) not in recordings:
            folder = pytestconfig.getoption("kipwatch_folder") / f"{worker}-{len(recordings) + 1}".lstrip("-")
            try:
                flags = shlex.split(pytestconfig.getoption("kipwatch_flags"))
                recordings[bootstrap, provoke] = RunningRecord(bootstrap, folder, flags, provoke)
            except (OSError, ValueError) as error:
                line = f"kipwatch record did not start: {error}; see --kipwatch-folder and --kipwatch-flags"
                pytest.fail(line, pytrace=False)
        return recordings[bootstrap, provoke].relays

    yield record
    failures = []
    for recording in recordings.values():
        verdict, has_failed = recording.end(pytestconfig.stash[_BEGUN])
        pytestconfig.stash[_VERDICTS].append(verdict)
        failures += [verdict] if has_failed else []
    if failures:
        pytest.fail("kipwatch: " + "\n".join(failures), pytrace=False)


class RunningRecord:
    """One `kipwatch record`, running. `relays` is the bootstrap address of its relays."""

    def __init__(self, bootstrap: str, folder: Path, flags: list[str], provoke: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        flags = [*flags, *(["--provoke", provoke] if provoke else ["--evidence", str(folder / "evidence")])]
        self._bootstrap, self._folder, self._errors = bootstrap, folder, folder / "errors.txt"
        command = [sys.executable, "-m", "kipwatch", "record", "--bootstrap", bootstrap, "--json"]
        command += ["--save", str(folder / "traffic.pcap"), "--junit", str(folder / "check.xml")]
        command += [*flags, "--", sys.executable, "-c", _HOLDS]
        with self._errors.open("wb") as errors:
            # A session of its own: Ctrl-C ends the tests, and then the recording is checked.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        assert self._process.stdout is not None
        self.relays = self._process.stdout.readline().decode().strip()
        if not self.relays:
            self._process.communicate()
            pytest.fail(f"kipwatch record did not start: {self._complaints()}", pytrace=False)

    def end(self, begun: Begun) -> tuple[str, bool]:
        """End and check the recording. Returns what to say of it, and whether it fails the session."""
        printed, _ = self._process.communicate()
        status = self._process.returncode
        lines = printed.decode().splitlines()
        summary: dict[str, Any] = json.loads(lines[-1]) if lines else {"findings": [], "frames": 0}
        [provoked] = summary.get("duties") or [{}]
        findings = provoked.get("findings", summary.get("findings", []))
        found = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
        frames = f"{summary['requests']} requests" if provoked else f"{summary['frames']} frames"
        verdict = f"{frames} to {self._bootstrap}, {found} in {self._folder}"
        if provoked:
            verdict += f"; {provoked['duty']}: {' '.join(filter(None, (provoked['state'], provoked['why'])))}"
        shown = [_line(finding, begun) for finding in findings] if status else []
        shown += [_line(finding, begun) for finding in summary.get("suppressed", [])]
        complaints = self._complaints()
        return "\n".join([verdict, *shown, *([complaints] if complaints else [])]), status != 0

    def _complaints(self) -> str:
        return self._errors.read_text(errors="replace").strip()


def _line(finding: dict[str, Any], begun: Begun) -> str:
    place = bisect.bisect(begun, (finding["captured_at"], "")) - 1
    test = begun[place][1] if place >= 0 else "before the first test"
    suppressed = finding.get("suppressed")
    level = "suppressed (until {until}: {reason})".format(**suppressed) if suppressed else finding["level"]
    return f"{level} {finding['rule']}: {finding['message']} ({test})"
