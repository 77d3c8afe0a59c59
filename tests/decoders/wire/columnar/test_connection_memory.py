"""As many TLS connections as are followed take the memory that docs/tls.md states."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from decoders.wire.eviction import MAX_CONNECTIONS

PROGRAM = "tests.decoders.wire.columnar.connection_memory"
MOST = 32_000
"""Bytes of a connection."""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_connection_over_tls_takes_less_than_32_kilobytes() -> None:
    command = [sys.executable, "-m", PROGRAM, "tls", str(MAX_CONNECTIONS)]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=1700).stdout)
    assert (measured["open"], measured["read_over_tls"]) == (MAX_CONNECTIONS, MAX_CONNECTIONS)
    assert measured["bytes_per_connection"] < MOST
