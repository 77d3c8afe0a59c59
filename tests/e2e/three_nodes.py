"""A cluster of three brokers on loopback, the first of which is the controller, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.e2e.restarting_broker import RestartingBroker

COUNT = 3
_REPLICATED = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic", "default")


class Node(RestartingBroker):
    """One broker of a cluster, which can be stopped, killed and replaced."""

    def __init__(self, number: int, first: Node | None = None, instead: Node | None = None) -> None:
        """`first` has the controller, None for the first itself. `instead` of another is at its address."""
        super().__init__()
        self.number, self._first = number, first
        if first is not None:
            self.cluster_id = first.cluster_id
        if instead is not None:
            self.ports = instead.ports

    def _write_settings(self) -> None:
        super()._write_settings()
        properties = self._folder.properties
        settings = dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)
        settings |= {f"{topic}.replication.factor": str(COUNT) for topic in _REPLICATED}
        # The controller soon lets preferred leaders lead again, so leaders move twice with each broker.
        settings |= {
            "leader.imbalance.check.interval.seconds": "5",
            "leader.imbalance.per.broker.percentage": "0",
        }
        settings["node.id"] = str(self.number)
        if self._first is not None:
            settings["process.roles"] = "broker"
            listeners = settings["listeners"].split(",")
            settings["listeners"] = ",".join(one for one in listeners if not one.startswith("CONTROLLER"))
            settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{self._first.ports.controller}"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        # Only the controller is alone in its quorum.
        kept = [one for one in arguments if one != "--standalone" or self._first is None]
        return super()._java(*kept)


@contextmanager
def three_nodes() -> Iterator[tuple[ExitStack, list[Node]]]:
    """Run three brokers; yields what ends them, for one more to be entered, and the brokers."""
    with ExitStack() as stack:
        first = stack.enter_context(Node(1))
        others = [stack.enter_context(Node(number, first)) for number in range(2, COUNT + 1)]
        yield stack, [first, *others]
