"""JSON schemas of Kubernetes' own objects and of the Prometheus operator's, as packages ship them."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import yaml

VERSION: Final = "1.37.0"
OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
KINDS: Final = (
    "configmap-v1",
    "daemonset-apps-v1",
    "mutatingadmissionpolicy-admissionregistration-v1",
    "mutatingadmissionpolicybinding-admissionregistration-v1",
    "networkpolicy-networking-v1",
    "service-v1",
    "serviceaccount-v1",
    "statefulset-apps-v1",
)
OPERATED: Final = ("podmonitors", "prometheusrules", "servicemonitors")


class _Loader(yaml.SafeLoader):
    """Reads `=` as a text, which is what the operator's schemas mean by it."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda _, node: node.value)


def write_schemas(folder: Path) -> str:
    """Write a file for each kind. Returns their place in the form of kubeconform."""
    spec = find_spec("kubernetes_validate")
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).parent / f"kubernetes-json-schema/v{VERSION}-local-strict"
    definitions = _read(source / "_definitions.json")["$defs"]
    for kind in KINDS:
        (folder / f"{kind}.json").write_text(
            json.dumps({**_read(source / f"{kind}.json"), "$defs": definitions})
        )
    for definition in operator_definitions():
        crd = definition["spec"]
        for version in crd["versions"]:
            name = f"{crd['names']['kind'].lower()}-{crd['group'].split('.')[0]}-{version['name']}"
            (folder / f"{name}.json").write_text(json.dumps(version["schema"]["openAPIV3Schema"]))
    return f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"


def _read(path: Path) -> dict[str, object]:
    """References lead to another file there, whose definitions every file gets here."""
    read: dict[str, object] = json.loads(path.read_text().replace("/api/_definitions.json#", "#"))
    return read


def operator_definitions() -> list[dict[str, Any]]:
    """The definitions of the Prometheus operator's kinds."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", OPERATOR], capture_output=True, text=True, check=True, timeout=300
    )
    folder = Path(json.loads(done.stdout)["Dir"]) / "example/prometheus-operator-crd"
    files = [folder / f"monitoring.coreos.com_{name}.yaml" for name in OPERATED]
    return [yaml.load(file.read_text(), _Loader) for file in files]
