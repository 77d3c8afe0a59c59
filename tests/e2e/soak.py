"""Steady traffic for a long time: clients send requests at a steady rate and reconnect every half minute."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from streaming.bench.check import PER_WORK, WORKS
from streaming.bench.synthetic_capture import SyntheticCapture

FRAMES_PER_SECOND: Final = 40_000
FRAMES_IN_BLOCK: Final = 2 * PER_WORK
RECONNECT_SECONDS: Final = 30
_SEQUENCES: Final = 1 << 30
"""Distance between the TCP sequence numbers of a client's consecutive connections."""


def traffic(frames_per_second: int) -> Iterator[bytes]:
    """Yield an endless capture, in blocks of one exchange of a third of the clients."""
    blocks = RECONNECT_SECONDS * frames_per_second // FRAMES_IN_BLOCK // len(WORKS)
    for turn in itertools.count():
        streams = [
            SyntheticCapture(PER_WORK, work(), number * PER_WORK, turn * _SEQUENCES % (1 << 32)).blocks()
            for number, work in enumerate(WORKS)
        ]
        headers = [next(stream) for stream in streams]
        if turn == 0:
            yield headers[0]
        for _ in range(blocks):
            yield from map(next, streams)
