"""The finding: one offence on one connection, told so that a person can act on it.

This is a contract: topic, dashboards, reports and tests use these names. A finding is published
again under the same id with a higher count, so that storms stay small.
"""

from __future__ import annotations

import hashlib

import msgspec

from expectations.conversation.observation import Evidence


class Finding(msgspec.Struct, kw_only=True):
    """One offence, as it stands in the topic `kipwatch.findings`.

    Times (`captured_at` and the like) are nanoseconds since the epoch of the packet's capture.
    `message` is one line; `expected`, `observed` and `context` hold what was on the wire as it was.
    `sequence` is the frame's number in its run. `occurrences` counts what was seen so far.
    """

    id: str
    rule: str
    kip: str
    section: str
    level: str
    role: str
    spec: str
    message: str
    expected: str
    observed: str
    context: dict[str, str]
    occurrences: int
    first_captured_at: int
    last_captured_at: int
    cluster: str
    connection: str
    client: str
    broker: str
    listener: str
    client_id: str | None
    client_software_name: str | None
    client_software_version: str | None
    client_instance_id: str | None
    member_id: str | None
    group_id: str | None
    api: str | None
    api_key: int | None
    api_version: int | None
    correlation_id: int | None
    sequence: int
    captured_at: int
    evidence: Evidence
    runbook: str

    def likeness(self) -> tuple[object, ...]:
        """What makes two findings of different sources the same: rule, 4-tuple, occurrences, context."""
        return (self.rule, self.client, self.broker, self.occurrences, tuple(sorted(self.context.items())))


def finding_id(rule_id: str, connection: bytes, sequence: int) -> str:
    """Name a finding by its rule, its connection and the first frame that offends."""
    digest = hashlib.blake2b(digest_size=12)
    digest.update(f"{rule_id}\n{connection.hex()}\n{sequence}".encode())
    return digest.hexdigest()


def printable(text: str) -> str:
    r"""Write text from the wire in one line: what would act on a terminal is escaped, as in `\n`."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def runbook_anchor(rule_id: str) -> str:
    """Where the runbook speaks of a rule, as a path in the repository."""
    return f"docs/runbook.md#{rule_id.replace('/', '')}"
