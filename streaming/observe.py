"""`--observe`: Prometheus and Alertmanager beside a kipwatch on this machine.

Both are child processes on loopback, with settings made here; both read JSON as YAML. Their data is in a
temporary folder, which is removed when they end. By default Alertmanager notifies nobody.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from streaming.broker.child_guard import GuardedProcess
from streaming.broker.ports import HOST, free_ports
from streaming.settings.address import address_text, host_and_port
from streaming.settings.configuration import Configuration, MetricsTls
from streaming.user_error import UserError

RULES = Path(__file__).parents[1] / "dashboards/generated/alerts.yml"
INTERVAL = "5s"
"""Between two scrapes, and two evaluations of rules. Short, because somebody is watching."""
WILDCARDS = ("0.0.0.0", "::")
READY_SECONDS = 30.0
REQUEST_SECONDS = 1.0
PROMETHEUS = ("prometheus",)
ALERTMANAGER = ("prometheus-alertmanager", "alertmanager")
"""The names of the program in Debian and upstream."""
ALERT_PAGES = ("/alerts", "/classic/alerts")
"""The page of alerts upstream, and in Debian, which leaves the upstream pages out."""


class Server(GuardedProcess):
    """A running Prometheus or Alertmanager on loopback. A context manager that ends it."""

    def __init__(self, name: str, command: Sequence[str | Path], port: int, log: Path) -> None:
        """Start `command`, which listens on `port`, with its output in `log`."""
        super().__init__(command, log)
        self._name, self.address = name, f"{HOST}:{port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def wait(self) -> None:
        """Wait until it is ready. Raises UserError if it ends or takes too long."""
        deadline = time.monotonic() + READY_SECONDS
        while not self.responds("/-/ready"):
            if self._guard.poll() is not None:
                raise UserError(f"{self._name} ended while it started: {self.last_line()}")
            if time.monotonic() > deadline:
                raise UserError(f"{self._name} was not ready within {READY_SECONDS:.0f} s")
            time.sleep(0.1)

    def responds(self, path: str) -> bool:
        """Whether a request for a path succeeds."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=REQUEST_SECONDS):
                return True
        except OSError:
            return False


class Observers(NamedTuple):
    """The two servers, which run."""

    prometheus: Server
    alertmanager: Server

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses to open in a browser, by name. Debian's Alertmanager has no pages, and says so."""
        alerts = next(filter(self.prometheus.responds, ALERT_PAGES), ALERT_PAGES[0])
        return {"prometheus": f"{self.prometheus.url}{alerts}", "alertmanager": self.alertmanager.url}


@contextmanager
def observing(
    configuration: Configuration, *, rules: Path = RULES, routing: Path | None = None
) -> Iterator[Observers]:
    """Start both servers, and end them afterwards.

    `rules` is the rule file, `routing` a configuration of Alertmanager in place of the silent one. Raises
    UserError if one of the two programs is not installed, or the pages are served by TLS.
    """
    if configuration.metrics_tls != MetricsTls():
        raise UserError("--observe does not read pages that are served by TLS: leave [metrics_tls] out")
    program, manager = _installed(PROMETHEUS), _installed(ALERTMANAGER)
    targets = {
        "kipwatch": configuration.metrics_address,
        "kipwatch-feeder": configuration.feeder_metrics_address,
    }
    port, port_of_alerts = free_ports(2)
    with TemporaryDirectory(prefix="kipwatch-observe-") as name:
        folder = Path(name)
        routing = routing or _write(folder / "alertmanager.json", alertmanager_settings())
        with start_alertmanager(manager, routing, port_of_alerts, folder) as alertmanager:
            scraping = prometheus_settings(targets, alertmanager.address, rules)
            file = _write(folder / "prometheus.json", scraping)
            with start_prometheus(program, file, port, folder) as prometheus:
                alertmanager.wait()
                prometheus.wait()
                yield Observers(prometheus, alertmanager)


def add_observe_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--observe",
        action="store_true",
        help="also start Prometheus and Alertmanager on loopback; both must be installed",
    )


@contextmanager
def observed(wanted: bool, configuration: Configuration) -> Iterator[dict[str, str]]:
    """Run the observers if `wanted`; yields their addresses by name. Raises UserError."""
    if not wanted:
        yield {}
        return
    with observing(configuration) as observers:
        yield observers.addresses


def start_prometheus(program: str, configuration: Path, port: int, folder: Path) -> Server:
    """Start a Prometheus that keeps its data in `folder`."""
    command = [
        program,
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address={HOST}:{port}",
        # By default links in its alerts name the public address of this host, where it does not listen.
        f"--web.external-url=http://{HOST}:{port}/",
        # Alerts that fire before Alertmanager is found are dropped, and by default resent after a minute.
        "--rules.alert.resend-delay=10s",
    ]
    return Server("Prometheus", command, port, folder / "prometheus.log")


def start_alertmanager(program: str, configuration: Path, port: int, folder: Path) -> Server:
    """Start an Alertmanager that keeps its data in `folder`."""
    command = [
        program,
        f"--config.file={configuration}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={HOST}:{port}",
        f"--web.external-url=http://{HOST}:{port}/",
        # An empty address turns clustering off, which would listen on every interface.
        "--cluster.listen-address=",
    ]
    return Server("Alertmanager", command, port, folder / "alertmanager.log")


def _installed(names: tuple[str, ...]) -> str:
    for name in names:
        if path := shutil.which(name):
            return path
    raise UserError(
        f"--observe needs {names[0]}, which is not installed: "
        f"apt-get install --no-install-recommends {names[0]}"
    )


def _write(path: Path, settings: dict[str, object]) -> Path:
    path.write_text(json.dumps(settings))
    return path


def prometheus_settings(targets: dict[str, str], alertmanager: str, rules: Path = RULES) -> dict[str, Any]:
    """Scrape `targets` (job to host:port) and send alerts to `alertmanager` (host:port)."""
    return {
        "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [str(rules)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [reachable(address)]}]}
            for job, address in targets.items()
        ],
    }


def alertmanager_settings() -> dict[str, Any]:
    """Group alerts as the committed configuration does, and notify nobody."""
    return {
        "route": {
            "receiver": "nobody",
            "group_by": ["alertname", "job", "cluster", "owner", "rule", "client_software_name"],
        },
        "receivers": [{"name": "nobody"}],
    }


def reachable(address: str) -> str:
    """Return the address to connect to: loopback for a server that listens on every interface."""
    host, port = host_and_port(address)
    return address_text(HOST if host in WILDCARDS else host, port)
