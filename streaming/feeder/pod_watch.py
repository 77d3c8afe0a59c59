"""Watches the pods of the cluster through Kubernetes' API, in a thread of its own: list, then watch.

A watch that ends is resumed where it ended. All pods are listed again if the API has forgotten that place
(410 Gone), and after a failure, since a resumed watch does not tell when it has caught up. While the API is
away names are stale, and the thread tries again after a second, then after twice as long each time, up to
half a minute. It uses the token of the pod's service account, which must be allowed to get, list and watch
pods, and nothing else.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from streaming.feeder.pods import KEPT_FOR, Pod, PodAddresses
from streaming.log import FEEDER_LOG
from streaming.user_error import UserError

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts the service account of a pod: its token, and who signs the API's certificate."""
PODS: Final = "/api/v1/pods"
PAGE: Final = 500
"""Pods of one page of a list."""
WATCHED_FOR: Final = 300
"""Seconds after which the API ends a watch."""
SILENCE: Final = 100.0
"""Seconds without a word after which a watch is dead. The API sends a bookmark each minute."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds between two attempts. Each waits twice as long as the one before."""
LONGEST_PAGE: Final = 256 * 1024 * 1024
"""Bytes of a page or an event. etcd keeps objects of at most 1.5 MB."""
LONGEST_EVENT: Final = 8 * 1024 * 1024
_GONE: Final = 410
_OK: Final = 200


class ApiServer(NamedTuple):
    """Where the API answers, and the folder of the service account."""

    host: str
    port: int
    account: Path

    @classmethod
    def of_this_pod(cls, environment: Mapping[str, str] = os.environ) -> ApiServer:
        """Return the API server of the cluster that this process runs in. Raises UserError outside of one."""
        host, port = (environment.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
        if not host or not port.isdecimal():
            raise UserError(
                "kubernetes = true needs a pod, whose environment says where Kubernetes' API is: "
                "KUBERNETES_SERVICE_HOST is not set here"
            )
        return cls(host, int(port), ACCOUNT)

    def connect(self) -> HTTPSConnection:
        """Raises OSError if the account's certificates cannot be read."""
        context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
        return HTTPSConnection(self.host, self.port, timeout=SILENCE, context=context)

    def headers(self) -> dict[str, str]:
        """The token is replaced while the pod lives, so it is read each time."""
        token = (self.account / "token").read_text().strip()
        return {"Authorization": f"Bearer {token}", "Accept": "application/json"}


class GoneError(Exception):
    """The API has forgotten the place at which a watch or a list was to continue."""


class AwayError(Exception):
    """The API refuses a request. The message says why, in a line."""


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _PodList(msgspec.Struct):
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: list[Pod] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Refusal(msgspec.Struct):
    code: int = 0
    message: str = ""


_FAILURES: Final = (OSError, HTTPException, AwayError, ValueError, RecursionError)
_LIST: Final = msgspec.json.Decoder(_PodList)
_EVENT: Final = msgspec.json.Decoder(_Event)
_POD: Final = msgspec.json.Decoder(Pod)
_REFUSAL: Final = msgspec.json.Decoder(_Refusal)


class PodWatch:
    """Follows the pods from `start` until `close`.

    `addresses` has their history. `changes` grows with each answer and event. `current_since` is the time, in
    nanoseconds since the epoch, since which no change was missed, None while the API is away. `errors` counts
    attempts that failed.
    """

    def __init__(self, server: ApiServer, addresses: PodAddresses | None = None) -> None:
        self.addresses = addresses or PodAddresses()
        self.changes = self.errors = 0
        self.current_since: int | None = None
        self._server = server
        self._heard_at = time.time_ns()
        self._version = ""
        self._stopping = threading.Event()
        self._connection: HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._run, name="pod-watch", daemon=True)

    @property
    def age(self) -> float:
        """Seconds since the latest answer or event of the API."""
        return max(0.0, (time.time_ns() - self._heard_at) / 1e9)

    def list_once(self) -> None:
        """List all pods once, instead of `start`. Raises UserError if that is not possible."""
        try:
            with closing(self._server.connect()) as connection:
                self._list(connection)
        except (GoneError, *_FAILURES) as error:
            raise UserError(f"pods cannot be listed: {_reason(error)}") from error

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop watching, even within an answer."""
        self._stopping.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        if self._thread.is_alive():
            self._thread.join(FIRST_WAIT)

    def _run(self) -> None:
        wait = FIRST_WAIT
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                self._follow()
                wait = FIRST_WAIT
            except GoneError:
                self._version, self.current_since = "", None
                wait = FIRST_WAIT
            except _FAILURES as error:
                if self._stopping.is_set():
                    return
                wait = FIRST_WAIT if self.current_since is not None else min(2 * wait, LONGEST_WAIT)
                self._fail(error)
            # Do not ask a server without pause that ends each watch at once.
            self._stopping.wait(max(0.0, begun + wait - time.monotonic()))

    def _follow(self) -> None:
        """List pods, unless they are known, and watch until the API ends the watch."""
        with closing(self._server.connect()) as self._connection:
            if not self._version:
                self._list(self._connection)
            query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": WATCHED_FOR}
            response = self._ask(self._connection, query | {"resourceVersion": self._version})
            self._be_current()
            while line := response.readline(LONGEST_EVENT):
                if self._stopping.is_set():
                    return
                self._heed(line)
                self._hear()

    def _list(self, connection: HTTPSConnection) -> None:
        uids: set[str] = set()
        gone_since = self._heard_at
        query: dict[str, Any] = {"limit": PAGE}
        while True:
            response = self._ask(connection, query)
            page = _LIST.decode(response.read(LONGEST_PAGE))
            response.close()
            for pod in page.items or ():
                uids.add(pod.metadata.uid)
                self.addresses.put(pod, time.time_ns())
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
        self.addresses.keep_only(uids, gone_since)
        self.addresses.forget_ended(time.time_ns() - KEPT_FOR)
        self._version = page.metadata.resource_version
        self._hear()

    def _heed(self, line: bytes) -> None:
        event = _EVENT.decode(line)
        if event.type == "ERROR":
            self._refuse(_REFUSAL.decode(event.object))
        pod = _POD.decode(event.object)
        if event.type in ("ADDED", "MODIFIED"):
            self.addresses.put(pod, time.time_ns())
        elif event.type == "DELETED":
            self.addresses.remove(pod.metadata.uid, time.time_ns())
        self._version = pod.metadata.resource_version or self._version

    def _ask(self, connection: HTTPSConnection, query: Mapping[str, Any]) -> HTTPResponse:
        connection.request("GET", f"{PODS}?{urlencode(query)}", headers=self._server.headers())
        response = connection.getresponse()
        if response.status != _OK:
            text = response.read(LONGEST_EVENT)
            try:
                refusal = _REFUSAL.decode(text)
            except ValueError:
                refusal = _Refusal(message=response.reason)
            refusal.code = response.status
            self._refuse(refusal)
        return response

    def _refuse(self, refusal: _Refusal) -> None:
        if refusal.code == _GONE:
            raise GoneError
        raise AwayError(f"{refusal.code} {refusal.message[:200]}")

    def _hear(self) -> None:
        self._heard_at = time.time_ns()
        self.changes += 1

    def _be_current(self) -> None:
        self._hear()
        if self.current_since is None:
            self.current_since = self._heard_at
            FEEDER_LOG.info("kubernetes-watched", addresses=len(self.addresses))

    def _fail(self, error: Exception) -> None:
        self.errors, self._version = self.errors + 1, ""
        if self.current_since is not None or self.errors == 1:
            self.current_since = None
            FEEDER_LOG.warning("kubernetes-away", reason=_reason(error), message="names of clients go stale")
        self.changes += 1


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
