"""The Compose stack for real, by podman: a client offends, and the alert arrives at Alertmanager.

kipwatch's image is built by its Dockerfile. Kafka is that of the pinned jars, Prometheus and Alertmanager are
Debian's, under the names of the images that they stand in for. Debian has no Grafana, so it is left out.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest

from decoders.schema.registry import default_schemas
from streaming.probe.client import InstanceClient, new_instance_id
from tests.deploy.engine import KAFKA, Podman, add_kafka
from tests.deploy.images import base
from tests.deploy.test_compose import DEPLOY, SERVICES
from tests.waiting import until

STARTED: Final = ("kafka", "feeder", "application", "prometheus", "alertmanager")
COMMANDS: Final = {
    "kafka": [KAFKA],
    "prometheus": [
        "prometheus",
        "--config.file=/etc/prometheus/prometheus.yml",
        "--storage.tsdb.path=/tmp/data",
    ],
    "alertmanager": [
        "prometheus-alertmanager",
        "--config.file=/etc/alertmanager/alertmanager.yml",
        "--storage.path=/tmp/data",
        "--cluster.listen-address=",
    ],
}
"""The programs of the images that replace others."""
SOFTWARE: Final = {"clientSoftwareName": "not a name", "clientSoftwareVersion": "1"}
RULE: Final = "kip511/software-name-malformed"
OTHERS: Final = "localhost/others"
PATIENCE: Final = 900.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def stack(podman: Podman) -> Iterator[Podman]:
    """The stack, started."""
    others = base(podman.folder, "openjdk-17-jre-headless", "prometheus", "prometheus-alertmanager")
    add_kafka(others)
    podman.run("import", "--quiet", others, OTHERS, seconds=300)
    for name, command in COMMANDS.items():
        lines = [f"FROM {OTHERS}", f"ENTRYPOINT {json.dumps(command)}"]
        podman.derive(f"docker.io/{SERVICES[name]['image']}", lines)
    file = DEPLOY / "compose.yaml"
    try:
        podman.compose(file, "up", "--detach", "--no-build", *STARTED)
        yield podman
    finally:
        podman.compose(file, "down", "--volumes")


def asked(address: str) -> Any:
    """Return the response of an HTTP API, None without one."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{address}", timeout=10) as response:
            return json.load(response)
    except (urllib.error.URLError, OSError, ValueError):
        return None


def series(query: str) -> list[Any]:
    answer = asked(f"9090/api/v1/query?query={quote(query)}")
    found: list[Any] = answer["data"]["result"] if answer else []
    return found


def test_prometheus_scrapes_query_and_feeder(stack: Podman) -> None:
    def scraped() -> set[str]:
        return {each["metric"]["job"] for each in series("up==1")}

    until(lambda: scraped() == {"kipwatch", "kipwatch-feeder"}, PATIENCE)


def test_an_offence_becomes_an_alert(stack: Podman) -> None:
    def offend() -> None:
        """A client outside of the stack uses the published port."""
        with InstanceClient(default_schemas(), ("127.0.0.1", 9092), "outside", new_instance_id()) as client:
            client.request("ApiVersions", SOFTWARE, version=4)

    def found() -> bool:
        offend()
        return bool(series(f'kipwatch_findings_total{{rule="{RULE}"}}'))

    until(found, PATIENCE)
    until(lambda: alerts(lambda labels: labels.get("rule") == RULE), PATIENCE)


def alerts(chosen: Callable[[dict[str, str]], bool]) -> list[Any]:
    return [each for each in asked("9093/api/v2/alerts") or [] if chosen(each["labels"])]


def test_the_application_is_healthy(stack: Podman) -> None:
    """Podman leaves the repetition of health checks to systemd; here the test asks once."""
    stack.run("healthcheck", "run", "kipwatch_application_1")


def test_the_feeder_has_one_capability_and_the_application_none(stack: Podman) -> None:
    for name, expected in (("feeder", ["CAP_NET_RAW"]), ("application", [])):
        (found,) = json.loads(stack.run("inspect", f"kipwatch_{name}_1"))
        assert (found["EffectiveCaps"] or []) == expected
