"""Kafka of other releases than the pinned one: its jars, and a broker made of them."""

from __future__ import annotations

from pathlib import Path

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.jars import jars
from tests.clients.table import FOLDER, numbers
from tests.pins import pinned_by

# The first releases with these group protocols, and the feature by which a broker offers each.
_SHARE_GROUPS, _SHARE_FEATURE = "4.1.0", "share.version=1"
_STREAMS_GROUPS, _STREAMS_FEATURE = "4.2.0", "streams.version=1"


def jars_of(release: str) -> list[Path]:
    """Return the jars of a release, broker and clients, fetched first if the cache lacks them."""
    with pinned_by(FOLDER / "pins" / f"{release}.xml"):
        return jars("broker")


def of_release(command: list[str | Path], release: str) -> list[str | Path]:
    """Return the command of a Java program of Kafka with the jars of a release."""
    at = command.index("-cp") + 1
    return [*command[:at], ":".join(map(str, jars_of(release))), *command[at + 1 :]]


class ReleasedBroker(EmbeddedBroker):
    """The embedded broker in another release, with every group protocol that it has."""

    def __init__(self, release: str, watched_advertised_port: int = 0) -> None:
        super().__init__(watched_advertised_port=watched_advertised_port, auto_create_topics=True)
        self.release = release

    def _write_settings(self) -> None:
        super()._write_settings()
        protocols = ["classic", "consumer"]
        protocols += ["share"] if self._has(_SHARE_GROUPS) else []
        protocols += ["streams"] if self._has(_STREAMS_GROUPS) else []
        with self._folder.properties.open("a") as properties:
            properties.write(f"group.coordinator.rebalance.protocols={','.join(protocols)}\n")

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        command = of_release(super()._java(*arguments), self.release)
        if "format" in arguments:
            command += ["--feature", _SHARE_FEATURE] if self._has(_SHARE_GROUPS) else []
            command += ["--feature", _STREAMS_FEATURE] if self._has(_STREAMS_GROUPS) else []
        return command

    def _has(self, release: str) -> bool:
        return numbers(self.release) >= numbers(release)
