"""A real worker of Kafka Connect, with Kafka's connector for files."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from streaming.broker import child_guard
from streaming.broker.jars import jars, java
from streaming.broker.ports import HOST, free_ports
from tests.pins import pinned_by
from tests.waiting import until

PINS: Final = Path(__file__).parent / "connect/ivy.xml"
_STARTED: Final = 180.0
_OWN_TOPICS: Final = ("config", "offset", "status")


class ConnectWorker:
    """A worker that runs until the stack ends, and its REST API."""

    def __init__(self, stack: ExitStack, folder: Path, bootstrap: str) -> None:
        self._at = f"http://{HOST}:{free_ports(1)[0]}"
        with pinned_by(PINS):
            worker, plugin = jars("broker"), jars("connector")
        (folder / "worker.properties").write_text(_properties(bootstrap, self._at, plugin[0]))
        classes = ":".join(map(str, worker))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        command: list[str | Path] = [java(), "-Xmx512m", "-cp", classes, main]
        self.log = folder / "worker.log"
        with self.log.open("wb") as output:
            guard = child_guard.start([*command, folder / "worker.properties"], output)
        stack.callback(child_guard.stop, guard)
        until(lambda: guard.poll() is not None or self.ask("/connectors") is not None, _STARTED)
        assert guard.poll() is None, self.log.read_text()[-3000:]

    def create(self, connector: dict[str, Any]) -> None:
        """Post a connector as docs/notifications.md does."""
        self.ask("/connectors", connector)

    def states(self, name: str) -> list[str]:
        """The states of a connector and of its tasks."""
        status = self.ask(f"/connectors/{name}/status") or {"connector": {"state": "UNKNOWN"}, "tasks": []}
        return [each["state"] for each in (status["connector"], *status["tasks"])]

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """What the API answers, None while it does not."""
        request = urllib.request.Request(
            self._at + path,
            data=json.dumps(body).encode() if body else None,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            assert error.code in (404, 503), error.read().decode()
        except OSError:
            pass
        return None


def _properties(bootstrap: str, address: str, plugin: Path) -> str:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "connect",
        "listeners": address,
        "plugin.path": plugin,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        # How often a sink writes what it has: a minute unless told otherwise.
        "offset.flush.interval.ms": 1000,
    }
    for topic in _OWN_TOPICS:
        settings |= {f"{topic}.storage.topic": f"connect-{topic}", f"{topic}.storage.replication.factor": 1}
    return "".join(f"{name}={value}\n" for name, value in settings.items())
