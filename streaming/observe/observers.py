"""Prometheus and Alertmanager beside a kipwatch on this machine, where they are installed: `--observe`.

They keep what they learn in a folder that goes with them: a look at the metrics and alerts, no archive.
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
from streaming.user_error import UserError

PROMETHEUS = ("prometheus",)
ALERTMANAGER = ("prometheus-alertmanager", "alertmanager")
"""Debian's name of the program, and that of its makers."""
ALERT_PAGES = ("/alerts", "/classic/alerts")
"""Where a Prometheus shows alerts: its makers' place, and that of Debian, which leaves their pages out."""


class Observers:
    """The two servers. A context manager; leaving it ends both."""

    def __init__(
        self, configuration: Configuration, *, rules: Path = RULES, routing: Path | None = None
    ) -> None:
        """`rules` is the rule file, `routing` a configuration of Alertmanager other than to tell nobody.

        Raises UserError when one of them is not installed.
        """
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
        """Where people look, by name. Debian's Alertmanager has no pages and says what to do instead."""
        alerts = next(filter(self.prometheus.answers, ALERT_PAGES), ALERT_PAGES[0])
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
        help="bring Prometheus and Alertmanager up as well, on loopback, if they are installed",
    )


@contextmanager
def observed(wanted: bool, configuration: Configuration) -> Iterator[dict[str, str]]:
    """Hold observers, where they are wanted, and give their addresses by name. Raises UserError."""
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
        # Else the links in its alerts would name this host, where it does not listen.
        f"--web.external-url=http://127.0.0.1:{port}/",
        # What fires before it has found Alertmanager is dropped, and by default sent again after a minute.
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
        # Without it the gossip of a cluster would listen on every interface.
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
