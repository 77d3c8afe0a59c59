"""Bench: the rate of `kipwatch check`, compared with `tshark -T fields` of the Kafka fields.

Both are whole processes that read the same synthetic capture in turns. The measure is the median processor
time, less that for an empty capture. A round takes minutes, most of them tshark's.

The clients of the capture break no rule. A third of the connections produce, a third fetch, a third belong
to members of groups. Frames are small, and of versions that tshark knows. The soak uses the same capture.
"""

from __future__ import annotations

import functools
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from streaming.bench import in_turns, report
from streaming.bench.synthetic_capture import BROKER_PORT, Exchange, SyntheticCapture, exchange
from streaming.user_error import UserError

FRAMES: Final = 5_000_000
ROUNDS: Final = 1
_ROUNDS_OF_EMPTY: Final = 3
_FIELDS: Final = ("api_key", "api_version", "correlation_id", "client_id", "error", "len")
_TIMEOUT: Final = 1_800.0
"""Seconds that one process may take."""
_CAPTURE: Final = "CAPTURE"
"""Stands for the path of the capture in a command."""
CONNECTIONS: Final = 300
PER_WORK: Final = CONNECTIONS // 3


def measure(frames: int = FRAMES, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure, and report frames per second of both and their ratio. Raises UserError without tshark."""
    commands = {"check": _check(), "tshark": _tshark()}
    with TemporaryDirectory() as folder:
        empty, full = Path(folder, "empty.pcap"), Path(folder, "check.pcap")
        write_capture(empty, 0)
        made = write_capture(full, frames)
        size = full.stat().st_size
        _seconds(commands, empty, 1)  # The first start finds the caches empty.
        idle, busy = _seconds(commands, empty, _ROUNDS_OF_EMPTY), _seconds(commands, full, rounds)
    rates = {name: made / (busy[name] - idle[name]) for name in commands}
    figures = {f"{name}_frames_per_second": rate for name, rate in rates.items()}
    figures |= {f"{name}_empty_seconds": seconds for name, seconds in idle.items()}
    figures |= {"frames": made, "bytes_per_frame": size / made}
    return report("check", figures, {"check_vs_tshark": rates["check"] / rates["tshark"]})


def _seconds(commands: Mapping[str, Sequence[str]], path: Path, rounds: int) -> dict[str, float]:
    """Run the commands on a capture in turns; return the median processor time of each."""
    sides = {name: functools.partial(_run, command, path) for name, command in commands.items()}
    return {name: statistics.median(taken) for name, taken in in_turns(sides, rounds).items()}


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


def write_capture(path: Path, frames: int) -> int:
    """Write a capture of at least `frames` frames, and return their number."""
    streams = [
        SyntheticCapture(PER_WORK, work(), first=number * PER_WORK).blocks()
        for number, work in enumerate(WORKS)
    ]
    # Each begins with a file header, of which one is needed.
    header, *_ = [next(stream) for stream in streams]
    written = 0
    with path.open("wb") as file:
        file.write(header)
        while written < frames:
            for stream in streams:
                file.write(next(stream))
                written += 2 * PER_WORK
    return written


def _producing() -> Iterator[Exchange]:
    for size in (90, 150, 300):
        data = [{"index": 0, "records": "QUJD" * (size // 3)}]
        request = {"acks": -1, "timeoutMs": 1000, "topicData": [{"name": "orders", "partitionData": data}]}
        stored = [{"name": "orders", "partitionResponses": [{"index": 0, "baseOffset": 1}]}]
        yield exchange("Produce", 9, request, {"responses": stored})


def _fetching() -> Iterator[Exchange]:
    for size in (0, 150, 0, 300):
        wanted = [{"partition": 0, "fetchOffset": 1, "partitionMaxBytes": 1 << 20}]
        found = [{"partitionIndex": 0, "highWatermark": 1, "records": "QUJD" * (size // 3)}]
        request = {"maxWaitMs": 500, "minBytes": 1, "topics": [{"topic": "orders", "partitions": wanted}]}
        yield exchange("Fetch", 11, request, {"responses": [{"topic": "orders", "partitions": found}]})


def _belonging_to_groups() -> Iterator[Exchange]:
    member = {"groupId": "group", "memberId": "member"}
    for _ in range(3):
        yield exchange("Heartbeat", 4, {**member, "generationId": 1}, {})
    committed = [{"name": "orders", "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}]
    yield exchange("OffsetCommit", 8, {**member, "topics": committed}, {})


WORKS: Final = (_producing, _fetching, _belonging_to_groups)
