"""The metrics address: /metrics for Prometheus, /healthz and /readyz for whoever supervises."""

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
PATIENCE = 10
"""Seconds that a connection may stay silent."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named so in the base class)
        """Scrapes are not worth a line each."""


class Exposition:
    """A running metrics address; `close` ends it."""

    def __init__(self, server: WSGIServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port listened on; what the system chose where port 0 was asked for."""
        return self._server.server_port

    def close(self) -> None:
        """Stop answering and free the port."""
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
    """Expose a registry; `health` and `ready` are asked on each request and answered as 200 or 503.

    Raises UserError when the address cannot be listened on; `flag` is the option that changes it.
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


def _router(metrics: WSGIApplication, questions: dict[str, Callable[[], bool]]) -> WSGIApplication:
    def route(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return metrics(environ, start_response)
        if path not in questions:
            return _answer(
                start_response, "404 Not Found", "not found: there are /metrics, /healthz and /readyz"
            )
        if questions[path]():
            return _answer(start_response, "200 OK", "yes")
        return _answer(start_response, "503 Service Unavailable", "no")

    return route


def _answer(start_response: StartResponse, status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
