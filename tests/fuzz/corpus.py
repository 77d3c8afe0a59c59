"""Writes the corpus that fuzzing starts from: `python -m tests.fuzz.corpus`.

One small frame of each kind for the APIs that differ most, one packet of each link layer, and TLS handshakes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

from decoders.codec.program import compile_message
from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.schema.registry import Api, default_schemas
from decoders.wire.segment import LinkType
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.fuzz.invariants import ASKED, KINDS, Kind, a_packet, a_request, a_response, a_tls_stream
from tests.oracle import chance

FOLDER = Path(__file__).parent / "corpus"
SCHEMAS = default_schemas()
INSTANCE_ID = bytes(range(0x51, 0x61))
APIS = (
    ("Produce", 3),
    ("Produce", 13),
    ("Fetch", 18),
    ("ListOffsets", 1),
    ("Metadata", 13),
    ("Metadata", 14),
    ("JoinGroup", 5),
    ("SaslHandshake", 1),
    ("ApiVersions", 0),
    ("ApiVersions", 5),
    ("OffsetDelete", 1),
    ("DescribeClientQuotas", 1),
    ("ConsumerGroupHeartbeat", 1),
    ("GetTelemetrySubscriptions", 0),
    ("StreamsGroupHeartbeat", 1),
)
"""The types of the schema language, flexible and older versions, tagged fields, header 3."""


TCP = struct.pack(">HHIIBBHHH", 40000, 9092, 7, 9, 5 << 4, 0x18, 0, 0, 0) + b"kafka"
IP = (
    struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(TCP), 0, 0x4000, 64, 6, 0)
    + bytes([10, 0, 0, 1, 10, 0, 0, 2])
    + TCP
)
LINK_LAYERS = {
    LinkType.RAW: b"",
    LinkType.LOOP: struct.pack(">I", 2),
    LinkType.ETHERNET: bytes(12) + struct.pack(">HHH", 0x8100, 5, 0x0800),
    LinkType.LINUX_SLL: bytes(14) + struct.pack(">H", 0x0800),
    LinkType.LINUX_SLL2: struct.pack(">H", 0x0800) + bytes(18),
}


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield each input of the corpus with its name."""
    for name, version in APIS:
        api = SCHEMAS.api_named(name)
        assert api is not None
        yield f"{name}-{version}-request", _of(a_request) + _request(api, version)
        yield f"{name}-{version}-response", _of(a_response) + _response(api, version)

    for link_type, layer in LINK_LAYERS.items():
        of = bytes([list(LinkType).index(link_type)])
        yield f"packet-{link_type.name.lower()}", _of(a_packet) + of + layer + IP

    for version, suite in SUITES:
        for number, (side, flight) in enumerate(TlsWriter(version, suite).handshake()):
            yield f"tls-{suite:04x}-flight-{number}", _of(a_tls_stream) + bytes([side]) + flight


def _of(kind: Kind) -> bytes:
    return bytes([KINDS.index(kind)])


def _request(api: Api, version: int) -> bytes:
    body = chance.body(Random(version), compile_message(api.request, version))
    instance_id = INSTANCE_ID if api.request_header_version(version) == 3 else None
    return write_request(SCHEMAS, api.key, version, 7, "cid", body, instance_id)


def _response(api: Api, version: int) -> bytes:
    body = chance.body(Random(version), compile_message(api.response, version))
    return ASKED.pack(api.key, version) + write_response(SCHEMAS, api.key, version, 7, body)


def main() -> None:
    """Replace the contents of the folder."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    for name, data in seeds():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
