"""A server on a port of loopback, with a thread for each connection."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from streaming.broker.ports import HOST

Address = tuple[str, int]


class LoopbackServer:
    """Listens from its creation on, and serves connections while its context is open."""

    def __init__(self, name: str, serve: Callable[[socket.socket], None], port: int = 0) -> None:
        """Port 0 means any free one. `serve` gets each accepted connection, `name` is that of the thread."""

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self._server = Server((HOST, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)

    @property
    def address(self) -> Address:
        """The address that clients connect to."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
