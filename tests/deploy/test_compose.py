"""The Compose stack, as far as it can be tested without Docker: mounts, copies, commands and ports."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from streaming.commands import feed, run
from streaming.settings.configuration import Configuration, configure
from tests.dashboards.prometheus import promtool
from tests.repository.tree import ROOT

DEPLOY = ROOT / "deploy"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
PROMETHEUS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())


def mounts(service: str) -> dict[str, Path]:
    """The files and folders of the repository that a service sees: path in the container → path here."""
    pairs = (volume.split(":")[:2] for volume in SERVICES[service].get("volumes", []))
    return {inside: (DEPLOY / outside).resolve() for outside, inside in pairs if outside.startswith(".")}


def settings(command: Any, service: str) -> Configuration:
    """Return the configuration that results from a service's flags."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    return configure(parser.parse_args(SERVICES[service]["command"][1:]))


def ports_of(value: str) -> set[str]:
    return {address.rsplit(":", 1)[1] for address in value.split(",")}


@pytest.mark.parametrize("service", SERVICES)
def test_every_mounted_path_is_in_the_repository(service: str) -> None:
    """Docker silently creates an empty folder for a path that is missing."""
    for path in mounts(service).values():
        assert path.exists(), path
        assert path.is_relative_to(ROOT)


def test_every_file_that_the_image_copies_is_in_the_repository() -> None:
    """The ignore file beside the Dockerfile lets them pass, with the locks of the install script."""
    lines = (DEPLOY / "image/Dockerfile.dockerignore").read_text().splitlines()
    admitted = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert {"deploy/image/install.sh", "pyproject.toml", "kipwatch", "streaming"} <= set(admitted)
    assert [path for path in admitted if not (ROOT / path).exists()] == []
    script = (DEPLOY / "image/install.sh").read_text()
    locks = set(re.findall(r"lock=(\S+)", script))
    assert locks == {"requirements-feed.lock", "requirements-run.lock"} and locks <= set(admitted)


def test_the_image_is_built_from_the_root_of_the_repository() -> None:
    """COPY paths are relative to the context, the root of the repository."""
    for service in ("feeder", "application"):
        build = SERVICES[service]["build"]
        assert (DEPLOY / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).is_file()


def test_the_commands_accept_their_flags_and_use_the_internal_listener() -> None:
    """A feeder that captures its own traffic would never end."""
    listeners = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert SERVICES["feeder"]["command"][0] == "feed"
    assert SERVICES["application"]["command"][0] == "run"
    feeder, application = settings(feed, "feeder"), settings(run, "application")
    assert f"INTERNAL://{feeder.bootstrap}" in listeners
    assert feeder.bootstrap == application.bootstrap
    assert ports_of(listeners.split(",")[0]) == {str(port) for port in feeder.ports}
    assert ports_of(feeder.bootstrap).isdisjoint({str(port) for port in feeder.ports})


def test_advertised_listeners_are_listened_on() -> None:
    """Every advertised port is bound, and the watched one is published."""
    environment = SERVICES["kafka"]["environment"]
    assert ports_of(environment["KAFKA_ADVERTISED_LISTENERS"]) <= ports_of(environment["KAFKA_LISTENERS"])
    assert SERVICES["kafka"]["ports"] == ["127.0.0.1:9092:9092"]


def test_prometheus_scrapes_where_kipwatch_serves() -> None:
    """The ports are kipwatch's own defaults; the feeder is reached by the name of the broker beside it."""
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in PROMETHEUS["scrape_configs"]}
    default = Configuration()
    assert SERVICES["feeder"]["network_mode"] == "service:kafka"
    served = {
        "kipwatch": ("application", settings(run, "application").metrics_address, default.metrics_address),
        "kipwatch-feeder": (
            "kafka",
            settings(feed, "feeder").feeder_metrics_address,
            default.feeder_metrics_address,
        ),
    }
    assert set(targets) == set(served)
    for job, (host, address, default_address) in served.items():
        assert ports_of(address) == ports_of(default_address)
        assert address.startswith("0.0.0.0:")
        assert targets[job] == [f"{host}:{ports_of(address).pop()}"]


def test_the_services_that_are_addressed_exist() -> None:
    """Prometheus addresses Alertmanager, and Grafana both."""
    (managers,) = PROMETHEUS["alerting"]["alertmanagers"]
    sources = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/kipwatch.yaml").read_text())
    addresses = managers["static_configs"][0]["targets"]
    addresses += [source["url"].removeprefix("http://") for source in sources["datasources"]]
    for address in addresses:
        host, port = address.split(":")
        assert f"127.0.0.1:{port}:{port}" in SERVICES[host]["ports"]


def test_only_the_feeder_may_capture() -> None:
    """It has the one capability that it needs, the application none."""
    for service in ("feeder", "application"):
        assert SERVICES[service]["cap_drop"] == ["ALL"]
        assert SERVICES[service]["security_opt"] == ["no-new-privileges:true"]
    assert SERVICES["feeder"]["cap_add"] == ["NET_RAW"]
    assert "cap_add" not in SERVICES["application"]
    assert "\nUSER kipwatch\n" in (DEPLOY / "image/Dockerfile").read_text()


def test_every_port_is_published_on_loopback_only() -> None:
    """None of the services asks for a password."""
    for service in SERVICES.values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")


def test_prometheus_accepts_its_configuration_and_finds_its_rules(tmp_path: Path) -> None:
    """The files are at their paths in the container."""
    for inside, path in mounts("prometheus").items():
        place = tmp_path / Path(inside).relative_to("/etc/prometheus")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    assert (tmp_path / PROMETHEUS["rule_files"][0]).is_file()
    promtool("check", "config", tmp_path / "prometheus.yml")


def test_alertmanager_finds_its_templates_where_they_are_mounted() -> None:
    """Beside its configuration, which names them relative to itself."""
    mounted = mounts("alertmanager")
    settings = yaml.safe_load(mounted["/etc/alertmanager/alertmanager.yml"].read_text())
    assert settings["templates"] == ["templates/*.tmpl"]
    assert [*mounted["/etc/alertmanager/templates"].glob("*.tmpl")]


def test_grafana_finds_the_dashboards_where_they_are_mounted() -> None:
    """The provider's folder, the start page and the mount are one place."""
    provider = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/kipwatch.yaml").read_text())
    folder = Path(provider["providers"][0]["options"]["path"])
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    mounted = mounts("grafana")
    assert mounted[str(folder)] == ROOT / "dashboards/generated"
    assert Path(home).parent == folder
    assert (mounted[str(folder)] / Path(home).name).is_file()
    assert "/etc/grafana/provisioning" in mounted
