"""The summary of a check: the object that `check --json` prints."""

from __future__ import annotations

import msgspec

from expectations.judging.finding import Finding
from expectations.report.client import Client
from expectations.report.coverage import Coverage
from expectations.report.tables import counted
from streaming.check.examination import Examination, FileRead
from streaming.settings.decisions import Decisions, SuppressionUse


class Summary(msgspec.Struct, frozen=True):
    """All files together.

    `findings` are those that count; `suppressed` findings are separate, each with its suppression.
    `suppressions` holds how often each matched, `disabled` the rules without `coverage`. `ledger` holds bytes
    by fate, `packets` packets by kind, `undecodable` frames by reason, `opaque` the number of connections
    that are not Kafka. `truncated` says that a file ends inside a packet.
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


def frame_counts(file: FileRead) -> str:
    """Return the numbers of frames and connections of a file as text."""
    return f"{counted(file.frames, 'frame')} on {counted(file.connections, 'connection')}"


def summary_of(examination: Examination, decisions: Decisions) -> Summary:
    """Summarize an examination under the decisions of users."""
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
