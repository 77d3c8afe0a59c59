"""The table of clients and brokers, `clients.toml`: which versions are run, and what each can do."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent


class Client(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One library. `folder` holds its program, `package` is its name in the registry of its language.

    `steps` are the parts of the workload that the program plays. `later` has those of newer versions only,
    and `needs` those that a broker must be new enough for: the first version with the step, by its name.
    `also` are further packages that the program needs, `building` what the environment says while a binding
    is compiled. A program that is `secured` can log in and speak TLS.
    """

    name: str
    language: str
    folder: str
    package: str
    versions: tuple[str, ...]
    steps: tuple[str, ...]
    later: dict[str, str] = {}
    needs: dict[str, str] = {}
    also: tuple[str, ...] = ()
    building: dict[str, str] = {}
    secured: bool = False

    def steps_of(self, version: str, release: str) -> list[str]:
        """The steps that this version plays at a broker of a release."""
        return [
            step
            for step in self.steps
            if numbers(version) >= numbers(self.later.get(step, "0"))
            and numbers(release) >= numbers(self.needs.get(step, "0"))
        ]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All brokers and all clients."""

    brokers: tuple[str, ...]
    client: tuple[Client, ...]

    def runs(self) -> Iterator[tuple[Client, str]]:
        """Every client in each of its versions."""
        for client in self.client:
            for version in client.versions:
                yield client, version


@functools.cache
def table() -> Table:
    """Read the table."""
    return msgspec.toml.decode((FOLDER / "clients.toml").read_bytes(), type=Table)


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, to compare it by."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
