"""A recording relay: forwards TCP connections to a target, and records their bytes as packets.

It replaces the capture where that is not permitted. Each chunk is recorded before it is forwarded, so that no
response comes before its request. The server of the packets is the relay's own listening address.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from streaming.feeder.relayed_connection import CHUNK, Passage, RecordPackets, RelayedConnection, Unchanged

Address = tuple[str, int]


class Encryption(NamedTuple):
    """TLS of a relay: as the server of its clients, and as a client of the target."""

    downstream: ssl.SSLContext | None = None
    upstream: ssl.SSLContext | None = None


PLAIN = Encryption()


class RelayError(Exception):
    """The relay cannot listen; the message is one line that says why, and what to do."""


class Relay:
    """Listens on 127.0.0.1 and relays to `target`, on a thread of its own. A context manager.

    `record` is called on that thread with the packets of one event at a time, decrypted. `passage` makes the
    object that may change the bytes of one connection. Port 0 means any free port; `address` holds it. `warn`
    is called on that thread if the target cannot be reached. Raises RelayError if the port is in use.
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
            self._listener = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            raise RelayError(
                f"cannot listen on port {port}: {error.strerror}; choose another port"
            ) from error
        host, own_port = self._listener.getsockname()
        self.address: Address = (str(host), int(own_port))
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._relaying: set[asyncio.Task[None] | None] = set()
        self._thread = threading.Thread(target=self._run, name=f"relay-{own_port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Reset every connection and stop listening."""
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
            self._relay, sock=self._listener, limit=CHUNK, ssl=self._encryption.downstream
        )
        await self._stopping.wait()
        server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The event loop holds only weak references to its tasks: a waiting one might be collected.
        task = asyncio.current_task()
        self._relaying.add(task)
        try:
            connection = RelayedConnection(self._record, self._passage(), reader, writer)
            await connection.run(self._connect)
        finally:
            self._relaying.discard(task)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection(*self._target, limit=CHUNK, ssl=self._encryption.upstream)
        except OSError as error:
            if self._warn:
                host, port = self._target
                self._warn(f"cannot reach {host}:{port}: {error.strerror or error}")
            raise
