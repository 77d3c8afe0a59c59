"""Plays one version of a bug's program while its traffic is captured, and judges the capture.

Another client asks for the versions first, as some client of every cluster does: what a server supports is
otherwise not known.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from decoders.codec.request import write_request
from decoders.schema.registry import default_schemas
from streaming.broker.ports import HOST
from streaming.check.examination import examine
from streaming.probe.client import read_frame
from tests.captures.recording import captured
from tests.clients.installing import Command
from tests.clients.rediscovered.bug import Bug
from tests.clients.results_file import today
from tests.clients.running import Found, found_in, new_topic, play
from tests.mutations.script import prefixed

PATIENCE = 10.0
"""Seconds for the server to respond."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened. `failed` is the last line that the program printed, if its status was not 0."""

    bug: str
    version: str
    date: str
    frames: int
    findings: list[Found] = []
    failed: str = ""

    @property
    def rules(self) -> set[str]:
        """The rules that were broken."""
        return {found.rule for found in self.findings}


def attempt(bug: Bug, version: str, command: Command, port: int, capture: Path) -> Attempt:
    """Play a program against the server at a port."""
    with captured(port, capture):
        ask(port)
        failed = play([*command, f"{HOST}:{port}", new_topic(), *bug.steps], capture.with_suffix(".output"))
    examination = examine(capture, default_schemas(), [port])
    return Attempt(
        bug=bug.name,
        version=version,
        date=today(),
        frames=examination.frames,
        findings=found_in(examination.findings),
        failed=failed,
    )


def ask(port: int) -> None:
    """Ask a server for its versions, by version 0, which every one supports."""
    request = write_request(default_schemas(), "ApiVersions", 0, 1, "bystander", {})
    with socket.create_connection((HOST, port), PATIENCE) as connection:
        connection.sendall(prefixed(request))
        read_frame(connection)


def outcome(bug: Bug, attempts: Sequence[Attempt]) -> str:
    """Say whether a bug was `found`, `missed`, `not run`, or found where it was fixed: `false`."""
    by_version = {each.version: each.rules & set(bug.rules) for each in attempts if each.bug == bug.name}
    if by_version.keys() != set(bug.versions):
        return "not run"
    if by_version[bug.fixed]:
        return "false"
    return "found" if bug.rules and by_version[bug.affected] == set(bug.rules) else "missed"
