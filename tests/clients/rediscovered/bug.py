"""A bug that was reported and fixed, as its `bug.toml` describes it. README.md says what each field means."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec

from tests.clients.table import FOLDER, Client

BUGS = Path(__file__).parent / "bugs"


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the program connects to: either `release` or `knows` is set.

    `release` is a real broker. `knows` is a scripted one: the versions that it serves by API. It answers
    with `answers`, by API, and with the default of each field otherwise.
    """

    release: str = ""
    knows: dict[str, tuple[int, int]] = {}
    answers: dict[str, dict[str, Any]] = {}
    refusal: str = "range"
    """What the scripted broker sends beside error 35 to an unknown version of ApiVersions: the `range` that
    it has, an `empty` list, or a `newer` range that ends at the refused version."""

    @property
    def name(self) -> str:
        """What a reader calls it."""
        return f"Kafka {self.release}" if self.release else "scripted"


class Bug(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One bug. `rules` are those that kipwatch finds broken by the affected version and not by the fixed one.

    `missed` says why nothing is found, if `rules` is empty.
    """

    name: str
    """The name of its folder."""
    issue: str
    title: str
    says: str
    client: str
    language: str
    package: str
    affected: str
    fixed: str
    server: Server
    program: str = ""
    """The folder below tests/clients that has the program; by default that of the bug itself."""
    steps: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Further packages to install, in the notation of the registry's client."""
    rules: tuple[str, ...] = ()
    missed: str = ""
    provoked: dict[str, tuple[str, ...]] = {}
    """The provocations that bring the bug about at a current Kafka, each with the rules that find it then."""

    @property
    def versions(self) -> tuple[str, str]:
        """The affected and the fixed version."""
        return self.affected, self.fixed

    def as_client(self) -> Client:
        """What is to be installed."""
        own = str((BUGS / self.name).relative_to(FOLDER))
        return Client(
            name=self.client,
            language=self.language,
            folder=self.program or own,
            package=self.package,
            versions=self.versions,
            steps=self.steps,
            also=self.also,
        )


@functools.cache
def bugs() -> tuple[Bug, ...]:
    """Read all bugs, in the order of their folders' names."""
    return tuple(_read(path) for path in sorted(BUGS.glob("*/bug.toml")))


def _read(path: Path) -> Bug:
    fields = msgspec.toml.decode(path.read_bytes())
    return msgspec.convert({"name": path.parent.name, **fields}, Bug)
