"""The processes below another, the memory that they take and what they have open."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_MEBIBYTE = 1 << 20


def children(process_id: int) -> list[int]:
    """Return the process IDs of the children in ascending order, usually that of their start.

    A process that has ended has none.
    """
    found: list[int] = []
    # A child belongs to the thread that started it.
    with suppress(OSError):
        for task in Path(f"/proc/{process_id}/task").glob("*/children"):
            found.extend(map(int, task.read_text().split()))
    return sorted(found)


def tree(root: int) -> Iterator[int]:
    """Yield a process ID and those of all processes below it."""
    yield root
    for child in children(root):
        yield from tree(child)


def jvms(root: int) -> list[int]:
    """Return the JVMs among a process and all below it."""
    return [process for process in tree(root) if Path(f"/proc/{process}/comm").read_text() == "java\n"]


def workers(root: int) -> list[int]:
    """Return Spark's Python workers, without the process that starts them."""
    found = tree(root)
    return [each for each in found if "pyspark.daemon" in _command(each) and not children(each)]


def send_signal(processes: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes."""
    for process in processes:
        os.kill(process, number)


@contextmanager
def frozen(processes: Sequence[int]) -> Iterator[None]:
    """Stop processes, of which there must be some, and continue them."""
    assert processes
    send_signal(processes, signal.SIGSTOP)
    try:
        yield
    finally:
        send_signal(processes, signal.SIGCONT)


def descriptors(process_id: int) -> int:
    """Return how many files, sockets and pipes a process has open; one that has ended has none."""
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{process_id}/fd").iterdir())
    return 0


def resident_mebibytes(root: int) -> dict[str, float]:
    """Return the resident memory of a process and all below it in MiB: of `java`, `workers` and `driver`.

    `workers` are Spark's Python workers; `driver` is every other process.
    """
    found: dict[str, float] = {}
    for process_id in tree(root):
        with suppress(OSError, IndexError):
            command = _command(process_id)
            pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
            kind = _kind(command)
            found[kind] = found.get(kind, 0.0) + pages * os.sysconf("SC_PAGE_SIZE") / _MEBIBYTE
    return found


def _command(process_id: int) -> str:
    return Path(f"/proc/{process_id}/cmdline").read_text()


def _kind(command: str) -> str:
    if command.partition("\0")[0].endswith("java"):
        return "java"
    return "workers" if "pyspark" in command and "java" not in command else "driver"
