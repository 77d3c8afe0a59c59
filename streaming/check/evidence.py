"""Evidence: for each finding a small pcap from which `check` makes the same finding again.

Frames are cut by the same table as in the feeder; those of TLS are written as plaintext. A pcap holds the
connection of the finding and, if the rule compares several connections, those too. Exchanges that the finding
does not need are left out. Each file is checked before it is kept. A finding that depends on named ports
needs the same `--ports` again.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
from streaming.check.examination import Examination, Through, examine, records_of
from streaming.check.recording import Recording
from streaming.feeder.key_log_files import read_key_logs
from streaming.settings.private_file import open_private
from streaming.user_error import UserError

if TYPE_CHECKING:
    from streaming.archive.capture_archive import CaptureArchive

NEVER_ACKNOWLEDGED = 1 << 62
"""Nanoseconds: no client acknowledges anything, so no request is known to follow a response."""
_DELAYS = (0, RELAY_DELAY, NEVER_ACKNOWLEDGED)
NEAREST = 6
"""Companions that suffice for most findings. A client may have thousands."""
_ALWAYS_KEPT = (API_VERSIONS, SASL_HANDSHAKE)


class CheckedCapture(NamedTuple):
    """The files of a capture, and the parameters of their examination."""

    paths: Sequence[Path]
    schemas: Schemas
    ports: Sequence[int]
    terms: Terms
    max_frame: int = MAX_FRAME
    key_logs: Sequence[Path] = ()

    def examine(self, through: Through = iter, archive: CaptureArchive | None = None) -> Examination:
        """Judge the capture, as the function `examine` does."""
        paths, schemas, ports, terms, max_frame, key_logs = self
        return examine(
            paths, schemas, ports, terms, max_frame, key_logs=key_logs, through=through, archive=archive
        )


def write_evidence(folder: Path, capture: CheckedCapture, examination: Examination) -> list[Finding]:
    """Write a pcap for each finding into a folder, which is created if necessary.

    Returns the findings that no pcap shows again. Raises UserError if a file cannot be written.
    """
    wanted = set().union(*examination.companions.values())
    kept = _records_by_connection(capture, wanted)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [
            finding
            for finding in examination.findings
            if not _is_written(folder, capture, finding, kept, examination.companions[finding.id])
        ]
    except OSError as error:
        raise UserError(f"cannot write evidence into {folder}: {error.strerror}") from error


def evidence_name(finding: Finding) -> str:
    """Return the file name of a finding's pcap: its rule and ID."""
    return f"{finding.rule.replace('/', '-')}-{finding.id}.pcap"


def _records_by_connection(capture: CheckedCapture, wanted: set[str]) -> Mapping[str, list[Record]]:
    kept: dict[str, list[Record]] = {connection: [] for connection in wanted}
    key_log = read_key_logs(capture.key_logs)
    recording = Recording(capture.paths, key_log)
    records, _ = records_of(
        capture.schemas, recording, capture.ports, recording.run, capture.max_frame, key_log=key_log
    )
    for record in records:
        if record.connection.hex() in wanted:
            kept[record.connection.hex()].append(keepable(capture.schemas, record))
    return kept


def _chosen(kept: Mapping[str, list[Record]], connections: Iterable[str]) -> list[Record]:
    records = [record for connection in connections for record in kept[connection]]
    return sorted(records, key=lambda record: record.sequence)


def _is_written(
    folder: Path,
    capture: CheckedCapture,
    finding: Finding,
    kept: Mapping[str, list[Record]],
    companions: Sequence[str],
) -> bool:
    """Write what shows a finding: its nearest companions, or all of them if those do not."""
    return any(
        _write(folder, capture, finding, _chosen(kept, companions[:count]))
        for count in dict.fromkeys((NEAREST, max(NEAREST, len(companions))))
    )


def _write(folder: Path, capture: CheckedCapture, finding: Finding, records: Sequence[Record]) -> bool:
    """Write the first candidate that shows the finding again; leave no file if none does."""
    path = folder / evidence_name(finding)
    for candidate in _candidates(finding, records):
        with open_private(path) as file:
            file.write(candidate)
        for ports in dict.fromkeys([(), tuple(capture.ports)]):
            shown = examine(path, capture.schemas, ports, capture.terms, capture.max_frame).findings
            if any(each.likeness() == finding.likeness() for each in shown):
                return True
    path.unlink(missing_ok=True)
    return False


def _candidates(finding: Finding, records: Sequence[Record]) -> Iterator[bytes]:
    """Yield pcaps that may show a finding, the smallest first."""
    brief = list(_without_bystanders(finding, records))
    for chosen in (brief, records) if len(brief) < len(records) else (records,):
        for delay in _DELAYS:
            yield _pcap(chosen, delay)


def _without_bystanders(finding: Finding, records: Sequence[Record]) -> Iterator[Record]:
    """Leave out exchanges of other APIs, except the first request of each connection."""
    apis = {finding.api_key, *_ALWAYS_KEPT}
    started: set[bytes] = set()
    left_out: set[int] = set()
    paired = {record.paired_sequence for record in records}
    for record in records:
        if record.kind is Kind.REQUEST and record.connection not in started:
            started.add(record.connection)
        elif record.kind is Kind.REQUEST and record.sequence in paired and _api_key(record) not in apis:
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
