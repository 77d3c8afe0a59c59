"""Bench: the rate of `kipwatch check`, compared with `tshark -T fields` of the Kafka fields.

Both are whole processes that read the same synthetic capture in turns. The measure is the median of the CPU
time, user and system, since each keeps one core busy and neither waits for a disk; the time for an empty
capture is subtracted. A round takes minutes, most of them tshark's.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from streaming.bench.check_capture import write_capture
from streaming.bench.report import report
from streaming.bench.wire_capture import BROKER_PORT
from streaming.user_error import UserError

FRAMES: Final = 5_000_000
ROUNDS: Final = 1
_ROUNDS_OF_EMPTY: Final = 3
_FIELDS: Final = ("api_key", "api_version", "correlation_id", "client_id", "error", "len")
_TIMEOUT: Final = 1_800.0
"""Seconds that one process may take."""


def measure(frames: int = FRAMES, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure, and report frames per second of both and their ratio. Raises UserError without tshark."""
    commands = {"check": _check(), "tshark": _tshark()}
    with TemporaryDirectory() as folder:
        empty, full = Path(folder, "empty.pcap"), Path(folder, "check.pcap")
        write_capture(empty, 0)
        made = write_capture(full, frames)
        size = full.stat().st_size
        _in_turns(commands, empty, 1)  # The first start finds the caches empty.
        idle, busy = _in_turns(commands, empty, _ROUNDS_OF_EMPTY), _in_turns(commands, full, rounds)
    rates = {name: made / (busy[name] - idle[name]) for name in commands}
    figures = {f"{name}_frames_per_second": rate for name, rate in rates.items()}
    figures |= {f"{name}_empty_seconds": seconds for name, seconds in idle.items()}
    figures |= {"frames": made, "bytes_per_frame": size / made}
    return report("check", figures, {"check_vs_tshark": rates["check"] / rates["tshark"]})


def _in_turns(commands: Mapping[str, Sequence[str]], path: Path, rounds: int) -> dict[str, float]:
    """Run the commands on a capture in turns; returns the median CPU seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            start = _processor_time()
            _run(command, path)
            seconds[name].append(_processor_time() - start)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def _processor_time() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _run(command: Sequence[str], path: Path) -> None:
    done = subprocess.run(
        [part if part != _CAPTURE else str(path) for part in command],
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=_TIMEOUT,
    )
    # `check` exits 2 if there are no frames.
    if done.returncode not in (0, 2):
        raise UserError(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip()[-200:]}")


_CAPTURE: Final = "CAPTURE"
"""Stands for the path of the capture in a command."""


def _check() -> list[str]:
    program = [sys.executable, "-m", "kipwatch"]
    return [*program, "check", _CAPTURE, "--ports", str(BROKER_PORT), "--json"]


def _tshark() -> list[str]:
    found = shutil.which("tshark")
    if found is None:
        raise UserError("bench check needs tshark: install the package tshark")
    fields = [part for field in _FIELDS for part in ("-e", f"kafka.{field}")]
    filters = ["-d", f"tcp.port=={BROKER_PORT},kafka", "-Y", "kafka"]
    return [found, "-n", "-r", _CAPTURE, *filters, "-T", "fields", *fields]
