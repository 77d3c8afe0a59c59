"""Prometheus and Alertmanager for a kipwatch on this machine: `--observe`.

Their data is in a temporary folder, which is removed when they end.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from streaming.broker.ports import free_ports
from streaming.observe.server import Server
from streaming.observe.settings import RULES, alertmanager_settings, prometheus_settings
from streaming.settings.configuration import Configuration
from streaming.settings.metrics_tls import MetricsTls
from streaming.user_error import UserError

PROMETHEUS = ("prometheus",)
ALERTMANAGER = ("prometheus-alertmanager", "alertmanager")
"""The names of the program in Debian and upstream."""
ALERT_PAGES = ("/alerts", "/classic/alerts")
"""The page of alerts upstream, and in Debian, which leaves the upstream pages out."""


class Observers:
    """The two servers. A context manager; leaving it ends both."""

    def __init__(
        self, configuration: Configuration, *, rules: Path = RULES, routing: Path | None = None
    ) -> None:
        """`rules` is the rule file, `routing` a configuration of Alertmanager; by default it notifies nobody.

        Raises UserError if one of the two programs is not installed, or the pages are served by TLS.
        """
        if configuration.metrics_tls != MetricsTls():
            raise UserError("--observe does not read pages that are served by TLS: leave [metrics_tls] out")
        self._programs = _installed(PROMETHEUS), _installed(ALERTMANAGER)
        self._targets = {
            "kipwatch": configuration.metrics_address,
            "kipwatch-feeder": configuration.feeder_metrics_address,
        }
        self._rules, self._routing = rules, routing
        self._stack = ExitStack()
        self.prometheus: Server
        self.alertmanager: Server

    def __enter__(self) -> Observers:
        try:
            self._start(Path(self._stack.enter_context(TemporaryDirectory(prefix="kipwatch-observe-"))))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses to open in a browser, by name. Debian's Alertmanager has no pages and says so."""
        alerts = next(filter(self.prometheus.responds, ALERT_PAGES), ALERT_PAGES[0])
        return {"prometheus": f"{self.prometheus.url}{alerts}", "alertmanager": self.alertmanager.url}

    def _start(self, folder: Path) -> None:
        prometheus, alertmanager = free_ports(2)
        program, manager = self._programs
        routing = self._routing or _write(folder / "alertmanager.json", alertmanager_settings())
        self.alertmanager = self._stack.enter_context(
            start_alertmanager(manager, routing, alertmanager, folder)
        )
        scraping = prometheus_settings(self._targets, self.alertmanager.address, self._rules)
        file = _write(folder / "prometheus.json", scraping)
        self.prometheus = self._stack.enter_context(start_prometheus(program, file, prometheus, folder))
        self.alertmanager.wait()
        self.prometheus.wait()


def add_observe_flag(parser: argparse.ArgumentParser) -> None:
    """Declare `--observe`."""
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
    with Observers(configuration) as observers:
        yield observers.addresses


def start_prometheus(program: str, configuration: Path, port: int, folder: Path) -> Server:
    """Start a Prometheus that keeps its data in `folder`."""
    command = [
        program,
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
        # Otherwise links in its alerts name this host's public address, where it does not listen.
        f"--web.external-url=http://127.0.0.1:{port}/",
        # Alerts that fire before Alertmanager is found are dropped, and by default sent again after a minute.
        "--rules.alert.resend-delay=10s",
    ]
    return Server("Prometheus", command, port, folder / "prometheus.log")


def start_alertmanager(program: str, configuration: Path, port: int, folder: Path) -> Server:
    """Start an Alertmanager that keeps its data in `folder`."""
    command = [
        program,
        f"--config.file={configuration}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--web.external-url=http://127.0.0.1:{port}/",
        # An empty address turns clustering off; it would listen on every interface.
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
