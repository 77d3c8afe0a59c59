"""The HTTP server of /metrics for Prometheus, and of /healthz and /readyz for service managers."""

from __future__ import annotations

import errno
import socketserver
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


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = IDLE_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named so in the base class)
        """Log nothing: a line for each scrape is of no use."""


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
) -> Exposition:
    """Expose a registry. /healthz calls `health` and /readyz `ready`; true is 200, false is 503.

    Raises UserError if the address cannot be listened on; `flag` is the option that changes it.
    """
    application = _router(make_wsgi_app(registry), {"/healthz": health, "/readyz": ready})
    try:
        server = make_server(host, port, application, server_class=_Server, handler_class=_Handler)
    except OSError as error:
        reason = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise UserError(
            f"cannot serve metrics on {host}:{port}: {reason}; choose another with {flag} {host}:PORT"
        ) from error
    return Exposition(server)


def _router(metrics: WSGIApplication, probes: dict[str, Callable[[], bool]]) -> WSGIApplication:
    def route(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
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
