"""A mark in the first request of each Kafka connection of this process, by which a capture shows whose it is.

librdkafka opens some connections for less than a millisecond: a reader of the process's sockets may come too
late, but the packets are in the capture. Each connection begins with an ApiVersions request, which carries
the version of the client software (KIP-511); the mark is a part of that version.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from importlib.metadata import version

import numpy as np

from decoders.protocol import API_VERSIONS
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import Segment, SocketAddress, read_segment
from streaming.settings.kafka_client import Setting

_SOFTWARE = "kipwatch-feeder"
_BYTES = 12
"""Random bytes of a mark: nobody else's request has it by chance, or guesses it in order to stay unseen."""
_API_KEY = slice(4, 6)
"""Of a request, behind the size of the frame."""


class OwnMark:
    """A mark that this process alone uses. Connections whose packets are encrypted do not show it."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(_BYTES)
        self._pattern = re.compile(self._mark.encode())

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings of librdkafka by which a client carries the mark."""
        return {
            "client.software.name": _SOFTWARE,
            "client.software.version": f"{version('kipwatch')}-{self._mark}",
        }

    def connections(self, packets: PacketBatch) -> Iterator[frozenset[SocketAddress]]:
        """Yield the two ends of each connection whose first request is among these packets, with the mark."""
        # One search of all bytes: it costs less than to look at the packets.
        for found in self._pattern.finditer(packets.data.data[: packets.used]):
            row = int(np.searchsorted(packets.starts, found.start(), "right")) - 1
            segment = read_segment(packets.packet(row)) if row >= 0 else None
            if isinstance(segment, Segment) and self._begins(segment.payload):
                yield frozenset((segment.source, segment.destination))

    def _begins(self, payload: bytes) -> bool:
        is_api_versions = int.from_bytes(payload[_API_KEY]) == API_VERSIONS
        return is_api_versions and self._pattern.search(payload) is not None
