"""The HTTP server of /metrics for Prometheus, and of /healthz and /readyz for service managers."""

from __future__ import annotations

import errno
import socket
import socketserver
import ssl
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from streaming.user_error import UserError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LOOPBACK = "127.0.0.1"
IDLE_SECONDS = 10
"""How long a connection may be idle."""
_IS_ADMITTED = "kipwatch.is_admitted"


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    make_context: Callable[[], ssl.SSLContext] | None = None

    def handle_error(self, request: object, client_address: object) -> None:
        """Print no traceback because of a client that breaks off or fails to agree on TLS."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = IDLE_SECONDS
    server: _Server

    def setup(self) -> None:
        """Agree on TLS in the thread of the connection, so that a slow client delays no other one."""
        if self.server.make_context is not None:
            self.request.settimeout(IDLE_SECONDS)
            self.request = self.server.make_context().wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        """Close the TLS connection, too: the server only knows the socket below."""
        super().finish()
        self.request.close()

    def get_environ(self) -> WSGIEnvironment:
        """Add whether the client may read the metrics."""
        environ = super().get_environ()
        environ[_IS_ADMITTED] = _is_admitted(self.request)
        return environ

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named so in the base class)
        """Log nothing: a line for each scrape is of no use."""


def _is_admitted(connection: socket.socket) -> bool:
    """Return whether a client has shown the certificate that the server asks for, if it asks for one."""
    if not isinstance(connection, ssl.SSLSocket) or connection.context.verify_mode is ssl.CERT_NONE:
        return True
    return bool(connection.getpeercert())


class Exposition:
    """A running HTTP server; `close` ends it."""

    def __init__(self, server: WSGIServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on; a free one if port 0 was requested."""
        return self._server.server_port

    def close(self) -> None:
        """End the server and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(
    registry: CollectorRegistry,
    port: int,
    health: Callable[[], bool],
    ready: Callable[[], bool],
    *,
    host: str = LOOPBACK,
    flag: str = "--metrics-address",
    make_context: Callable[[], ssl.SSLContext] | None = None,
) -> Exposition:
    """Expose a registry. /healthz calls `health` and /readyz `ready`; true is 200, false is 503.

    With `make_context` it is served by TLS; the context is asked for at each connection. If it asks clients
    for a certificate, /metrics is forbidden without one. Raises UserError if the address cannot be listened
    on; `flag` is the option that changes it.
    """
    application = _router(make_wsgi_app(registry), {"/healthz": health, "/readyz": ready})
    try:
        family = _Server6 if ":" in host else _Server
        server = make_server(host, port, application, server_class=family, handler_class=_Handler)
    except OSError as error:
        shown = f"[{host}]" if ":" in host else host
        reason = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise UserError(
            f"cannot serve metrics on {shown}:{port}: {reason}; choose another with {flag} {shown}:PORT"
        ) from error
    server.make_context = make_context
    return Exposition(server)


def _router(metrics: WSGIApplication, probes: dict[str, Callable[[], bool]]) -> WSGIApplication:
    def route(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics" and not environ[_IS_ADMITTED]:
            return _respond(start_response, "403 Forbidden", "forbidden: show a client certificate")
        if path == "/metrics":
            return metrics(environ, start_response)
        if path not in probes:
            return _respond(
                start_response, "404 Not Found", "not found: there are /metrics, /healthz and /readyz"
            )
        if probes[path]():
            return _respond(start_response, "200 OK", "yes")
        return _respond(start_response, "503 Service Unavailable", "no")

    return route


def _respond(start_response: StartResponse, status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
