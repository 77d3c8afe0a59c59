"""What the findings on one listener tell, whichever connections they are about."""

from __future__ import annotations

from pathlib import Path

from decoders.schema.registry import default_schemas
from expectations.judging.finding import Finding
from streaming.check.examination import examine

Told = tuple[object, ...]
PLACES = frozenset({"client", "broker", "address", "addresses", "correlation_id"})
"""Keys of a context that say which connection a finding is about, or which request."""


def told(capture: Path, address: str, key_log: Path) -> set[Told]:
    """Return rule, party, software and details of each finding about one listener."""
    port = int(address.rpartition(":")[2])
    judged = examine(capture, default_schemas(), [port], key_logs=[key_log])
    assert judged.frames
    assert (judged.undecodable, judged.opaque) == ({}, 0)
    return {_told(finding) for finding in judged.findings}


def _told(finding: Finding) -> Told:
    context = sorted(item for item in finding.context.items() if item[0] not in PLACES)
    software = (finding.client_id, finding.client_software_name, finding.client_software_version)
    details = (finding.api, finding.api_version, finding.expected, finding.observed, *context)
    return (finding.rule, finding.level, finding.role, *software, *details)
