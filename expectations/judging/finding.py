"""The finding: one offence on one connection, with what a person needs to act on it.

Its names are a contract: topic, dashboards, reports and tests use them. A finding is published again under
the same ID with a higher count, so that storms stay small.
"""

from __future__ import annotations

import hashlib

import msgspec

from decoders.frame.record import node_of, workload_of
from decoders.schema.header_versions import Layout
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Evidence, Observation
from expectations.conversation.texts import bounded, identifier_text, printable
from expectations.identity.claim import Claim
from expectations.rules.base.rule import Judgement, Rule

LONGEST_LINE = 1_024
"""Characters of a finding's message and of each value of its context."""


class PublishedEvidence(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Where the offending frame is stored, and its first bytes in hex.

    In a capture file: its name, the byte `position` of the packet and, in a report, its number, counted from
    1. In a topic: its name, the `partition` and the `offset` of the block, and the `row` in that, from 0.
    """

    source: str
    bytes: str
    position: int | None = None
    partition: int | None = None
    offset: int | None = None
    row: int | None = None
    packet: int | None = None

    @classmethod
    def of(cls, evidence: Evidence) -> PublishedEvidence:
        """Write evidence as findings publish it."""
        return cls(
            source=evidence.source,
            bytes=evidence.beginning.hex(),
            position=evidence.position,
            partition=evidence.partition,
            offset=evidence.offset,
            row=evidence.row,
        )


class Suppressed(msgspec.Struct, frozen=True):
    """Why users suppress a finding, and until which day, in ISO 8601."""

    reason: str
    until: str

    def __str__(self) -> str:
        return f"until {self.until}: {self.reason}"


class Finding(msgspec.Struct, kw_only=True):
    """One offence, as published in the topic `kipwatch.findings`.

    Times (`captured_at` and the like) are those of the packet's capture, in nanoseconds since the epoch.
    `message` is one line; `expected`, `observed` and `context` hold values as they were on the wire.
    `sequence` is the frame's number in its run. `occurrences` counts the offences seen so far.

    Six fields are absent where they do not apply: `principal`, the name under which the client has logged
    in, where it is not known, or not kept; `workload`, namespace and workload in Kubernetes, and `node`,
    where no feeder knows the pod, `workload` also where the client uses the node's address; `owner` where
    users name no owners, and null where the client is nobody's; `header_layout`, how request header 3 carries
    the instance ID on the connection, is given with KIP-1313's rules; `suppressed` where users suppress the
    finding.
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
    principal: str | msgspec.UnsetType = msgspec.UNSET
    workload: str | msgspec.UnsetType = msgspec.UNSET
    node: str | msgspec.UnsetType = msgspec.UNSET
    owner: str | msgspec.UnsetType | None = msgspec.UNSET
    api: str | None
    api_key: int | None
    api_version: int | None
    correlation_id: int | None
    sequence: int
    captured_at: int
    evidence: PublishedEvidence
    runbook: str
    header_layout: Layout | msgspec.UnsetType = msgspec.UNSET
    suppressed: Suppressed | msgspec.UnsetType = msgspec.UNSET

    @property
    def software(self) -> tuple[str | None, str | None]:
        """The name and version of the client software, as far as known."""
        return self.client_software_name, self.client_software_version

    @property
    def demanded_by(self) -> str:
        """The place of the requirement, and the layout of header 3 that the frame was judged in."""
        place = f"{self.kip}, {self.section}"
        return f"{place}; header 3 in its {self.header_layout} layout" if self.header_layout else place

    def likeness(self) -> tuple[object, ...]:
        """What the same findings of different sources share: rule, 4-tuple, occurrences, context."""
        return (self.rule, self.client, self.broker, self.occurrences, tuple(sorted(self.context.items())))


def finding_of(
    rule: Rule,
    judgement: Judgement,
    frame: Observation | Claim,
    user: Conversation | Claim,
    *,
    api: str | None,
    cluster: str,
    listener: str,
    captured_at: int,
    last_captured_at: int,
    correlation_id: int | None,
    member_id: str | None,
    group_id: str | None,
) -> Finding:
    """Build the finding of an offence: of the offending `frame`, by the `user` of its connection.

    `api` is the name of the frame's API, None if it is unknown. `captured_at` is the frame's,
    `last_captured_at` that of the last folded one. Raises ValueError for a judgement whose context has a name
    that is the frame's.
    """
    assert frame.evidence is not None
    names = {"api": api or f"API {frame.api_key}", "version": frame.api_version}
    if reserved := sorted(names.keys() & judgement.context.keys()):
        raise ValueError(f"{rule.id}: {', '.join(reserved)} in a context: the message has it from the frame")
    return Finding(
        id=finding_id(rule.id, user.connection, frame.first_sequence),
        rule=rule.id,
        kip=rule.kip,
        section=rule.section,
        level=judgement.level or rule.level,
        role=judgement.role or rule.role,
        spec=rule.spec,
        message=printable(bounded(rule.message.format(**names, **judgement.context), LONGEST_LINE)),
        expected=bounded(judgement.expected, LONGEST_LINE),
        observed=bounded(judgement.observed, LONGEST_LINE),
        context={name: bounded(value, LONGEST_LINE) for name, value in judgement.context.items()},
        occurrences=judgement.count,
        first_captured_at=captured_at,
        last_captured_at=last_captured_at,
        cluster=cluster,
        connection=user.connection.hex(),
        client=user.client,
        broker=user.server,
        listener=listener,
        client_id=user.client_id,
        client_software_name=user.software.name if user.software else None,
        client_software_version=user.software.version if user.software else None,
        client_instance_id=identifier_text(user.instance_id) if user.instance_id else None,
        member_id=member_id,
        group_id=group_id,
        principal=user.principal or msgspec.UNSET,
        workload=workload_of(user.placement) or msgspec.UNSET,
        node=node_of(user.placement) or msgspec.UNSET,
        api=api,
        api_key=_known(frame.api_key),
        api_version=_known(frame.api_version),
        correlation_id=correlation_id,
        sequence=frame.first_sequence,
        captured_at=captured_at,
        evidence=PublishedEvidence.of(frame.evidence),
        runbook=runbook_anchor(rule),
    )


def _known(number: int) -> int | None:
    """Return an API key or version, None for the -1 that stands for an unknown one."""
    return None if number < 0 else number


def finding_id(rule_id: str, connection: bytes, sequence: int) -> str:
    """Hash the rule, the connection and the first offending frame to the ID of a finding."""
    digest = hashlib.blake2b(digest_size=12)
    digest.update(f"{rule_id}\n{connection.hex()}\n{sequence}".encode())
    return digest.hexdigest()


def runbook_anchor(rule: Rule) -> str:
    """Return the place of a rule in its runbook: a path in the repository, or the address of a pack's."""
    return f"{rule.runbook}#{rule.id.replace('/', '')}"
