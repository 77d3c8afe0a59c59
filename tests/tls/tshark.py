"""Kafka over TLS as tshark reads it, with the same key log: an independent reader of the same capture."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from decoders.codec.request import read_request
from decoders.frame.record import Kind, Record
from decoders.schema.registry import default_schemas
from decoders.wire.pcap import read_capture
from streaming.check.examination import records_of
from streaming.feeder.key_log_files import read_key_logs

FIELDS: Final = (
    "tcp.srcport",
    "tcp.dstport",
    "kafka.request_key",
    "kafka.request.version",
    "kafka.correlation_id",
)


class Unit(NamedTuple):
    """A request, or a response, of which tshark names API and version only if it has found the request."""

    client_port: int
    correlation_id: int
    request: tuple[int, int] | None
    """API key and version."""


def assert_tshark_reads_the_same(capture: Path, key_log: Path, ports: Iterable[int]) -> None:
    """Compare all requests and responses of the ports' connections, all of which speak TLS."""
    watched = list(ports)
    units, expected = read_by_kipwatch(capture, key_log, watched), read_by_tshark(capture, key_log, watched)
    unread, invented = expected - units, units - expected
    assert (unread, invented) == (Counter(), Counter()), f"unread: {unread}, invented: {invented}"
    assert units


def read_by_tshark(capture: Path, key_log: Path, ports: Iterable[int]) -> Counter[Unit]:
    """A packet that completes several requests or responses has several values in a field."""
    command = ["tshark", "-n", "-r", str(capture), "-o", f"tls.keylog_file:{key_log}", "-Y", "kafka"]
    for port in ports:
        command += ["-d", f"tcp.port=={port},tls", "-d", f"tls.port=={port},kafka"]
    command += ["-T", "fields", *(part for field in FIELDS for part in ("-e", field))]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    return Counter(unit for line in output.splitlines() for unit in _units(line.split("\t")))


def _units(fields: list[str]) -> Iterator[Unit]:
    values = [[int(value) for value in field.split(",") if value] for field in fields]
    (source,), (destination,), keys, versions, correlation_ids = values
    if not keys:
        yield from (Unit(destination, each, None) for each in correlation_ids)
        return
    for correlation_id, request in zip(correlation_ids, zip(keys, versions, strict=True), strict=True):
        yield Unit(source, correlation_id, request)


def read_by_kipwatch(capture: Path, key_log: Path, ports: Iterable[int]) -> Counter[Unit]:
    with capture.open("rb") as stream:
        packets = read_capture(stream)
        records = records_of(default_schemas(), packets, ports, 1, key_log=read_key_logs([key_log]))
        return Counter(_unit(record) for record in records if record.kind in (Kind.REQUEST, Kind.RESPONSE))


def _unit(record: Record) -> Unit:
    client_port = int(record.client.rpartition(":")[2])
    if record.kind is Kind.RESPONSE:
        return Unit(client_port, int.from_bytes(record.frame[:4], signed=True), None)
    request = read_request(default_schemas(), record.frame, cut=record.is_cut)
    assert request.correlation_id is not None
    return Unit(client_port, request.correlation_id, (request.api_key, request.api_version))
