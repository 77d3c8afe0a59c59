"""One connection through a relay: its bytes are forwarded, and recorded as packets."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from decoders.frame.record import Direction
from decoders.wire.packet import Packet
from decoders.wire.segment import SocketAddress
from decoders.wire.synthesis import RELAY_DELAY, SyntheticConnection

CHUNK = 64 * 1024
"""Maximum number of bytes that are forwarded at once."""
RecordPackets = Callable[[list[Packet]], None]
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

_OTHER = {
    Direction.TO_BROKER: Direction.TO_CLIENT,
    Direction.TO_CLIENT: Direction.TO_BROKER,
}
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""For SO_LINGER: discard unsent bytes and send RST."""


class Passage(Protocol):
    """May hold back and change the bytes of one connection."""

    def process(self, direction: Direction, chunk: bytes) -> bytes:
        """Return the bytes to forward now that a chunk of one direction has arrived."""

    def end(self, direction: Direction) -> bytes:
        """Return the bytes held back, when the sender of a direction has ended."""


class Unchanged:
    """The passage that changes nothing."""

    def process(self, _direction: Direction, chunk: bytes) -> bytes:
        """Return the chunk."""
        return chunk

    def end(self, _direction: Direction) -> bytes:
        """Return nothing: nothing was held back."""
        return b""


class _BrokenError(Exception):
    """The connection broke; the argument is the direction whose sender broke it."""


class RelayedConnection:
    """One client's connection through the relay."""

    def __init__(
        self,
        record: RecordPackets,
        passage: Passage,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._record = record
        self._passage = passage
        self._reader = reader
        self._writer = writer
        self._synthetic = SyntheticConnection(
            _socket_address(writer.get_extra_info("peername")),
            _socket_address(writer.get_extra_info("sockname")),
            acknowledgment_delay=RELAY_DELAY,
            # Another connection from the same port would be taken for a repetition of this one.
            initial_sequences=(secrets.randbits(32), secrets.randbits(32)),
        )

    async def run(self, connect: Connect) -> None:
        """Connect, and relay until both sides have ended, one has broken, or the relay is closed."""
        self._record(self._synthetic.opened(time.time_ns()))
        try:
            await self._relay(connect)
        except asyncio.CancelledError:
            self._record(self._synthetic.reset(time.time_ns(), Direction.TO_CLIENT))
            raise

    async def _relay(self, connect: Connect) -> None:
        writers = [self._writer]
        try:
            with _blaming(Direction.TO_CLIENT):
                reader, writer = await connect()
            writers.append(writer)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(Direction.TO_BROKER, self._reader, writer))
                pumps.create_task(self._pump(Direction.TO_CLIENT, reader, self._writer))
            for ended in writers:
                ended.close()
        except* _BrokenError as broken:
            self._record(self._synthetic.reset(time.time_ns(), *broken.exceptions[0].args))
        finally:
            for left in writers:
                _reset(left)

    async def _pump(
        self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Forward one direction until its sender ends it. Waits while the receiver does not read."""
        while chunk := await self._read(direction, reader):
            await self._forward(direction, self._passage.process(direction, chunk), writer)
        await self._forward(direction, self._passage.end(direction), writer)
        self._record(self._synthetic.finished(time.time_ns(), direction))
        with _blaming(_OTHER[direction]):
            _end(writer)

    async def _forward(self, direction: Direction, data: bytes, writer: asyncio.StreamWriter) -> None:
        if data:
            self._record(self._synthetic.sent(time.time_ns(), direction, data))
            with _blaming(_OTHER[direction]):
                writer.write(data)
                await writer.drain()

    @staticmethod
    async def _read(direction: Direction, reader: asyncio.StreamReader) -> bytes:
        with _blaming(direction):
            return await reader.read(CHUNK)


@contextlib.contextmanager
def _blaming(direction: Direction) -> Iterator[None]:
    """Attribute a network error to the sender of a direction."""
    try:
        yield
    except OSError as error:
        raise _BrokenError(direction) from error


def _end(writer: asyncio.StreamWriter) -> None:
    """End one direction; TLS cannot, so it ends both."""
    if writer.can_write_eof():
        writer.write_eof()
    else:
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection unless it is closed."""
    if not writer.is_closing():
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        writer.transport.abort()


def _socket_address(name: tuple[str, int]) -> SocketAddress:
    return SocketAddress(socket.inet_aton(name[0]), name[1])
