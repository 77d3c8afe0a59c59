"""What a check of one or several captures comes to: the object that `check --json` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from expectations.finding import Finding
from expectations.report.coverage import Coverage, added_up
from expectations.report.fleet import Client
from streaming.examination import Examination
from streaming.suppression import Ruling, Suppressed, SuppressionUse

Examined = Sequence[tuple[Path, Examination]]


class FileSummary(msgspec.Struct, frozen=True):
    """One capture. Numbers are counts; `findings` counts the suppressed ones too."""

    file: str
    frames: int
    connections: int
    findings: int
    truncated: bool


class Summary(msgspec.Struct, frozen=True):
    """All captures together.

    `findings` are those that count; `suppressed` stand apart, each with the suppression it fell under.
    `suppressions` tell how often each matched, `disabled` which rules were off and have no `coverage`.
    `ledger` holds bytes by fate, `packets` counts by kind, `undecodable` counts frames by reason, `opaque`
    connections that are not Kafka; `truncated` tells that a file ends inside a packet.
    """

    findings: list[Finding]
    suppressed: list[Suppressed]
    suppressions: list[SuppressionUse]
    disabled: list[str]
    coverage: list[Coverage]
    clients: list[Client]
    files: list[FileSummary]
    frames: int
    connections: int
    truncated: bool
    undecodable: dict[str, int]
    opaque: int
    ledger: dict[str, int]
    packets: dict[str, int]


def summary_of(examined: Examined, ruling: Ruling, disabled: Sequence[str]) -> Summary:
    """Add up. The last examination's clients are those of all, as the same audience heard them."""
    all_ = [examination for _, examination in examined]
    return Summary(
        findings=ruling.findings,
        suppressed=ruling.suppressed,
        suppressions=ruling.suppressions,
        disabled=list(disabled),
        coverage=added_up(examination.coverage for examination in all_),
        clients=all_[-1].clients,
        files=[_of_file(path, examination) for path, examination in examined],
        frames=sum(examination.frames for examination in all_),
        connections=sum(examination.connections for examination in all_),
        truncated=any(examination.truncated for examination in all_),
        undecodable=_total([examination.undecodable for examination in all_]),
        opaque=sum(examination.opaque for examination in all_),
        ledger=_total([examination.ledger for examination in all_]),
        packets=_total([examination.packets for examination in all_]),
    )


def _of_file(path: Path, examination: Examination) -> FileSummary:
    return FileSummary(
        file=str(path),
        frames=examination.frames,
        connections=examination.connections,
        findings=len(examination.findings),
        truncated=examination.truncated,
    )


def _total(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)
