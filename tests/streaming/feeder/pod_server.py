"""A server on loopback that lists and watches pods as Kubernetes' API does, over TLS, for a token."""

from __future__ import annotations

import json
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from streaming.broker.ports import HOST
from streaming.feeder import pod_watch
from streaming.feeder.pod_watch import ApiServer, PodWatch
from tests import waiting
from tests.streaming.secure_broker import make_certificate

TOKEN: Final = "a-token"
PATIENCE: Final = 60.0


def pod(
    name: str,
    *addresses: str,
    started: float | None = None,
    made_by: tuple[str, str] | None = None,
    stamp: str = "",
    namespace: str = "payments",
    node: str = "node-7",
    host_network: bool = False,
    phase: str = "Running",
    uid: str = "",
) -> dict[str, Any]:
    """A pod as the API writes it; `started` is in seconds since the epoch, `made_by` a kind and a name."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid or f"uid-of-{name}"}
    if made_by:
        kind, maker = made_by
        other = {"kind": "Other", "name": "other", "controller": False}
        metadata["ownerReferences"] = [other, {"kind": kind, "name": maker, "controller": True, "uid": "u"}]
    if stamp:
        metadata["labels"] = {"pod-template-hash": stamp}
    status: dict[str, Any] = {"phase": phase, "podIPs": [{"ip": each} for each in addresses]}
    if started is not None:
        status["startTime"] = datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    spec: dict[str, Any] = {"nodeName": node, "containers": [{"name": "app", "env": [{"value": "x" * 100}]}]}
    if host_network:
        spec["hostNetwork"] = True
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


class PodServer:
    """Serves until `close`. `account` is the service account.

    `asked` has the query of each request, `told` the type of each event that a watch was sent.
    """

    def __init__(self, folder: Path) -> None:
        self.asked: list[dict[str, str]] = []
        self.told: list[str] = []
        self.page = 2
        self.status = 200
        self._pods: dict[str, dict[str, Any]] = {}
        self._events: list[tuple[int, dict[str, Any]]] = []
        self._version = 100
        self._oldest = 0
        self._news = threading.Condition()
        self._cuts = 0
        certificate, key = make_certificate(folder)
        self.account = folder / "account"
        self.account.mkdir()
        (self.account / "ca.crt").write_bytes(certificate.read_bytes())
        (self.account / "token").write_text(TOKEN + "\n")
        self._server = _Server((HOST, 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.api = ApiServer(HOST, self._server.server_port, self.account)
        self._thread = threading.Thread(target=self._server.serve_forever, name="pod-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.cut()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def put(self, given: dict[str, Any], *, in_silence: bool = False) -> None:
        """Add a pod or change it; no watch tells of what happens in silence."""
        uid = given["metadata"]["uid"]
        self._note("MODIFIED" if uid in self._pods else "ADDED", given, in_silence)
        self._pods[uid] = given

    def remove(self, given: dict[str, Any], *, in_silence: bool = False) -> None:
        self._pods.pop(given["metadata"]["uid"])
        self._note("DELETED", given, in_silence)

    def bookmark(self) -> None:
        self._note("BOOKMARK", {"kind": "Pod", "metadata": {}}, in_silence=False)

    def cut(self) -> None:
        """Break off all watches."""
        with self._news:
            self._cuts += 1
            self._news.notify_all()

    def compact(self) -> None:
        """Forget all earlier versions, as the API does after a while."""
        with self._news:
            self._oldest = self._version

    def _note(self, kind: str, given: dict[str, Any], in_silence: bool) -> None:
        with self._news:
            self._version += 1
            given["metadata"]["resourceVersion"] = str(self._version)
            if not in_silence:
                self._events.append((self._version, {"type": kind, "object": json.loads(json.dumps(given))}))
            self._news.notify_all()

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        begin, found = int(query.get("continue", 0)), list(self._pods.values())
        end = begin + min(self.page, int(query["limit"]))
        more = {"continue": str(end)} if end < len(found) else {}
        metadata = {"resourceVersion": str(self._version)} | more
        return {"kind": "PodList", "metadata": metadata, "items": found[begin:end]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                # Before the response begins: who has read that may cut at once.
                cuts = served._cuts
                path, _, text = self.path.partition("?")
                query = dict(urllib.parse.parse_qsl(text))
                served.asked.append(query)
                assert path == "/api/v1/pods"
                if self.headers["Authorization"] != f"Bearer {TOKEN}":
                    self._answer(401, {"kind": "Status", "code": 401, "message": "Unauthorized"})
                elif served.status != 200:
                    self._answer(served.status, {"kind": "Status", "message": "not\ntoday"})
                elif query.get("watch"):
                    self._watch(int(query["resourceVersion"]), cuts)
                else:
                    self._answer(200, served._list(query))

            def _watch(self, version: int, cuts: int) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.close_connection = True
                if version < served._oldest:
                    gone = {"kind": "Status", "code": 410, "message": f"too old: {version}"}
                    self._tell({"type": "ERROR", "object": gone})
                    return
                while True:
                    with served._news:
                        news = [each for each in served._events if each[0] > version]
                        if not news and served._cuts == cuts:
                            served._news.wait(5)
                    if served._cuts != cuts:
                        return
                    for _, event in news:
                        self._tell(event)
                    version = max([version, *(number for number, _ in news)])

            def _tell(self, event: dict[str, Any]) -> None:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                served.told.append(event["type"])

            def _answer(self, status: int, document: dict[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named so in the base class)
                """Log nothing."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that leave in the middle."""


def serving(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodServer]:
    """Yield a server, of which a watch does not wait long to ask it again."""
    monkeypatch.setattr(pod_watch, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(pod_watch, "LONGEST_WAIT", 0.2)
    with closing(PodServer(folder)) as server:
        yield server


def until(holds: Callable[[], object]) -> None:
    """Wait for a condition that comes true within milliseconds on an idle machine."""
    waiting.until(holds, PATIENCE, every=0.01)


def watching(server: PodServer) -> PodWatch:
    """Begin to watch."""
    watch = PodWatch(server.api)
    watch.start()
    return watch
