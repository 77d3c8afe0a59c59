"""What a check comes to: the object that `check --json` prints."""

from __future__ import annotations

import msgspec

from expectations.judging.finding import Finding
from expectations.report.coverage import Coverage
from expectations.report.fleet import Client
from streaming.check.examination import Examination, FileRead
from streaming.settings.decisions import Decisions, SuppressionUse


class Summary(msgspec.Struct, frozen=True):
    """All files together.

    `findings` are those that count; `suppressed` stand apart, each with the suppression it falls under.
    `suppressions` tell how often each matched, `disabled` which rules were off and have no `coverage`.
    `ledger` holds bytes by fate, `packets` counts by kind, `undecodable` counts frames by reason, `opaque`
    connections that are not Kafka; `truncated` tells that a file ends inside a packet.
    """

    findings: list[Finding]
    suppressed: list[Finding]
    suppressions: list[SuppressionUse]
    disabled: list[str]
    coverage: list[Coverage]
    clients: list[Client]
    files: list[FileRead]
    frames: int
    connections: int
    truncated: bool
    undecodable: dict[str, int]
    opaque: int
    ledger: dict[str, int]
    packets: dict[str, int]


def told_of(file: FileRead) -> str:
    """Say what was read of a file."""
    return f"{file.frames} frames on {file.connections} connections"


def summary_of(examination: Examination, decisions: Decisions) -> Summary:
    """Put it together."""
    findings = examination.findings
    return Summary(
        findings=[finding for finding in findings if not finding.suppressed],
        suppressed=[finding for finding in findings if finding.suppressed],
        suppressions=decisions.uses(findings),
        disabled=decisions.disabled,
        coverage=examination.coverage,
        clients=examination.clients,
        files=examination.files,
        frames=examination.frames,
        connections=examination.connections,
        truncated=examination.truncated,
        undecodable=examination.undecodable,
        opaque=examination.opaque,
        ledger=examination.ledger,
        packets=examination.packets,
    )
