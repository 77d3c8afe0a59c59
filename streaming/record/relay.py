"""Recording relays: forward TCP connections to brokers, and record their bytes as packets.

A relay replaces the capture where that is not permitted. Each chunk is recorded before it is forwarded, so
that no response comes before its request. The server of the packets is the relay's own listening address. A
recording has one relay for each broker, started when a response first names the broker.

What a client sends counts as sent in knowledge of a response under two conditions: none of it had arrived
when the response was passed on, and the client's host has acknowledged all of the response. Relays listen on
the loopback interface, so nothing that was sent earlier is still on its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import secrets
import socket
import ssl
import struct
import sys
import termios
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import BinaryIO, NamedTuple, Protocol, SupportsIndex

from decoders.frame.record import Direction
from decoders.schema.registry import Schemas
from decoders.wire.closing import OTHER
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType, Packet, SocketAddress
from decoders.wire.synthesis import RELAY_DELAY, SyntheticConnection
from streaming.broker.ports import HOST, cannot_listen
from streaming.record.rewriting import Address, Alter, RewritingPassage, unaltered
from streaming.settings.address import address_text

CHUNK = 64 * 1024
"""Maximum number of bytes to forward at once."""
RecordPackets = Callable[[list[Packet]], None]
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""For SO_LINGER: discard unsent bytes and send RST."""


class Passage(Protocol):
    """Passes the bytes of one connection on. It may hold back and change them."""

    def process(self, direction: Direction, chunk: bytes) -> bytes | None:
        """Return the bytes to forward when a chunk has arrived, None to break the connection off."""

    def end(self, direction: Direction) -> bytes:
        """Return the bytes held back, when the sender of a direction has ended."""


class Unchanged:
    """The passage that changes nothing."""

    def process(self, _direction: Direction, chunk: bytes) -> bytes:
        return chunk

    def end(self, _direction: Direction) -> bytes:
        """Return nothing, since nothing is held back."""
        return b""


class _BrokenError(Exception):
    """The connection broke. The argument is the direction whose sender broke it."""


class ClientReader(asyncio.StreamReader):
    """Reads what a client sends. `arrived` counts all bytes that the event loop has taken from the socket."""

    arrived = 0

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        """Take bytes from the event loop."""
        taken = bytes(data)
        self.arrived += len(taken)
        super().feed_data(taken)


class RelayedConnection:
    """One client's connection through the relay."""

    def __init__(
        self, record: RecordPackets, passage: Passage, reader: ClientReader, writer: asyncio.StreamWriter
    ) -> None:
        self._record = record
        self._passage = passage
        self._reader = reader
        self._writer = writer
        self._read = 0
        self._early = 0
        """How many of the client's bytes had arrived when something was last passed on to it."""
        self._synthetic = SyntheticConnection(
            SocketAddress.named(writer.get_extra_info("peername")),
            SocketAddress.named(writer.get_extra_info("sockname")),
            acknowledgment_delay=RELAY_DELAY,
            # With equal sequences, a later connection of the same port would look like a repetition.
            initial_sequences=(secrets.randbits(32), secrets.randbits(32)),
        )

    async def run(self, connect: Connect) -> None:
        """Connect, and relay until both sides have ended, one breaks, or the relay is closed."""
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
        """Forward one direction until its sender ends. Waits while the receiver does not read."""
        while chunk := await self._chunk(direction, reader):
            passed = self._passage.process(direction, chunk)
            if passed is None:
                raise _BrokenError(direction)
            await self._forward(direction, passed, writer)
        await self._forward(direction, self._passage.end(direction), writer)
        self._record(self._synthetic.finished(time.time_ns(), direction))
        with _blaming(OTHER[direction]):
            _end(writer)

    async def _forward(self, direction: Direction, data: bytes, writer: asyncio.StreamWriter) -> None:
        if data:
            self._record(self._synthetic.sent(time.time_ns(), direction, data))
            if direction is Direction.TO_CLIENT:
                self._early = self._reader.arrived + _queued(writer, termios.FIONREAD)
            with _blaming(OTHER[direction]):
                writer.write(data)
                await writer.drain()

    async def _chunk(self, direction: Direction, reader: asyncio.StreamReader) -> bytes:
        with _blaming(direction):
            chunk = await reader.read(CHUNK)
        if direction is Direction.TO_BROKER:
            if self._read >= self._early and _has_all(self._writer):
                self._synthetic.received()
            self._read += len(chunk)
        return chunk


@contextlib.contextmanager
def _blaming(direction: Direction) -> Iterator[None]:
    """Attribute a network error to the sender of a direction."""
    try:
        yield
    except OSError as error:
        raise _BrokenError(direction) from error


def _has_all(writer: asyncio.StreamWriter) -> bool:
    """Whether the other host has acknowledged everything that was written."""
    return not writer.transport.get_write_buffer_size() and not _queued(writer, termios.TIOCOUTQ)


def _queued(writer: asyncio.StreamWriter, queue: int) -> int:
    """Return the bytes, encrypted if by TLS, in a queue: FIONREAD not read, TIOCOUTQ not acknowledged."""
    descriptor = writer.get_extra_info("socket").fileno()
    if descriptor < 0:
        return 0
    return int.from_bytes(fcntl.ioctl(descriptor, queue, bytes(4)), sys.byteorder)


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


class Encryption(NamedTuple):
    """TLS of a relay: as the server of its clients, and as a client of the target."""

    downstream: ssl.SSLContext | None = None
    upstream: ssl.SSLContext | None = None


PLAIN = Encryption()


class Relay:
    """Listens on loopback and relays to `target`, on a thread of its own. A context manager.

    The thread calls `record` with the decrypted packets of each event, and `warn` if the target cannot be
    reached. `passage` makes the object that may change the bytes of a connection. Port 0 means any free port;
    `address` tells which. Raises UserError if the port is in use.
    """

    def __init__(
        self,
        target: Address,
        record: RecordPackets,
        port: int = 0,
        *,
        passage: Callable[[], Passage] = Unchanged,
        encryption: Encryption = PLAIN,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._target, self._record, self._warn = target, record, warn
        self._passage, self._encryption = passage, encryption
        try:
            self._listener = socket.create_server((HOST, port))
        except OSError as error:
            raise cannot_listen(port, error) from error
        host, own_port = self._listener.getsockname()
        self.address: Address = (str(host), int(own_port))
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._relaying: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name=f"relay-{own_port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Reset every connection and stop listening."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await self._loop.create_server(
            self._protocol, sock=self._listener, ssl=self._encryption.downstream
        )
        await self._stopping.wait()
        server.close()

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = ClientReader(limit=CHUNK, loop=self._loop)

        def relay(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = RelayedConnection(self._record, self._passage(), reader, writer)
            task = self._loop.create_task(connection.run(self._connect))
            # The event loop holds its tasks weakly: without this reference a waiting one may be collected.
            self._relaying.add(task)
            task.add_done_callback(self._ended)

        return asyncio.StreamReaderProtocol(reader, relay, loop=self._loop)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._relaying.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._loop.call_exception_handler({"message": "a relayed connection failed", "exception": error})

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection(*self._target, limit=CHUNK, ssl=self._encryption.upstream)
        except OSError as error:
            if self._warn:
                host, port = self._target
                self._warn(f"cannot reach {host}:{port}: {error.strerror or error}")
            raise


class Relays:
    """Relays in place of the brokers. They write all packets to `stream` as one pcap. A context manager."""

    def __init__(
        self,
        schemas: Schemas,
        stream: BinaryIO,
        encryption: Encryption = PLAIN,
        begin: Callable[[int], Alter] = lambda _connection: unaltered,
    ) -> None:
        """`begin` returns how the responses of each connection, by its number, are altered."""
        self._schemas, self._encryption, self._begin = schemas, encryption, begin
        self._stream = stream
        self._writer = PcapWriter(stream, LinkType.ETHERNET)
        self._relays: dict[Address, Address] = {}
        self._warned: set[str] = set()
        self._connections = self._failures = 0
        self._stack = ExitStack()
        # Each relay has a thread, and all threads write packets and start further relays.
        self._writing, self._relaying, self._counting = (threading.Lock() for _ in range(3))

    def __enter__(self) -> Relays:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._stream.flush()

    def address_of(self, broker: Address) -> Address:
        """Return the address of the relay to a broker. The first call for a broker starts its relay."""
        with self._relaying:
            if broker not in self._relays:
                relay = Relay(
                    broker,
                    self._record,
                    passage=self._passage,
                    encryption=self._encryption,
                    warn=self._note_failure,
                )
                self._relays[broker] = self._stack.enter_context(relay).address
            return self._relays[broker]

    @property
    def trouble(self) -> str:
        """Why nothing was recorded, in one line; "" if a connection reached a broker."""
        brokers, relays = (
            ", ".join(address_text(*address) for address in addresses)
            for addresses in (self._relays, self._relays.values())
        )
        if not self._connections:
            return (
                f"the command opened no connection to the relay at {relays}: give it the address, as "
                "{bootstrap} in the command or from $KIPWATCH_BOOTSTRAP"
            )
        if self._failures == self._connections:
            return f"no broker was reached at {brokers}: see that it runs there, and correct --bootstrap"
        return ""

    def _note_failure(self, warning: str) -> None:
        with self._counting:
            self._failures += 1
        self._warn(warning)

    def _passage(self) -> RewritingPassage:
        with self._counting:
            number = self._connections
            self._connections += 1
        return RewritingPassage(self._schemas, self.address_of, self._warn, self._begin(number))

    def _record(self, packets: list[Packet]) -> None:
        with self._writing:
            for packet in packets:
                self._writer.write(packet)

    def _warn(self, warning: str) -> None:
        """Print each warning once."""
        if warning not in self._warned:
            self._warned.add(warning)
            print(f"kipwatch: {warning}", file=sys.stderr)
