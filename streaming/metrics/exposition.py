"""The HTTP server: /metrics for Prometheus, / for people, /healthz and /readyz for service managers."""

from __future__ import annotations

import errno
import socket
import socketserver
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Metric, make_wsgi_app
from prometheus_client.parser import text_string_to_metric_families

from streaming.user_error import UserError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LOOPBACK = "127.0.0.1"
IDLE_SECONDS = 10
"""Seconds that a connection may be idle."""
REQUEST_SECONDS = 30
"""Seconds that a connection may last, from its opening to the end of the answer."""
MOST_CONNECTIONS = 64
"""Maximum number of connections. A further one ends the oldest, so idle clients keep nobody out."""
STILL: Final = "still"
"""The query of a page that does not refresh itself."""
_GUARDS: Final = [
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
]
"""Headers of the page for people: it loads and runs nothing, whatever a name in it may contain."""
_IS_ADMITTED = "kipwatch.is_admitted"


class _PageServer(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    # With the default, five, a scrape amid a burst of connections waits a second to repeat its SYN.
    request_queue_size = MOST_CONNECTIONS
    make_context: Callable[[], ssl.SSLContext] | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._opened: dict[socket.socket, tuple[float, socket.socket]] = {}
        """When connections were opened, the oldest first, and their sockets, which TLS replaces."""

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread. Ends the oldest connections if there are too many."""
        self._opened[request] = time.monotonic(), request
        for oldest in [*self._opened][:-MOST_CONNECTIONS]:
            self._end(oldest)
        super().process_request(request, client_address)

    def by_tls(self, request: socket.socket, make_context: Callable[[], ssl.SSLContext]) -> ssl.SSLSocket:
        """Agree on TLS. Raises OSError."""
        request.settimeout(IDLE_SECONDS)
        agreed = make_context().wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        if request in self._opened:
            self._opened[request] = self._opened[request][0], agreed
        agreed.do_handshake()
        return agreed

    def service_actions(self) -> None:
        """End the connections that last too long. Called twice a second, and at each connection."""
        now = time.monotonic()
        for request, (opened_at, _) in [*self._opened.items()]:
            if now - opened_at > REQUEST_SECONDS:
                self._end(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, at the end of its thread."""
        self._opened.pop(request, None)
        super().shutdown_request(request)

    def _end(self, request: socket.socket) -> None:
        """Let the reads and writes of a connection's thread fail; the thread closes it."""
        _, current = self._opened.pop(request, (0.0, request))
        with suppress(OSError):
            # The method of an SSLSocket would take its state from the thread.
            socket.socket.shutdown(current, socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print no traceback because of a client that breaks off or fails to agree on TLS."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Server6(_PageServer):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = IDLE_SECONDS
    server: _PageServer

    def setup(self) -> None:
        """Agree on TLS in the thread of the connection, so that a slow client delays no other one."""
        if self.server.make_context is not None:
            self.request = self.server.by_tls(self.request, self.server.make_context)
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
        """Log nothing: a line for each scrape would be noise."""


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


class MetricsPage:
    """The samples of a metrics page: (name, labels) → value."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._samples = [
            (sample.name, sample.labels, sample.value) for family in families for sample in family.samples
        ]

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Read the text of a page."""
        return cls(text_string_to_metric_families(text))

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels."""
        return sum(
            value for sample, own, value in self._samples if sample == name and labels.items() <= own.items()
        )

    def by(self, name: str, *labels: str) -> Mapping[tuple[str, ...], float]:
        """Return the sums of a metric's samples by some of its labels."""
        sums: dict[tuple[str, ...], float] = {}
        for sample, own, value in self._samples:
            if sample == name:
                key = tuple(own[label] for label in labels)
                sums[key] = sums.get(key, 0.0) + value
        return sums


def serve(
    registry: CollectorRegistry,
    port: int,
    health: Callable[[], bool],
    ready: Callable[[], bool],
    *,
    page: Callable[[bool], str] | None = None,
    host: str = LOOPBACK,
    flag: str = "--metrics-address",
    make_context: Callable[[], ssl.SSLContext] | None = None,
) -> Exposition:
    """Expose a registry. /healthz calls `health` and /readyz `ready`; true is 200, false is 503.

    `page` makes the page at /, which refreshes itself unless it is asked for as `/?still`. With
    `make_context` all is served by TLS; the context is asked for at each connection. If it asks clients for a
    certificate, both pages are forbidden without one. Raises UserError if the address cannot be listened on;
    `flag` is the option that changes it.
    """
    pages = {"/metrics": make_wsgi_app(registry)} | ({"/": _for_people(page)} if page else {})
    application = _router(pages, {"/healthz": health, "/readyz": ready})
    try:
        family = _Server6 if ":" in host else _PageServer
        server = make_server(host, port, application, server_class=family, handler_class=_Handler)
    except OSError as error:
        shown = f"[{host}]" if ":" in host else host
        reason = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise UserError(
            f"cannot serve metrics on {shown}:{port}: {reason}; choose another with {flag} {shown}:PORT"
        ) from error
    server.make_context = make_context
    return Exposition(server)


def _router(
    pages: Mapping[str, WSGIApplication], probes: Mapping[str, Callable[[], bool]]
) -> WSGIApplication:
    *first, last = (*pages, *probes)
    known = f"{', '.join(first)} and {last}"

    def route(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"] or "/"
        if path in pages and not environ[_IS_ADMITTED]:
            return _respond(start_response, "403 Forbidden", "forbidden: show a client certificate")
        if path in pages:
            return pages[path](environ, start_response)
        if path not in probes:
            return _respond(start_response, "404 Not Found", f"not found: there are {known}")
        if probes[path]():
            return _respond(start_response, "200 OK", "yes")
        return _respond(start_response, "503 Service Unavailable", "no")

    return route


def _for_people(page: Callable[[bool], str]) -> WSGIApplication:
    def show(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8"), *_GUARDS])
        return [page(environ["QUERY_STRING"] != STILL).encode("utf-8", "replace")]

    return show


def _respond(start_response: StartResponse, status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
