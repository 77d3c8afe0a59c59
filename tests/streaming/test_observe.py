"""`--observe`: both servers listen on loopback, and end with kipwatch."""

from __future__ import annotations

import argparse
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streaming.broker.ports import free_ports
from streaming.commands import demo, run
from streaming.metrics.exposition import Exposition, serve
from streaming.observe import (
    RULES,
    alertmanager_settings,
    observed,
    observing,
    prometheus_settings,
    reachable,
    start_prometheus,
)
from streaming.query.application_metrics import ApplicationMetrics
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError
from tests.dashboards.prometheus import promtool
from tests.deploy.alertmanager import CONFIGURATION
from tests.waiting import until


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as response:
        return json.load(response)


@pytest.fixture
def application() -> Iterator[Exposition]:
    metrics = ApplicationMetrics(["kip35/version-out-of-range"], version="0.1.0", kafka="4.4.0")
    exposition = serve(metrics.registry, 0, lambda: True, lambda: True)
    yield exposition
    exposition.close()


def watched(exposition: Exposition) -> Configuration:
    unused = free_ports(1)[0]
    return Configuration(
        metrics_address=f"127.0.0.1:{exposition.port}", feeder_metrics_address=f"127.0.0.1:{unused}"
    )


def targets(prometheus: str) -> dict[str, str]:
    active = get(f"{prometheus}/api/v1/targets")["data"]["activeTargets"]
    return {target["labels"]["job"]: target["health"] for target in active}


@pytest.mark.slow
def test_prometheus_scrapes_and_sends_alerts_to_alertmanager(application: Exposition) -> None:
    """The watchdog fires within seconds; a feeder that does not run is shown as down."""
    with observing(watched(application)) as observers:
        until(lambda: targets(observers.prometheus.url) == {"kipwatch": "up", "kipwatch-feeder": "down"})
        alerts = until(lambda: get(f"{observers.alertmanager.url}/api/v2/alerts"))
        assert {alert["labels"]["alertname"] for alert in alerts} == {"KipwatchWatchdog"}
        assert set(observers.addresses) == {"prometheus", "alertmanager"}
        for address in observers.addresses.values():
            with urllib.request.urlopen(address, timeout=5) as response:
                assert response.status == 200
        assert all(alert["generatorURL"].startswith(observers.prometheus.url) for alert in alerts)


def test_both_servers_listen_on_loopback_alone_and_end(application: Exposition) -> None:
    """Neither of them asks for a password."""
    with observing(watched(application)) as observers:
        ports = {
            int(server.address.rpartition(":")[2])
            for server in (observers.prometheus, observers.alertmanager)
        }
        listening = {address for address in listeners() if address[1] in ports}
        assert listening == {("127.0.0.1", port) for port in ports}
    assert not ports & {port for _, port in listeners()}


def listeners() -> set[tuple[str, int]]:
    """Every IPv4 and IPv6 address of this machine that is listened on, IPv6 as `::`."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            address, port = local.split(":")
            if state == "0A":
                host = socket.inet_ntoa(bytes.fromhex(address)[::-1]) if table == "tcp" else "::"
                found.add((host, int(port, 16)))
    return found


def test_nothing_is_started_unless_it_is_wanted() -> None:
    with observed(False, Configuration()) as addresses:
        assert addresses == {}


def test_a_server_that_is_not_installed_is_an_error_of_one_line_that_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    needed = pytest.raises(UserError, match=r"--observe needs prometheus.*apt-get install")
    with needed as raised, observing(Configuration()):
        pass
    assert "\n" not in str(raised.value)


def test_a_server_that_does_not_start_is_an_error_with_its_last_line(tmp_path: Path) -> None:
    bad = tmp_path / "prometheus.json"
    bad.write_text('{"scrape": 1}')
    with (
        start_prometheus("prometheus", bad, free_ports(1)[0], tmp_path) as server,
        pytest.raises(UserError, match=r"Prometheus ended while it started: .*scrape"),
    ):
        server.wait()


def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    file = tmp_path / "prometheus.json"
    file.write_text(json.dumps(prometheus_settings({"kipwatch": "0.0.0.0:9108"}, "127.0.0.1:9093")))
    assert RULES.is_file()
    promtool("check", "config", file)


def test_what_listens_on_every_interface_is_reached_on_loopback() -> None:
    assert reachable("0.0.0.0:9108") == reachable("[::]:9108") == "127.0.0.1:9108"
    assert reachable("monitor:9108") == "monitor:9108"


def test_alerts_are_grouped_as_in_the_committed_configuration() -> None:
    committed = yaml.safe_load(CONFIGURATION.read_text())
    assert alertmanager_settings()["route"]["group_by"] == committed["route"]["group_by"]


@pytest.mark.parametrize("command", [demo, run])
def test_the_commands_have_the_flag(command: Any) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert parser.parse_args(["--observe"]).observe
    assert not parser.parse_args([]).observe
