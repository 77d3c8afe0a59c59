"""The chart through helm's lint, Kubernetes' schemas and its own patcher of pods, all built here."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy import go_programs
from tests.deploy.kubernetes_schemas import VERSION, write_schemas
from tests.deploy.test_helm_values import HELM, PATCH, VALUES

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed, which builds helm"),
]

KUBECONFORM: Final = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"
KUSTOMIZE: Final = "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"
OWN_PROGRAMS: Final = ("inject", "pod_security")
GENERATED: Final = HELM.parents[1] / "dashboards/generated"
BROKER: Final = {"name": "kafka", "image": "kafka"}
Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run one of the programs, which must succeed. Returns its output."""
    folder = tmp_path_factory.mktemp("go")
    for program in (go_programs.HELM, KUBECONFORM, KUSTOMIZE):
        go_programs.install(program, folder)
    for name in OWN_PROGRAMS:
        go_programs.build(Path(__file__).parent / name, folder)

    def start(name: str, *arguments: str, given: str = "") -> str:
        command = [str(folder / name), *arguments]
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, timeout=120, cwd=HELM
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return start


def rendered(run: Run, values: Path, *flags: str) -> str:
    # As `go install` builds it, helm takes Kubernetes for 1.20.
    fixed = ["--namespace", "kipwatch", "--kube-version", VERSION]
    return run("helm", "template", "kipwatch", "kipwatch", "--values", str(values), *fixed, *flags)


def objects(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


def of_kind(text: str, kind: str) -> dict[str, Any]:
    (found,) = [each for each in objects(text) if each["kind"] == kind]
    return found


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_it_is_linted_and_valid(run: Run, values: Path, tmp_path: Path) -> None:
    run("helm", "lint", "--strict", "kipwatch", "--values", str(values))
    text = rendered(run, values)
    place = write_schemas(tmp_path)
    summary = json.loads(
        run(
            "kubeconform",
            "-strict",
            "-summary",
            "-output",
            "json",
            "-schema-location",
            place,
            "-",
            given=text,
        )
    )["summary"]
    assert summary == {"valid": len(objects(text)), "invalid": 0, "errors": 0, "skipped": 0}


def test_a_mistake_in_a_template_would_be_noticed(run: Run, tmp_path: Path) -> None:
    text = rendered(run, VALUES[0]).replace("terminationGracePeriodSeconds", "terminationGracePeriod")
    with pytest.raises(AssertionError, match="terminationGracePeriod"):
        run("kubeconform", "-strict", "-schema-location", write_schemas(tmp_path), "-", given=text)


def test_without_an_image_it_says_what_to_do(run: Run) -> None:
    with pytest.raises(AssertionError, match=r"set image\.repository: kipwatch publishes no image"):
        run("helm", "template", "kipwatch", "kipwatch", "--kube-version", VERSION)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("feeder.mod=inject", "mod"),
        ("feeder.mode=sidecar", "inject"),
        ("networkPolicy.kafkaPorts={x}", "kafkaPorts"),
    ],
)
def test_a_misspelled_value_is_named(run: Run, mistake: str, said: str) -> None:
    """Helm itself would ignore a name that no template reads."""
    with pytest.raises(AssertionError, match=f"values don't meet the specifications(.|\n)*{said}"):
        rendered(run, VALUES[0], "--set", mistake)


@pytest.mark.parametrize("name", ["strimzi", "bitnami"])
@pytest.mark.parametrize("own", [[], [{"name": "data", "emptyDir": {}}]], ids=["no-volume", "a-volume"])
def test_the_policy_adds_the_feeder_to_a_broker(run: Run, name: str, own: list[dict[str, Any]]) -> None:
    """The same container and volumes as in the DaemonSet."""
    values = HELM / f"values/{name}.yaml"
    policy = of_kind(rendered(run, values), "MutatingAdmissionPolicy")
    daemons = of_kind(rendered(run, values, "--set", "feeder.mode=daemonset"), "DaemonSet")
    ((mutation),) = policy["spec"]["mutations"]
    pod = {"metadata": {"name": "kafka-0"}, "spec": {"containers": [BROKER], "volumes": own}}
    patched = json.loads(
        run("inject", given=json.dumps({"expression": mutation["jsonPatch"]["expression"], "pod": pod}))
    )["spec"]
    expected = daemons["spec"]["template"]["spec"]
    assert patched["containers"][0]["name"] == "kafka"
    assert patched["containers"][1:] == expected["containers"]
    assert patched["volumes"] == own + expected["volumes"]


def test_the_patch_for_a_stateful_set_adds_the_same(run: Run) -> None:
    expected = of_kind(rendered(run, HELM / "values/hostnetwork.yaml"), "DaemonSet")["spec"]["template"][
        "spec"
    ]
    patched = PATCH["spec"]["template"]["spec"]
    assert patched["containers"] == expected["containers"]
    assert patched["volumes"] == expected["volumes"]


def test_kustomize_puts_the_patch_beside_the_broker(run: Run, tmp_path: Path) -> None:
    """The broker's container and volumes stay, and what the patch does not name."""
    own: dict[str, list[dict[str, Any]]] = {
        "containers": [BROKER],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    broker = PATCH | {"spec": {"replicas": 3, "template": {"spec": own}}}
    (tmp_path / "broker.yaml").write_text(yaml.safe_dump(broker))
    shutil.copy(HELM / "patches/statefulset.yaml", tmp_path / "feeder.yaml")
    steps = {"resources": ["broker.yaml"], "patches": [{"path": "feeder.yaml"}]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(steps))
    patched = yaml.safe_load(run("kustomize", "build", str(tmp_path)))["spec"]
    added = PATCH["spec"]["template"]["spec"]
    assert patched["replicas"] == 3
    for kind in ("containers", "volumes"):
        assert by_name(patched["template"]["spec"][kind]) == by_name([*own[kind], *added[kind]])


def by_name(parts: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {part["name"]: part for part in parts}


def test_dashboards_and_alerts_are_the_generated_ones(run: Run) -> None:
    text = rendered(run, HELM / "values/strimzi.yaml")
    maps = [each["data"] for each in objects(text) if each["kind"] == "ConfigMap"]
    files = {name: value for each in maps for name, value in each.items()}
    dashboards = {name: json.loads(text) for name, text in files.items() if name.endswith(".json")}
    assert dashboards == {
        f"kipwatch-{path.name}": json.loads(path.read_text()) for path in GENERATED.glob("*.json")
    }
    alerts = (GENERATED / "alerts.yml").read_text()
    for ours, theirs in (("127.0.0.1:3000", "grafana"), ("127.0.0.1:9108", "kipwatch")):
        alerts = alerts.replace(f"http://{ours}", f"https://{theirs}.example.com")
    assert of_kind(text, "PrometheusRule")["spec"] == yaml.safe_load(alerts)


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_pods_have_no_right_that_they_do_not_need(run: Run, values: Path) -> None:
    """Only the feeder is root, and has one capability; nobody has a token of Kubernetes' API."""
    pods = [
        each["spec"]["template"]["spec"] for each in objects(rendered(run, values)) if "Set" in each["kind"]
    ]
    assert pods
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["terminationGracePeriodSeconds"] == 60
        (container,) = pod["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
        assert security["capabilities"]["drop"] == ["ALL"]
        assert added(security) == (["NET_RAW"] if container["name"] == "kipwatch-feeder" else [])
        assert pod.get("securityContext", {}).get("runAsNonRoot", False) == (added(security) == [])


def test_feeders_may_read_pods_where_they_name_clients_by_them(run: Run) -> None:
    values = HELM / "values/hostnetwork.yaml"
    assert not {each["kind"] for each in objects(rendered(run, values))} & {
        "ClusterRole",
        "ClusterRoleBinding",
    }
    text = rendered(run, values, "--set", "feeder.kubernetes=true")
    (rule,) = of_kind(text, "ClusterRole")["rules"]
    assert rule == {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    binding, pod = of_kind(text, "ClusterRoleBinding"), templates(text)["DaemonSet"]["spec"]
    (account,) = binding["subjects"]
    assert binding["roleRef"]["name"] == of_kind(text, "ClusterRole")["metadata"]["name"]
    assert account == {"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": "kipwatch"}
    assert pod["automountServiceAccountToken"] is True
    assert "--kubernetes=true" in pod["containers"][0]["args"]
    query = templates(text)["StatefulSet"]["spec"]
    assert query["serviceAccountName"] != pod["serviceAccountName"]
    assert query["automountServiceAccountToken"] is False
    with pytest.raises(AssertionError, match=r"needs feeder\.mode daemonset"):
        rendered(run, values, "--set", "feeder.kubernetes=true", "--set", "feeder.mode=none")


def templates(text: str) -> dict[str, dict[str, Any]]:
    """Return the pods of the chart by the kind of their controller."""
    return {each["kind"]: each["spec"]["template"] for each in objects(text) if "Set" in each["kind"]}


def reasons_against(run: Run, level: str, pod: dict[str, Any]) -> set[str]:
    """Return the objections of Kubernetes' own code to a pod at a level of the Pod Security Standards."""
    ((*reasons,),) = json.loads(run("pod_security", level, given=json.dumps([pod])))
    return set(reasons)


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_the_query_is_admitted_at_the_strictest_level(run: Run, values: Path) -> None:
    assert reasons_against(run, "restricted", templates(rendered(run, values))["StatefulSet"]) == set()


def test_the_feeder_exceeds_the_baseline_by_its_capability_and_the_hosts_network_alone(run: Run) -> None:
    """So its namespace must be privileged."""
    pod = templates(rendered(run, HELM / "values/hostnetwork.yaml"))["DaemonSet"]
    assert reasons_against(run, "baseline", pod) == {"non-default capabilities", "host namespaces"}
    assert reasons_against(run, "privileged", pod) == set()


def test_an_injected_feeder_exceeds_the_baseline_by_its_capability_alone(run: Run) -> None:
    assert reasons_against(run, "baseline", PATCH["spec"]["template"]) == {"non-default capabilities"}


def added(security: dict[str, Any]) -> list[str]:
    names: list[str] = security["capabilities"].get("add", [])
    return names
