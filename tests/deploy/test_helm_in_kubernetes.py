"""The chart installed by Helm into a real API server, which admits, mutates and refuses what it makes.

No node is there, so nothing runs: the pods that its controllers would make are created by the tests.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy import go_programs
from tests.deploy.api_server import ApiServer, RefusedError, environment
from tests.deploy.kubernetes_schemas import operator_definitions
from tests.deploy.test_helm_values import HELM, VALUES
from tests.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed, which builds Kubernetes"),
]

LEVEL: Final = "pod-security.kubernetes.io/enforce"
BROKERS: Final = "kafka"
POLICIES: Final = 60.0


class Cluster:
    """An API server with the Prometheus operator's kinds and the brokers' namespace, and Helm."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.server = ApiServer(stack, folder)
        self._helm = go_programs.install(go_programs.HELM, folder)
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for definition in operator_definitions():
            self.server.create(definitions, definition)
        self.add_namespace(BROKERS, "privileged")

    def add_namespace(self, name: str, level: str) -> None:
        """With the level of Pod Security that it enforces, and the account that Kubernetes would give it."""
        self.server.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": {LEVEL: level}}})
        self.server.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})

    def helm(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._helm, *arguments],
            env=environment(self.server),
            cwd=HELM,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self, values: Path) -> str:
        """Install the chart into a restricted namespace of its own. Returns the name."""
        namespace = f"kipwatch-{values.stem}"
        self.add_namespace(namespace, "restricted")
        self.helm("install", "kipwatch", "kipwatch", "--namespace", namespace, "--values", str(values))
        return namespace

    def pod_of(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Return the pod that a controller would create."""
        maker = self.server.read(f"/apis/apps/v1/namespaces/{namespace}/{kind}/{name}")
        pod: dict[str, Any] = maker["spec"]["template"]
        pod["metadata"] = pod["metadata"] | {"name": name}
        for claim in maker["spec"].get("volumeClaimTemplates", []):
            own = {"claimName": claim["metadata"]["name"]}
            pod["spec"]["volumes"].append({"name": own["claimName"], "persistentVolumeClaim": own})
        return pod

    def create_pod(self, namespace: str, pod: dict[str, Any], *, tried: bool = False) -> dict[str, Any]:
        """Create a pod, or only have it admitted. Returns it as admitted."""
        flag = "?dryRun=All" if tried else ""
        created: dict[str, Any] = self.server.create(f"/api/v1/namespaces/{namespace}/pods{flag}", pod)
        return created


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack, tmp_path_factory.mktemp("kubernetes"))


@pytest.fixture(scope="module", params=VALUES, ids=lambda path: path.stem)
def installed(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """A file of values, and the namespace where it is installed."""
    namespace = cluster.install(request.param)
    yield request.param, namespace
    cluster.helm("uninstall", "kipwatch", "--namespace", namespace)


def test_it_is_installed_upgraded_and_its_query_admitted(
    cluster: Cluster, installed: tuple[Path, str]
) -> None:
    """The namespace enforces the strictest level."""
    values, namespace = installed
    pod = cluster.create_pod(namespace, cluster.pod_of("statefulsets", namespace, "kipwatch"), tried=True)
    assert [each["name"] for each in pod["spec"]["containers"]] == ["application"]
    upgrade = ("upgrade", "kipwatch", "kipwatch", "--namespace", namespace, "--values", str(values))
    cluster.helm(*upgrade, "--set", "application.scratch=20Gi")
    (release,) = json.loads(cluster.helm("list", "--namespace", namespace, "--output", "json"))
    assert (release["revision"], release["status"]) == ("2", "deployed")


def test_a_broker_gets_its_feeder_when_it_is_made(cluster: Cluster, installed: tuple[Path, str]) -> None:
    """By the API server itself; where nothing is injected, and for other pods, nothing changes."""
    values, _ = installed
    labels = yaml.safe_load(values.read_text()).get("feeder", {}).get("inject", {}).get("podLabels")
    if labels is None:
        assert names(cluster.create_pod(BROKERS, broker({"app": "kafka"}), tried=True)) == ["kafka"]
        return
    expected = ["kafka", "kipwatch-feeder"]
    # The server learns of a new policy a moment later.
    until(lambda: names(cluster.create_pod(BROKERS, broker(labels), tried=True)) == expected, POLICIES)
    pod = cluster.create_pod(BROKERS, broker(labels), tried=True)
    (feeder,) = [each for each in pod["spec"]["containers"] if each["name"] == "kipwatch-feeder"]
    assert feeder["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_RAW"]}
    mounted = {each["name"] for each in feeder["volumeMounts"]}
    assert mounted <= {each["name"] for each in pod["spec"]["volumes"]}
    assert names(cluster.create_pod(BROKERS, broker({"app": "other"}), tried=True)) == ["kafka"]


def test_a_feeder_of_the_node_needs_a_privileged_namespace(cluster: Cluster) -> None:
    namespace = "nodes"
    cluster.add_namespace(namespace, "baseline")
    values = str(HELM / "values/hostnetwork.yaml")
    cluster.helm("install", "kipwatch", "kipwatch", "--namespace", namespace, "--values", values)
    pod = cluster.pod_of("daemonsets", namespace, "kipwatch-feeder")
    with pytest.raises(RefusedError, match="violates PodSecurity"):
        cluster.create_pod(namespace, pod, tried=True)
    pod["spec"]["serviceAccountName"] = "default"
    assert names(cluster.create_pod(BROKERS, pod, tried=True)) == ["kipwatch-feeder"]


def broker(labels: dict[str, str]) -> dict[str, Any]:
    """A broker's pod as an operator makes it."""
    containers = [{"name": "kafka", "image": "kafka"}]
    return {"metadata": {"name": "kafka-0", "labels": labels}, "spec": {"containers": containers}}


def names(pod: dict[str, Any]) -> list[str]:
    return [each["name"] for each in pod["spec"]["containers"]]
