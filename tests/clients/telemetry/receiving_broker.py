"""A broker with a plug-in that receives the metrics of clients, and a subscription to them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from decoders.schema.registry import default_schemas
from streaming.broker.ports import HOST
from streaming.probe.client import InstanceClient, new_instance_id
from tests.clients.releases import ReleasedBroker, jars_of

PLUG_IN = Path(__file__).parent / "TelemetryReceiver.java"
CLIENT_METRICS, SET = 16, 0
"""A type of resource and an operation of IncrementalAlterConfigs."""
INTERVAL = "100"
"""Milliseconds between two pushes, the least that a broker takes."""


class Push(NamedTuple):
    """What a client pushed. The client instance ID is in base64url."""

    instance_id: str
    size: int
    client_id: str


class ReceivingBroker(ReleasedBroker):
    """A broker that asks each client for all its metrics. Files of the plug-in are in `folder`."""

    def __init__(self, release: str, folder: Path) -> None:
        super().__init__(release)
        self._received, self._classes = folder / "received", folder / "classes"
        class_path = ":".join(map(str, jars_of(release)))
        command: list[str | Path] = ["javac", "-nowarn", "-cp", class_path, "-d", self._classes, PLUG_IN]
        subprocess.run(command, check=True)

    def subscribe(self) -> None:
        """Ask all clients for their metrics from now on."""
        settings = {"metrics": "*", "interval.ms": INTERVAL}
        configs = [{"name": n, "configOperation": SET, "value": v} for n, v in settings.items()]
        resource = {"resourceType": CLIENT_METRICS, "resourceName": "all", "configs": configs}
        body = {"resources": [resource], "validateOnly": False}
        address = HOST, self.ports.internal
        with InstanceClient(default_schemas(), address, "subscriber", new_instance_id()) as client:
            response = client.request("IncrementalAlterConfigs", body, version=1)
        assert [each["errorCode"] for each in response["responses"]] == [0], response

    def pushes(self) -> list[Push]:
        """What clients have pushed."""
        lines = self._received.read_text().splitlines() if self._received.exists() else []
        parts = [line.split(" ", 2) for line in lines]
        return [Push(instance_id, int(size), client_id) for instance_id, size, client_id in parts]

    def _write_settings(self) -> None:
        super()._write_settings()
        with self._folder.properties.open("a") as properties:
            properties.write(f"metric.reporters={PLUG_IN.stem}\ntelemetry.receiver.file={self._received}\n")

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        command = super()._java(*arguments)
        command[command.index("-cp") + 1] = f"{command[command.index('-cp') + 1]}:{self._classes}"
        return command
