"""A recording relay: TCP connections to it go on to a target, and what passes is told as packets.

It is for those who may not capture. Each chunk is recorded before it is passed on, so that no answer
comes before its request. The server of the packets is the relay's own listening address.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from decoders.frame.record import Direction
from decoders.wire.packet import Packet
from decoders.wire.segment import SocketAddress
from decoders.wire.synthesis import RELAY_DELAY, SyntheticConnection

Address = tuple[str, int]
Record = Callable[[list[Packet]], None]

_CHUNK = 64 * 1024
_OTHER = {
    Direction.TO_BROKER: Direction.TO_CLIENT,
    Direction.TO_CLIENT: Direction.TO_BROKER,
}
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""For SO_LINGER: drop what is unsent and send RST."""


class RelayError(Exception):
    """The relay cannot listen: one line that says why, and what to do."""


class Relay:
    """Listens on 127.0.0.1 and relays to `target`, on a thread of its own. A context manager.

    `record` is called on that thread, with the packets of one event at a time. Port 0 takes a free
    port; `address` tells which. Raises RelayError when the port is taken.
    """

    def __init__(self, target: Address, record: Record, port: int = 0) -> None:
        self._target = target
        self._record = record
        try:
            self._listener = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            raise RelayError(f"cannot listen on port {port}: {error.strerror}; choose another") from error
        host, taken = self._listener.getsockname()
        self.address: Address = (str(host), int(taken))
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._relaying: set[asyncio.Task[None] | None] = set()
        self._thread = threading.Thread(target=self._run, name=f"relay-{taken}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Break off every connection and stop listening."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._relay, sock=self._listener, limit=_CHUNK)
        await self._stopping.wait()
        server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The event loop refers to its tasks only weakly: one that waits in a cycle would be collected.
        task = asyncio.current_task()
        self._relaying.add(task)
        try:
            await _RelayedConnection(self._record, reader, writer).run(self._target)
        finally:
            self._relaying.discard(task)


class _BrokenOffError(Exception):
    """The connection broke; its argument is the direction whose sender broke it off."""


class _RelayedConnection:
    """One client's connection through the relay."""

    def __init__(self, record: Record, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._record = record
        self._reader = reader
        self._writer = writer
        self._synthetic = SyntheticConnection(
            _socket_address(writer.get_extra_info("peername")),
            _socket_address(writer.get_extra_info("sockname")),
            acknowledgment_delay=RELAY_DELAY,
        )

    async def run(self, target: Address) -> None:
        """Relay until both sides have ended, one broke off, or the relay itself is closed."""
        self._record(self._synthetic.opened(time.time_ns()))
        try:
            await self._relay(target)
        except asyncio.CancelledError:
            self._record(self._synthetic.reset(time.time_ns(), Direction.TO_CLIENT))
            raise

    async def _relay(self, target: Address) -> None:
        writers = [self._writer]
        try:
            with _blaming(Direction.TO_CLIENT):
                reader, writer = await asyncio.open_connection(*target, limit=_CHUNK)
            writers.append(writer)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(Direction.TO_BROKER, self._reader, writer))
                pumps.create_task(self._pump(Direction.TO_CLIENT, reader, self._writer))
            for ended in writers:
                ended.close()
        except* _BrokenOffError as broken:
            self._record(self._synthetic.reset(time.time_ns(), *broken.exceptions[0].args))
        finally:
            for left in writers:
                _reset(left)

    async def _pump(
        self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass one direction on until its sender ends it. Waits while the receiver does not read."""
        while chunk := await self._read(direction, reader):
            self._record(self._synthetic.sent(time.time_ns(), direction, chunk))
            with _blaming(_OTHER[direction]):
                writer.write(chunk)
                await writer.drain()
        self._record(self._synthetic.finished(time.time_ns(), direction))
        with _blaming(_OTHER[direction]):
            writer.write_eof()

    @staticmethod
    async def _read(direction: Direction, reader: asyncio.StreamReader) -> bytes:
        with _blaming(direction):
            return await reader.read(_CHUNK)


@contextlib.contextmanager
def _blaming(direction: Direction) -> Iterator[None]:
    """Take a failure of the network for a break by the sender of a direction."""
    try:
        yield
    except OSError as error:
        raise _BrokenOffError(direction) from error


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break off what is not closed already."""
    if not writer.is_closing():
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        writer.transport.abort()


def _socket_address(name: Address) -> SocketAddress:
    return SocketAddress(socket.inet_aton(name[0]), name[1])
