"""Bench: packets to frames, compared with dpkt, which stops at TCP, and tcpdump, which only copies.

All three read the same synthetic capture, in turns; the median counts. kipwatch reassembles streams, cuts
and pairs frames, and writes columns. dpkt parses Ethernet, IP and TCP. tcpdump copies the file to /dev/null
with libpcap, the lower bound.

kipwatch also reads the same traffic over TLS, whose records it decrypts with a key log, and a capture of
short connections, as clients that reconnect make them: there most of the cost is in opening and closing
connections.

Then two gigabytes of the steady traffic are processed as they are made, without a file, and the process's
peak memory in the second half is compared with that in the first half.
"""

from __future__ import annotations

import io
import resource
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Final, cast

from decoders.schema.registry import default_schemas
from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.frames import FrameBatch
from decoders.wire.columnar.packets import read_batches
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.pcap import read_capture
from streaming.bench import in_turns, report
from streaming.bench.synthetic_capture import (
    BROKER_PORT,
    EncryptedCapture,
    ShortConnections,
    SyntheticCapture,
    write_capture,
)
from streaming.user_error import UserError

PACKETS: Final = 1_200_000
ROUNDS: Final = 3
LONG_CAPTURE: Final = 2 * 1000**3
"""Bytes of the capture over which memory is measured."""
_PAGE: Final = resource.getpagesize()


def measure(packets: int = PACKETS, rounds: int = ROUNDS, long_capture: int = LONG_CAPTURE) -> dict[str, Any]:
    """Return packets per second of each side, and ratios. Raises UserError without dpkt or tcpdump."""
    tcpdump = _tcpdump()
    with TemporaryDirectory() as folder:
        path, tls, short = (Path(folder, f"{name}.pcap") for name in ("wire", "tls", "short"))
        written = {"short_connections": write_capture(short, ShortConnections(), packets)}
        written["tls"] = write_capture(tls, EncryptedCapture(), packets)
        all_packets = write_capture(path, SyntheticCapture(), packets)
        size = path.stat().st_size
        sides: dict[str, Callable[[], int]] = {
            "kipwatch": lambda: _frames(path),
            "tls": lambda: _frames(tls, EncryptedCapture.key_log),
            "short_connections": lambda: _frames(short),
            "dpkt": lambda: _dpkt(path),
            "libpcap": lambda: _copy(tcpdump, path),
        }
        frames = sides["kipwatch"]()
        seconds = {name: statistics.median(taken) for name, taken in in_turns(sides, rounds).items()}
    rates = {name: written.get(name, all_packets) / taken for name, taken in seconds.items()}
    figures = {f"{name}_packets_per_second": rate for name, rate in rates.items()}
    figures |= {
        "frames": frames,
        "bytes_per_packet": size / all_packets,
        "frames_per_second": frames / seconds["kipwatch"],
    }
    first, second = _peak_memory(long_capture)
    figures["memory_over_long_capture_bytes"] = second
    ratios = {f"frames_vs_{name}": rates["kipwatch"] / rates[name] for name in ("dpkt", "libpcap")}
    ratios["tls_vs_plain"] = rates["tls"] / rates["kipwatch"]
    ratios["short_connections_vs_steady"] = rates["short_connections"] / rates["kipwatch"]
    return report("wire", figures, ratios | {"memory_latter_vs_former_half": second / first})


def _tcpdump() -> str:
    found = shutil.which("tcpdump")
    if found is None:
        raise UserError("bench wire needs tcpdump: install the package tcpdump")
    if find_spec("dpkt") is None:
        raise UserError("bench wire needs dpkt: pip install dpkt")
    return found


def _frames(path: Path, secrets: str = "") -> int:
    with path.open("rb") as file:
        return sum(len(batch.frames.sequences) for batch in tracked(file, secrets))


def tracked(file: BinaryIO, secrets: str = "") -> Iterator[FrameBatch]:
    """Yield the batches of frames of a capture; `secrets` is its key log."""
    key_log = KeyLog() if secrets else None
    if key_log is not None:
        key_log.add(secrets)
    tracker = ColumnarTracker(default_schemas(), ports={BROKER_PORT}, run=1, secret=bytes(8), key_log=key_log)
    for packets in read_batches(read_capture(file)):
        yield tracker.feed(packets)
    yield tracker.finish()


def _dpkt(path: Path) -> int:
    import dpkt  # noqa: PLC0415 - only benches need it

    payload = 0
    with path.open("rb") as file:
        for _, packet in dpkt.pcap.Reader(file):
            payload += len(dpkt.ethernet.Ethernet(packet).data.data.data)
    return payload


def _copy(tcpdump: str, path: Path) -> int:
    command = [tcpdump, "-r", str(path), "-w", "/dev/null"]
    return subprocess.run(command, check=True, capture_output=True, timeout=600).returncode


class _SyntheticStream(io.RawIOBase):
    """A stream of `size` bytes of a capture, which is made while it is read."""

    def __init__(self, size: int) -> None:
        self._blocks = SyntheticCapture().blocks()
        self._block = memoryview(b"")
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if self._left <= 0:
            return 0
        self._block = self._block or memoryview(next(self._blocks))
        size = min(len(target), len(self._block))
        target[:size] = self._block[:size]
        self._block = self._block[size:]
        self._left -= size
        return size


def _peak_memory(size: int) -> tuple[int, int]:
    """Process `size` bytes of a capture, and return the peak resident memory of its first and second half."""
    stream = _SyntheticStream(size)
    resident = []
    for _ in tracked(cast(BinaryIO, stream)):
        resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE)
    half = len(resident) // 2
    return max(resident[:half]), max(resident[half:])
