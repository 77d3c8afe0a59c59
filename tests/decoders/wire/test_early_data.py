"""Early data (0-RTT) of OpenSSL: it is not read, what follows is, and nobody is accused."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from decoders.frame.record import Kind
from decoders.schema.registry import default_schemas
from decoders.tls.outcome import TlsOutcome
from decoders.wire.ledger import SkipReason
from decoders.wire.segment import Packet
from streaming.check.examination import examine
from streaming.record.relay import Relay
from tests.decoders.tls.recorded import WAIT, certificate, openssl_server
from tests.decoders.wire.columnar.equality import placed
from tests.decoders.wire.conversation import (
    api_versions,
    api_versions_response,
    frames_in,
    metadata,
    metadata_response,
    of_kind,
    prefixed,
)
from tests.decoders.wire.encrypted import both
from tests.streaming.captures import write_packets

EARLY, LATER = api_versions(1), metadata(2)
RESPONSES = api_versions_response(1), metadata_response(2)
RECORD_OVERHEAD = 5 + 1 + 16
"""Bytes that TLS 1.3 adds to a record: header, type and tag."""


def test_behind_early_data_a_connection_is_read(tmp_path: Path) -> None:
    keys, session, packets, port = tmp_path / "keys", tmp_path / "session", list[Packet](), 0
    with (
        openssl_server(certificate(tmp_path), "-tls1_3", "-early_data") as (server, target),
        Relay(("127.0.0.1", target), packets.extend) as relay,
    ):
        port = relay.address[1]
        with client(port, "-sess_out", str(session)):
            wait_for(lambda: session.exists() and b"END" in session.read_bytes())
        packets.clear()
        (tmp_path / "early").write_bytes(prefixed(EARLY))
        options = ["-sess_in", str(session), "-early_data", str(tmp_path / "early")]
        with client(port, *options, "-keylogfile", str(keys)) as second:
            until(server.stdout, prefixed(EARLY))
            write(server.stdin, prefixed(RESPONSES[0]))
            until(second.stdout, prefixed(RESPONSES[0]))
            write(second.stdin, prefixed(LATER))
            until(server.stdout, prefixed(LATER))
            write(server.stdin, prefixed(RESPONSES[1]))
            until(second.stdout, prefixed(RESPONSES[1]))
    records, ledger = both(placed(packets), keys.read_text(), ports={port})
    assert [frame for _, frame in frames_in(records)] == [RESPONSES[0], LATER, RESPONSES[1]]
    assert not of_kind(records, Kind.NOT_KAFKA) + of_kind(records, Kind.INVALID_SIZE)
    assert ledger.tls == {TlsOutcome.READ: 1}
    assert ledger.skipped[SkipReason.ENCRYPTED] >= len(prefixed(EARLY)) + RECORD_OVERHEAD
    judged = examine(
        write_packets(tmp_path / "early.pcap", packets), default_schemas(), [port], key_logs=[keys]
    )
    assert judged.findings == []


@contextlib.contextmanager
def client(port: int, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start OpenSSL's test client, which sends what it reads on standard input; leaving ends it."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *options]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait(WAIT)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def write(stream: IO[bytes] | None, data: bytes) -> None:
    assert stream is not None
    stream.write(data)
    stream.flush()


def until(stream: IO[bytes] | None, expected: bytes) -> None:
    """Read until some bytes have come."""
    assert stream is not None
    read, deadline = b"", time.monotonic() + WAIT
    while expected not in read:
        assert time.monotonic() < deadline, read
        if select.select([stream], [], [], WAIT)[0]:
            chunk = os.read(stream.fileno(), 1 << 16)
            assert chunk, read
            read += chunk
