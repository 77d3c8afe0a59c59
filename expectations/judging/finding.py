"""The finding: one offence on one connection, told so that a person can act on it.

This is a contract: topic, dashboards, reports and tests use these names. A finding is published
again under the same id with a higher count, so that storms stay small.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from decoders.schema.header_versions import Layout
from expectations.conversation.identifier import identifier_text
from expectations.conversation.observation import Evidence, SoftwareClaim
from expectations.rules.base.rule import Judgement, Rule


class Suppressed(msgspec.Struct, frozen=True):
    """Why users bear a finding, and until which day, in ISO 8601."""

    reason: str
    until: str

    def __str__(self) -> str:
        return f"until {self.until}: {self.reason}"


class Finding(msgspec.Struct, kw_only=True):
    """One offence, as it stands in the topic `kipwatch.findings`.

    Times (`captured_at` and the like) are nanoseconds since the epoch of the packet's capture.
    `message` is one line; `expected`, `observed` and `context` hold what was on the wire as it was.
    `sequence` is the frame's number in its run. `occurrences` counts what was seen so far.

    Two are left out where there is nothing to tell: `header_layout`, how request header 3 was seen to carry
    the instance ID on the connection, if one of KIP-1313's rules was broken there, and `suppressed`, where
    users have chosen to bear the finding.
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
    header_layout: Layout | msgspec.UnsetType = msgspec.UNSET
    suppressed: Suppressed | msgspec.UnsetType = msgspec.UNSET

    @property
    def demanded_by(self) -> str:
        """Name the place that demands otherwise, and the layout of header 3 that it was judged in."""
        place = f"{self.kip}, {self.section}"
        return f"{place}; header 3 in its {self.header_layout} layout" if self.header_layout else place

    def likeness(self) -> tuple[object, ...]:
        """What makes two findings of different sources the same: rule, 4-tuple, occurrences, context."""
        return (self.rule, self.client, self.broker, self.occurrences, tuple(sorted(self.context.items())))


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about: the frame that offends, and who spoke on its connection.

    `sequence` and `captured_at` are the frame's, `last_captured_at` that of the last one equal to it.
    """

    connection: bytes
    sequence: int
    captured_at: int
    last_captured_at: int
    evidence: Evidence
    api_key: int
    api_version: int
    correlation_id: int | None
    cluster: str
    client: str
    broker: str
    listener: str
    client_id: str | None
    software: SoftwareClaim | None
    instance_id: bytes | None
    member_id: str | None
    group_id: str | None


def finding_of(rule: Rule, judgement: Judgement, subject: Subject, api: str | None) -> Finding:
    """Tell of an offence. `api` names the subject's API, None where it has no name."""
    names = {"api": api or f"API {subject.api_key}", "version": subject.api_version}
    return Finding(
        id=finding_id(rule.id, subject.connection, subject.sequence),
        rule=rule.id,
        kip=rule.kip,
        section=rule.section,
        level=judgement.level or rule.level,
        role=judgement.role or rule.role,
        spec=rule.spec,
        message=printable(rule.message.format(**names, **judgement.context)),
        expected=judgement.expected,
        observed=judgement.observed,
        context=judgement.context,
        occurrences=judgement.count,
        first_captured_at=subject.captured_at,
        last_captured_at=subject.last_captured_at,
        cluster=subject.cluster,
        connection=subject.connection.hex(),
        client=subject.client,
        broker=subject.broker,
        listener=subject.listener,
        client_id=subject.client_id,
        client_software_name=subject.software.name if subject.software else None,
        client_software_version=subject.software.version if subject.software else None,
        client_instance_id=identifier_text(subject.instance_id) if subject.instance_id else None,
        member_id=subject.member_id,
        group_id=subject.group_id,
        api=api,
        api_key=subject.api_key,
        api_version=subject.api_version,
        correlation_id=subject.correlation_id,
        sequence=subject.sequence,
        captured_at=subject.captured_at,
        evidence=subject.evidence,
        runbook=runbook_anchor(rule.id),
    )


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
