"""A recording relay: TCP connections to it go on to a target, and what passes is told as packets.

It is for those who may not capture. Each chunk is recorded before it is passed on, so that no answer
comes before its request. The server of the packets is the relay's own listening address.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NamedTuple, Protocol

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


class Passage(Protocol):
    """What happens to the bytes of one connection on their way."""

    def take(self, direction: Direction, chunk: bytes) -> bytes:
        """Give what goes on now, after a chunk came in one direction."""

    def end(self, direction: Direction) -> bytes:
        """Give what was held back, when the sender of a direction has ended."""


class Unchanged:
    """The passage of a relay that only listens."""

    def take(self, _direction: Direction, chunk: bytes) -> bytes:
        """Give the chunk."""
        return chunk

    def end(self, _direction: Direction) -> bytes:
        """Give nothing: nothing was held back."""
        return b""


class Encryption(NamedTuple):
    """How a relay speaks TLS: as the server of its clients, and as a client of the target."""

    downstream: ssl.SSLContext | None = None
    upstream: ssl.SSLContext | None = None


PLAIN = Encryption()


class RelayError(Exception):
    """The relay cannot listen: one line that says why, and what to do."""


class Relay:
    """Listens on 127.0.0.1 and relays to `target`, on a thread of its own. A context manager.

    `record` is called on that thread, with the packets of one event at a time: what the client sent and
    was sent, without TLS. `passage` makes the way of one connection. Port 0 takes a free port; `address`
    tells which. Raises RelayError when the port is taken.
    """

    def __init__(
        self,
        target: Address,
        record: Record,
        port: int = 0,
        passage: Callable[[], Passage] = Unchanged,
        encryption: Encryption = PLAIN,
    ) -> None:
        self._target, self._record = target, record
        self._passage, self._encryption = passage, encryption
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
        server = await asyncio.start_server(
            self._relay, sock=self._listener, limit=_CHUNK, ssl=self._encryption.downstream
        )
        await self._stopping.wait()
        server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The event loop refers to its tasks only weakly: one that waits in a cycle would be collected.
        task = asyncio.current_task()
        self._relaying.add(task)
        try:
            connection = _RelayedConnection(self._record, self._passage(), reader, writer)
            await connection.run(self._target, self._encryption.upstream)
        finally:
            self._relaying.discard(task)


class _BrokenOffError(Exception):
    """The connection broke; its argument is the direction whose sender broke it off."""


class _RelayedConnection:
    """One client's connection through the relay."""

    def __init__(
        self,
        record: Record,
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
        )

    async def run(self, target: Address, encryption: ssl.SSLContext | None) -> None:
        """Relay until both sides have ended, one broke off, or the relay itself is closed."""
        self._record(self._synthetic.opened(time.time_ns()))
        try:
            await self._relay(target, encryption)
        except asyncio.CancelledError:
            self._record(self._synthetic.reset(time.time_ns(), Direction.TO_CLIENT))
            raise

    async def _relay(self, target: Address, encryption: ssl.SSLContext | None) -> None:
        writers = [self._writer]
        try:
            with _blaming(Direction.TO_CLIENT):
                reader, writer = await asyncio.open_connection(*target, limit=_CHUNK, ssl=encryption)
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
            await self._pass_on(direction, self._passage.take(direction, chunk), writer)
        await self._pass_on(direction, self._passage.end(direction), writer)
        self._record(self._synthetic.finished(time.time_ns(), direction))
        with _blaming(_OTHER[direction]):
            _end(writer)

    async def _pass_on(self, direction: Direction, data: bytes, writer: asyncio.StreamWriter) -> None:
        if data:
            self._record(self._synthetic.sent(time.time_ns(), direction, data))
            with _blaming(_OTHER[direction]):
                writer.write(data)
                await writer.drain()

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


def _end(writer: asyncio.StreamWriter) -> None:
    """End one direction; TLS knows no such thing, and ends both."""
    if writer.can_write_eof():
        writer.write_eof()
    else:
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break off what is not closed already."""
    if not writer.is_closing():
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        writer.transport.abort()


def _socket_address(name: Address) -> SocketAddress:
    return SocketAddress(socket.inet_aton(name[0]), name[1])
