"""Both units under a real systemd, in a container: they capture, judge, restart, stop, and may do no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest

from decoders.schema.registry import default_schemas
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import HOST, free_ports
from streaming.demo.progress import scrape
from streaming.probe.client import InstanceClient, new_instance_id
from tests.deploy.engine import Podman
from tests.deploy.images import CACHE
from tests.repository.tree import ROOT
from tests.waiting import until

UNITS: Final = ROOT / "deploy/systemd"
QUERY, FEEDER = "kipwatch", "kipwatch-feeder"
IMAGE: Final = "localhost/kipwatch-systemd"
NET_RAW: Final = 1 << 13
PATIENCE: Final = 600.0
SOFTWARE: Final = {"clientSoftwareName": "not a name", "clientSoftwareVersion": "1"}
RULE: Final = "kip511/software-name-malformed"
OWN: Final = " ".join(f"/var/cache/private/{name}/kipwatch" for name in (QUERY, FEEDER))
LINES: Final = (
    "FROM localhost/kipwatch",
    "USER root",
    # Without libnss-systemd, so that the users which the units make have neither name nor home.
    "RUN apt-get update -qq && apt-get install -qq --yes --no-install-recommends systemd dbus",
    # Where the unit's recipe prepares it.
    f"RUN mv {CACHE} /opt/kipwatch/cache",
    # Compiled code, which would take minutes on a busy machine; systemd gives it to the units' users.
    f"RUN for own in {OWN}; do mkdir -p $own && cp -r /opt/kipwatch/cache/kipwatch/numba $own/; done",
    # The units have users of their own.
    "RUN userdel --remove kipwatch",
    "WORKDIR /",
    f"COPY {QUERY}.service {FEEDER}.service /etc/systemd/system/",
    "COPY kipwatch.toml /etc/kipwatch/",
    "STOPSIGNAL SIGRTMIN+3",
    'ENTRYPOINT ["/lib/systemd/systemd"]',
)

BOOTED: Final = ("running", "degraded")
"""Degraded means that some unit failed, such as one that needs hardware."""

pytestmark = [pytest.mark.long, pytest.mark.jvm, pytest.mark.capture, pytest.mark.timeout(3600)]


class Machine:
    """A container in which systemd runs both units beside a broker, on the network of this machine."""

    def __init__(self, podman: Podman, broker: EmbeddedBroker) -> None:
        self._podman, self._broker = podman, broker
        self._page, feeder_page = (f"{HOST}:{port}" for port in free_ports(2))
        settings = {
            "bootstrap": broker.internal,
            "interface": "lo",
            "ports": [broker.ports.watched],
            "metrics_address": self._page,
            "feeder_metrics_address": feeder_page,
        }
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        units = {f"{name}.service": (UNITS / f"{name}.service").read_text() for name in (QUERY, FEEDER)}
        podman.derive(IMAGE, LINES, **{"kipwatch.toml": text, **units})
        flags = ["--detach", "--rm", "--systemd=always", "--privileged", "--network=host"]
        self._name = podman.run("run", *flags, IMAGE).strip()
        until(lambda: self.run("sh", "-c", "systemctl is-system-running || true").strip() in BOOTED, PATIENCE)
        # As on a machine: in a container systemd leaves it to the engine, and units get no credentials.
        self.run("mount", "--make-rshared", "/")

    def run(self, *command: str) -> str:
        return self._podman.run("exec", self._name, *command, seconds=PATIENCE)

    def await_lines(self, unit: str, text: str, number: int = 1) -> None:
        """Wait until a unit has logged as many lines with a text."""
        journal = ("journalctl", "--unit", unit, "--output", "cat")
        until(lambda: self.run(*journal).count(text) >= number, PATIENCE)

    def await_finding(self) -> None:
        """Wait until an offence on the watched listener is captured and found."""

        def found() -> bool:
            self._offend()
            page = scrape(self._page)
            return page is not None and page.total("kipwatch_findings_total", rule=RULE) > 0

        until(found, PATIENCE)

    def _offend(self) -> None:
        address = (HOST, self._broker.ports.watched)
        with InstanceClient(default_schemas(), address, "outside", new_instance_id()) as client:
            client.request("ApiVersions", SOFTWARE, version=4)

    def show(self, unit: str, *properties: str) -> list[str]:
        return self.run("systemctl", "show", "--value", "--property", ",".join(properties), unit).split()

    def capabilities(self, unit: str) -> int:
        """Return the capabilities of a unit's process."""
        (process,) = self.show(unit, "MainPID")
        status = self.run("cat", f"/proc/{process}/status").splitlines()
        (line,) = [line for line in status if line.startswith("CapEff")]
        return int(line.split()[1], 16)

    def end(self) -> None:
        self._podman.run("kill", self._name)


@pytest.fixture
def machine(podman: Podman) -> Iterator[Machine]:
    with EmbeddedBroker() as broker:
        machine = Machine(podman, broker)
        yield machine
        machine.end()


def test_the_units_capture_and_judge_reload_restart_and_stop(machine: Machine) -> None:
    for unit, line in ((QUERY, '"query": "started"'), (FEEDER, '"feeder": "ready"')):
        machine.run("systemctl", "start", unit)
        machine.await_lines(unit, line)
    machine.await_finding()
    assert (machine.capabilities(QUERY), machine.capabilities(FEEDER)) == (0, NET_RAW)

    machine.run("systemctl", "reload", QUERY)
    machine.await_lines(QUERY, '"query": "decisions-reloaded"')
    machine.run("systemctl", "restart", QUERY)
    machine.await_lines(QUERY, '"query": "started"', 2)
    assert machine.run("ls", "/var/lib/private/kipwatch/checkpoint/commits")

    for unit in (QUERY, FEEDER):
        machine.run("systemctl", "kill", "--signal", "KILL", unit)
    machine.await_lines(QUERY, '"query": "started"', 3)
    machine.await_lines(FEEDER, '"feeder": "ready"', 2)
    machine.await_finding()

    for unit in (QUERY, FEEDER):
        assert machine.show(unit, "NRestarts") == ["1"]
    machine.run("systemctl", "stop", FEEDER, QUERY)
    # The query was stopped once before, by its restart.
    for unit, line, number in ((FEEDER, '"feeder": "stopped"', 1), (QUERY, '"query": "stopped"', 2)):
        machine.await_lines(unit, line, number)
        assert machine.show(unit, "ActiveState") == ["inactive"]
