"""A real API server of Kubernetes with its etcd, built here. It keeps objects, and nothing runs them."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from streaming.broker import child_guard
from streaming.broker.ports import HOST, free_ports
from tests.waiting import until

MODULE: Final = Path(__file__).parent / "kubernetes"
PROGRAMS: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
VERSION: Final = "v1.36.1"
_NUMBERED: Final = f"-X k8s.io/component-base/version.gitVersion={VERSION}"
"""Set as in Kubernetes' own builds, since a chart asks for it."""
_TOKEN: Final = "kipwatch-tests"
_BUILT, _READY = 1800, 120.0


class RefusedError(Exception):
    """The API server refuses a request. The message is its own."""


class ApiServer:
    """Runs until the stack ends. `kubeconfig` is how Helm finds it, with every right.

    `authority` is who signs the certificate of `host` and `port`.
    """

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        for name, package in PROGRAMS.items():
            command = ["go", "build", "-ldflags", _NUMBERED, "-o", str(folder / name), package]
            subprocess.run(command, cwd=MODULE, check=True, timeout=_BUILT)
        clients, peers, self.port = free_ports(3)
        self.host = HOST
        self._at = f"https://{HOST}:{self.port}"
        self.authority = folder / "certificates/apiserver.crt"
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        stack.callback(child_guard.stop, _start(folder, "etcd", _etcd(folder, clients, peers)))
        self._folder, self._flags = folder, _server(folder, clients, self.port)
        self.start()
        stack.callback(self.stop)
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(_kubeconfig(self._at)))

    def start(self) -> None:
        """Start it, again after `stop`. What it keeps is in etcd."""
        self._guard = _start(self._folder, "kube-apiserver", self._flags)
        until(self._is_ready, _READY)

    def stop(self) -> None:
        child_guard.stop(self._guard)

    def create(self, path: str, item: dict[str, Any]) -> Any:
        """Post an object to a collection such as `/api/v1/namespaces`. Returns it as stored.

        Raises RefusedError.
        """
        return self._ask(path, item)

    def read(self, path: str, token: str = _TOKEN) -> Any:
        """Raises RefusedError, also if the token's account may not read it."""
        return self._ask(path, token=token)

    def replace(self, path: str, item: dict[str, Any]) -> None:
        """Raises RefusedError."""
        self._ask(path, item, method="PUT")

    def delete(self, path: str) -> None:
        """Raises RefusedError."""
        self._ask(path, method="DELETE")

    def _is_ready(self) -> bool:
        try:
            self._ask("/readyz?format=json")
        except (OSError, RefusedError):
            return False
        return True

    def _ask(
        self, path: str, body: dict[str, Any] | None = None, token: str = _TOKEN, method: str | None = None
    ) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(self._at + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._tls) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            raise RefusedError(error.read().decode()) from None
        return json.loads(text) if text.startswith(b"{") else text.decode()


def _etcd(folder: Path, clients: int, peers: int) -> list[str]:
    return [
        f"--data-dir={folder / 'etcd-data'}",
        f"--listen-client-urls=http://{HOST}:{clients}",
        f"--advertise-client-urls=http://{HOST}:{clients}",
        f"--listen-peer-urls=http://{HOST}:{peers}",
        "--unsafe-no-fsync",
    ]


def _server(folder: Path, etcd: int, secure: int) -> list[str]:
    tokens, key = folder / "tokens.csv", folder / "accounts.key"
    tokens.write_text(f"{_TOKEN},administrator,1,system:masters\n")
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    return [
        f"--etcd-servers=http://{HOST}:{etcd}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={secure}",
        f"--cert-dir={folder / 'certificates'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        # Its own address is not advertised to pods, of which there are none.
        "--endpoint-reconciler-type=none",
    ]


def _start(folder: Path, program: str, flags: list[str]) -> subprocess.Popen[bytes]:
    with (folder / f"{program}.log").open("ab") as output:
        return child_guard.start([folder / program, *flags], output)


def _kubeconfig(address: str) -> dict[str, Any]:
    name = "test"
    cluster = {"server": address, "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": _TOKEN}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def environment(server: ApiServer) -> dict[str, str]:
    """Return the environment of a program that talks to the server."""
    return os.environ | {"KUBECONFIG": str(server.kubeconfig)}
