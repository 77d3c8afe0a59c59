"""A feeder's watch at a real API server, with the chart's rights: pods come, go and reuse addresses.

Nothing runs the pods: the tests write their status as a kubelet would.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from streaming.feeder import placements
from streaming.feeder.pod_watch import ApiServer as WatchedServer
from streaming.feeder.pod_watch import PodWatch
from tests.deploy.api_server import ApiServer, RefusedError
from tests.streaming.feeder.pod_server import pod
from tests.streaming.feeder.test_placements import Feeding, begun, connection
from tests.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed, which builds Kubernetes"),
]

AWAY: Final = float(os.environ.get("KIPWATCH_AWAY_SECONDS", "30"))
"""Seconds for which the API server is stopped."""
PATIENCE: Final = 120.0
ROLE: Final = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
SHOP, OTHER = "10.0.3.1", "10.0.3.2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ExitStack() as stack:
        yield ApiServer(stack, tmp_path_factory.mktemp("kubernetes"))


@pytest.fixture(scope="module")
def account(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service account that may do what the chart lets feeders do."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for name in ("shop", "kipwatch"):
        server.create("/api/v1/namespaces", {"metadata": {"name": name}})
    for namespace, name in (("shop", "default"), ("kipwatch", "feeder")):
        server.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    server.create(f"{rbac}/clusterroles", {"metadata": {"name": "feeder"}, "rules": [ROLE]})
    subject = {"kind": "ServiceAccount", "name": "feeder", "namespace": "kipwatch"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "feeder"}
    binding = {"metadata": {"name": "feeder"}, "roleRef": role, "subjects": [subject]}
    server.create(f"{rbac}/clusterrolebindings", binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    given = server.create("/api/v1/namespaces/kipwatch/serviceaccounts/feeder/token", asked)
    folder = tmp_path_factory.mktemp("account")
    (folder / "token").write_text(given["status"]["token"])
    (folder / "ca.crt").write_bytes(server.authority.read_bytes())
    return folder


@pytest.fixture
def watch(server: ApiServer, account: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodWatch]:
    monkeypatch.setattr(placements, "LOOK_INTERVAL", 0.0)
    with closing(PodWatch(WatchedServer(server.host, server.port, account))) as found:
        found.start()
        until(lambda: found.current_since, PATIENCE)
        yield found


def run_pod(server: ApiServer, name: str, address: str, maker: tuple[str, str], **more: Any) -> None:
    """Create a pod as a controller does, and tell its address as a kubelet does."""
    given = pod(name, namespace="shop", made_by=maker, **more)
    owner = given["metadata"]["ownerReferences"][1] | {"apiVersion": "apps/v1"}
    metadata = {"name": name, "labels": given["metadata"].get("labels", {}), "ownerReferences": [owner]}
    spec = given["spec"] | {"containers": [{"name": "app", "image": "app"}]}
    path = "/api/v1/namespaces/shop/pods"
    created = server.create(path, {"metadata": metadata, "spec": spec})
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    created["status"] |= {"phase": "Running", "startTime": started}
    created["status"] |= {"podIP": address, "podIPs": [{"ip": address}]}
    server.replace(f"{path}/{name}/status", created)


def remove_pod(server: ApiServer, name: str) -> None:
    server.delete(f"/api/v1/namespaces/shop/pods/{name}?gracePeriodSeconds=0")


def at_now(watch: PodWatch, address: str) -> set[str]:
    return watch.addresses.placements(address, time.time_ns())


def test_the_account_may_read_pods_and_nothing_else(server: ApiServer, account: Path) -> None:
    token = (account / "token").read_text()
    assert server.read("/api/v1/pods", token)["kind"] == "PodList"
    for path in ("/api/v1/secrets", "/api/v1/nodes", "/api/v1/namespaces", "/apis/apps/v1/deployments"):
        with pytest.raises(RefusedError, match="forbidden"):
            server.read(path, token)


def test_an_address_is_the_pods_that_had_it_then(server: ApiServer, watch: PodWatch) -> None:
    feeding = Feeding(watch)
    run_pod(server, "checkout-7d9f-a", SHOP, ("ReplicaSet", "checkout-7d9f"), stamp="7d9f")
    run_pod(server, "agent-a", OTHER, ("DaemonSet", "agent"), host_network=True)
    until(lambda: at_now(watch, SHOP) and at_now(watch, OTHER), PATIENCE)
    early = begun(connection(40_000, SHOP))
    remove_pod(server, "checkout-7d9f-a")
    until(lambda: not at_now(watch, SHOP), PATIENCE)
    time.sleep(1.1)
    run_pod(server, "search-0", SHOP, ("StatefulSet", "search"))
    until(lambda: at_now(watch, SHOP), PATIENCE)
    late = [*begun(connection(40_001, SHOP)), *begun(connection(40_002, OTHER))]
    found = feeding.feed(*early, *late)
    assert found == ["shop/checkout@node-7", "shop/search@node-7", "@node-7"]
    for name in ("search-0", "agent-a"):
        remove_pod(server, name)
    until(lambda: not at_now(watch, SHOP) and not at_now(watch, OTHER), PATIENCE)


def test_while_the_api_is_away_nothing_else_suffers_and_then_names_are_put_right(
    server: ApiServer, watch: PodWatch
) -> None:
    feeding = Feeding(watch)
    run_pod(server, "checkout-7d9f-b", SHOP, ("ReplicaSet", "checkout-7d9f"), stamp="7d9f")
    until(lambda: at_now(watch, SHOP), PATIENCE)
    server.stop()
    until(lambda: watch.current_since is None, PATIENCE)
    away_until = time.monotonic() + AWAY
    assert feeding.feed(*begun(connection(40_000, SHOP))) == ["shop/checkout@node-7"]
    number = 0
    while time.monotonic() < away_until:
        number += 1
        assert feeding.feed(*begun(connection(41_000 + number, OTHER))) == []
        time.sleep(1)
    assert watch.age > AWAY / 2 and feeding.count("stale") == 1 and feeding.count("unknown") == 0
    server.start()
    until(lambda: watch.current_since, PATIENCE)
    assert feeding.feed() == feeding.settle() == []
    assert feeding.count("pod") == 1 and feeding.count("unknown") == number
    run_pod(server, "index-0", OTHER, ("StatefulSet", "index"))
    until(lambda: at_now(watch, OTHER), PATIENCE)
    assert feeding.feed(*begun(connection(42_000, OTHER))) == ["shop/index@node-7"]
