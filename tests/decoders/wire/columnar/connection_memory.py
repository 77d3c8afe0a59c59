"""Measures the memory of open connections in a feeder's tracker, and prints it as a JSON object.

`python -m tests.decoders.wire.columnar.connection_memory tls 50000`, or `plain`. Each connection has sent
ApiVersions and one more request, and has received both responses. Over TLS it has secrets of its own, in a
suite of TLS 1.2 or 1.3.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from pathlib import Path
from typing import Final

from decoders.tls.key_log import KeyLog
from decoders.tls.outcome import TlsOutcome
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import Packet, SocketAddress
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.columnar.equality import packets_between
from tests.decoders.wire.conversation import exchanges, new_columnar_tracker
from tests.decoders.wire.encrypted import encrypted

BATCH: Final = 100
"""Connections whose packets are read at once."""
WARM: Final = 10 * BATCH
"""Connections that are read before the first look at the memory."""
EVENTS: Final = exchanges(1)


def main() -> None:
    way, count = sys.argv[1], int(sys.argv[2])
    print(json.dumps(measure(count, over_tls=way == "tls")))


def measure(count: int, *, over_tls: bool) -> dict[str, int]:
    """Open a multiple of BATCH connections, and return the bytes that each of them takes."""
    key_log = KeyLog()
    tracker = new_columnar_tracker(key_log=key_log)
    before = 0
    for begin in range(0, count, BATCH):
        if begin == WARM:
            before = resident()
        tracker.feed(batch_of(range(begin, begin + BATCH), key_log, over_tls=over_tls))
    return {
        "open": int(tracker._totals["open"][0]),
        "read_over_tls": tracker.ledger.tls[TlsOutcome.READ],
        "bytes_per_connection": (resident() - before) // (count - WARM),
    }


def batch_of(numbers: range, key_log: KeyLog, *, over_tls: bool) -> PacketBatch:
    """Return the packets of some connections; their secrets are added to the key log."""
    return PacketBatch.of(
        packet for number in numbers for packet in packets_of(number, key_log, over_tls=over_tls)
    )


def packets_of(number: int, key_log: KeyLog, *, over_tls: bool) -> list[Packet]:
    """Return the packets of one connection, which stays open."""
    client = SocketAddress(bytes([10, *number.to_bytes(3)]), 40_000)
    if not over_tls:
        return packets_between(EVENTS, client, close=False)
    writer = TlsWriter(*SUITES[number % len(SUITES)], seed=number)
    key_log.add(writer.key_log)
    return packets_between(encrypted(EVENTS, writer), client, close=False)


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
