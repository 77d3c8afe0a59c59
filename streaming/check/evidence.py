"""Evidence: for each finding a small pcap that gives the same finding when it is checked by itself.

Its frames are kept by the same table as those that were judged. A finding is shown by its own connection
and, where its rule holds several against each other, by theirs. What else the connection carried is
left out where the finding stands without it; each file is checked before it is believed.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from decoders.frame.record import Kind, Record
from decoders.protocol import API_VERSIONS, SASL_HANDSHAKE
from decoders.schema.registry import Schemas
from decoders.wire.assembly import MAX_FRAME
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType
from decoders.wire.synthesis import RELAY_DELAY
from expectations.judging.finding import Finding
from expectations.judging.terms import Terms
from streaming.check.evidence_packets import keepable, packets_of
from streaming.check.examination import Examination, examine, records_of
from streaming.check.recording import Recording
from streaming.user_error import UserError

NEVER_ACKNOWLEDGED = 1 << 62
"""Nanoseconds: no client's segment acknowledges anything, so that nothing was surely sent after an answer."""
_DELAYS = (0, RELAY_DELAY, NEVER_ACKNOWLEDGED)
_ALWAYS_KEPT = (API_VERSIONS, SASL_HANDSHAKE)


class Source(NamedTuple):
    """The files of a capture, and how they were examined."""

    paths: Sequence[Path]
    schemas: Schemas
    ports: Sequence[int]
    terms: Terms
    max_frame: int = MAX_FRAME


def write_evidence(folder: Path, source: Source, examination: Examination) -> list[Finding]:
    """Write a pcap for each finding into a folder, which is made if it is not there.

    Gives the findings that no pcap shows again. Raises UserError when a file cannot be written.
    """
    wanted = set().union(*examination.companions.values())
    kept = _records_by_connection(source, wanted)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [
            finding
            for finding in examination.findings
            if not _write(folder, source, finding, _chosen(kept, examination.companions[finding.id]))
        ]
    except OSError as error:
        raise UserError(f"cannot write evidence into {folder}: {error.strerror}") from error


def evidence_name(finding: Finding) -> str:
    """Name a finding's pcap by its rule and its id."""
    return f"{finding.rule.replace('/', '-')}-{finding.id}.pcap"


def _records_by_connection(source: Source, wanted: set[str]) -> Mapping[str, list[Record]]:
    kept: dict[str, list[Record]] = {connection: [] for connection in wanted}
    recording = Recording(source.paths)
    records, _ = records_of(source.schemas, recording, source.ports, recording.run, source.max_frame)
    for record in records:
        if record.connection.hex() in wanted:
            kept[record.connection.hex()].append(keepable(source.schemas, record))
    return kept


def _chosen(kept: Mapping[str, list[Record]], connections: Iterable[str]) -> list[Record]:
    records = [record for connection in connections for record in kept[connection]]
    return sorted(records, key=lambda record: record.sequence)


def _write(folder: Path, source: Source, finding: Finding, records: Sequence[Record]) -> bool:
    """Write the first candidate that gives the finding again; leave no file where none does."""
    path = folder / evidence_name(finding)
    for candidate in _candidates(finding, records):
        path.write_bytes(candidate)
        shown = examine(path, source.schemas, (), *source[3:]).findings
        if any(each.likeness() == finding.likeness() for each in shown):
            return True
    path.unlink(missing_ok=True)
    return False


def _candidates(finding: Finding, records: Sequence[Record]) -> Iterator[bytes]:
    """Give pcaps that may show a finding, the shortest first."""
    brief = list(_without_bystanders(finding, records))
    for chosen in (brief, records) if len(brief) < len(records) else (records,):
        for delay in _DELAYS:
            yield _pcap(chosen, delay)


def _without_bystanders(finding: Finding, records: Sequence[Record]) -> Iterator[Record]:
    """Leave out whole exchanges of other APIs, but for the first request of each connection."""
    apis = {finding.api_key, *_ALWAYS_KEPT}
    begun: set[bytes] = set()
    left_out: set[int] = set()
    answered = {record.paired_sequence for record in records}
    for record in records:
        if record.kind is Kind.REQUEST and record.connection not in begun:
            begun.add(record.connection)
        elif record.kind is Kind.REQUEST and record.sequence in answered and _api_key(record) not in apis:
            left_out.add(record.sequence)
            continue
        if record.paired_sequence not in left_out:
            yield record


def _api_key(request: Record) -> int:
    return int.from_bytes(request.frame[:2], signed=True)


def _pcap(records: Sequence[Record], acknowledgment_delay: int) -> bytes:
    stream = io.BytesIO()
    writer = PcapWriter(stream, LinkType.ETHERNET)
    for packet in packets_of(records, acknowledgment_delay):
        writer.write(packet)
    return stream.getvalue()
