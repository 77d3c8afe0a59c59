"""Packets of standard input, which end when the feeder stops even if no bytes arrive."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch
from streaming.feeder.capture_stream import CaptureStream
from streaming.feeder.source import check_complete
from streaming.user_error import UserError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

POLL_MILLISECONDS = 50
_DESCRIPTOR = 0


def standard_input(
    is_stopping: Callable[[], bool], idle: Callable[[], None], key_log: KeyLog | None = None
) -> Iterator[PacketBatch]:
    """Yield the packets of standard input as they arrive, as `tcpdump -w -` writes them.

    Ends when `is_stopping`. `idle` is called every 50 ms while no bytes arrive. Secrets of TLS in them are
    added to `key_log`. Raises UserError like `open_capture`.
    """
    raw = _Bytes(is_stopping, idle)
    try:
        stream = CaptureStream(io.BufferedReader(raw), "standard input", key_log)
    except UserError:
        if is_stopping():
            return
        raise
    yield from stream.batches(raw.has_more)
    if not is_stopping():
        check_complete(stream, "standard input")


class _Bytes(io.RawIOBase):
    """The bytes of descriptor 0, until its end or `is_stopping`."""

    def __init__(self, is_stopping: Callable[[], bool], idle: Callable[[], None]) -> None:
        self._is_stopping, self._idle = is_stopping, idle
        self._poll = select.poll()
        self._poll.register(_DESCRIPTOR, select.POLLIN)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Wait for bytes and read those available; returns 0 at the end."""
        while not self._is_stopping():
            if self._poll.poll(POLL_MILLISECONDS):
                return os.readv(_DESCRIPTOR, [buffer])
            self._idle()
        return 0

    def has_more(self) -> bool:
        """Whether a read would not wait."""
        return bool(self._poll.poll(0))
