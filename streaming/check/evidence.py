"""Evidence: for each finding a small pcap from which `check` makes the same finding again.

A pcap holds the connection of the finding and, if the rule compares several connections, those too, without
exchanges that the finding does not need. Each file is judged before it is kept. A finding that depends on
named ports needs the same `--ports` again.

Records become packets that yield the same records again when they are read. Frames are cut by the same table
as in the feeder; those of TLS are written as plaintext. No byte of a frame is invented: the packets of a cut
frame are cut as by a snap length, and lost bytes are missing from the sequence numbers. A protocol other than
Kafka is continued with bytes that begin no request.
"""

from __future__ import annotations

import io
import ipaddress
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from decoders.frame.cutting import blank, cut
from decoders.frame.record import Closing, Direction, Endpoint, Flag, Kind, Record
from decoders.protocol import API_VERSIONS, SASL_HANDSHAKE
from decoders.schema.registry import Schemas
from decoders.wire.closing import OTHER
from decoders.wire.framing import MAX_FRAME, SHORTEST_FRAME
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType, Packet, SocketAddress
from decoders.wire.synthesis import MAX_PAYLOAD, RELAY_DELAY, SyntheticConnection
from expectations.judging.finding import Finding
from expectations.judging.terms import Terms
from streaming.check.examination import Examination, examine, records_of
from streaming.check.recording import Recording, Through
from streaming.feeder.key_log_files import read_key_logs
from streaming.settings.confidential import open_private
from streaming.user_error import UserError

if TYPE_CHECKING:
    from streaming.archive.archive import CaptureArchive


NEVER_ACKNOWLEDGED = 1 << 62
"""In nanoseconds. No request is known to follow a response then, since nothing is acknowledged."""
_DELAYS = (0, RELAY_DELAY, NEVER_ACKNOWLEDGED)
NEAREST = (2, 6)
"""Related connections that suffice for most findings. A client may have thousands."""
_ALWAYS_KEPT = (API_VERSIONS, SASL_HANDSHAKE)
_PREFIX = struct.Struct(">I")
_NO_API_KEY = b"\xff\xff"


class CheckedCapture(NamedTuple):
    """The files of a capture, and the parameters of their examination."""

    paths: Sequence[Path]
    schemas: Schemas
    ports: Sequence[int]
    terms: Terms
    max_frame: int = MAX_FRAME
    key_logs: Sequence[Path] = ()
    keeps_principals: bool = False

    def examine(self, through: Through = iter, archive: CaptureArchive | None = None) -> Examination:
        """Judge the capture, as the function `examine` does."""
        return examine(**self._asdict(), through=through, archive=archive)


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
    records = records_of(
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
    """Write a pcap of the finding's nearest companions, or of all if those do not show it."""
    everyone = len(companions)
    return any(
        _write(folder, capture, finding, _chosen(kept, companions[:count]))
        for count in (*(each for each in NEAREST if each < everyone), everyone)
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


def keepable(schemas: Schemas, record: Record) -> Record:
    """Return the record with its frame cut to what may be kept, such that cutting it again changes nothing.

    If cutting the cut frame would change it, its guarded fields are blanked instead and the rest is kept.
    """
    kept = cut(schemas, record)
    return kept if cut(schemas, kept).frame == kept.frame else blank(schemas, record)


def packets_of(records: Sequence[Record], acknowledgment_delay: int) -> list[Packet]:
    """Return the packets of several connections, whose records are in the order of their sequence.

    The delay, in nanoseconds, is that of the client's acknowledgments.
    """
    connections: dict[bytes, _Replica] = {}
    packets: list[Packet] = []
    foreign = {record.connection for record in records if record.kind is Kind.NOT_KAFKA}
    for record in records:
        if record.kind is Kind.GAP and record.connection in foreign:
            # The other protocol causes the gap.
            continue
        if record.connection not in connections:
            connections[record.connection] = _Replica(record, acknowledgment_delay)
        packets.extend(connections[record.connection].packets(record))
    return packets


class _Replica:
    """One connection that is synthesized again from its records."""

    def __init__(self, first: Record, acknowledgment_delay: int) -> None:
        self._connection = SyntheticConnection(
            _socket_address(first.client),
            _socket_address(first.server),
            acknowledgment_delay=acknowledgment_delay,
        )
        self._invalid_size_in = Direction.NONE
        """The direction that has lost its frame boundary by an invalid size, until its gap."""

    def packets(self, record: Record) -> Sequence[Packet]:
        at, invalid_size_in = record.captured_at, self._invalid_size_in
        self._invalid_size_in = Direction.NONE
        match record.kind:
            case Kind.OPENED:
                return [] if Flag.MID_STREAM in record.flags else self._connection.opened(at)
            case Kind.CLOSED:
                return list(self._closed(record))
            case Kind.GAP:
                # The invalid size itself causes the gap.
                return [] if invalid_size_in is record.direction else self._lost(record)
            case Kind.INVALID_SIZE:
                return self._invalid_size(record)
            case Kind.NOT_KAFKA:
                return list(self._other_protocol(record))
            case _:
                return list(self._frame(record))

    def _closed(self, record: Record) -> Iterator[Packet]:
        first = record.direction or Direction.TO_BROKER
        if record.closing is Closing.RST:
            yield from self._connection.reset(record.captured_at, first)
        elif record.closing is Closing.FIN:
            yield from self._connection.finished(record.captured_at, first)
            yield from self._connection.finished(record.captured_at, OTHER[first])

    def _lost(self, record: Record) -> Sequence[Packet]:
        """Lose a byte that the other side acknowledges, so that a reader knows of the loss."""
        self._connection.sent(record.captured_at, record.direction, b"\0")
        return self._connection.acknowledged(record.captured_at, OTHER[record.direction])

    def _invalid_size(self, record: Record) -> Sequence[Packet]:
        size = record.true_length
        if size >= SHORTEST_FRAME:
            self._invalid_size_in = record.direction
        data = _PREFIX.pack(size) + bytes(size if size < SHORTEST_FRAME else 0)
        return self._connection.sent(record.captured_at, record.direction, data)

    def _other_protocol(self, record: Record) -> Iterator[Packet]:
        yield from self._connection.sent(record.captured_at, Direction.TO_BROKER, record.frame + _NO_API_KEY)
        if Flag.RESPONDED in record.flags:
            yield from self._connection.sent(record.captured_at, Direction.TO_CLIENT, b"\0")

    def _frame(self, record: Record) -> Iterator[Packet]:
        captured = _PREFIX.pack(record.true_length) + record.frame
        whole = captured.ljust(_PREFIX.size + record.true_length, b"\0")
        sent = self._connection.sent(record.captured_at, record.direction, whole)
        for start, packet in zip(range(0, len(whole), MAX_PAYLOAD), sent, strict=True):
            end = min(start + MAX_PAYLOAD, len(whole))
            missing = min(max(end - len(captured), 0), end - start)
            yield packet._replace(data=packet.data[: len(packet.data) - missing])


def _socket_address(endpoint: Endpoint) -> SocketAddress:
    host, _, port = endpoint.rpartition(":")
    return SocketAddress(ipaddress.ip_address(host.strip("[]")).packed, int(port))
