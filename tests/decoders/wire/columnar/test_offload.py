"""A connection that is offloaded and restored has the same state, and no attribute can be forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from decoders.tls.key_log import KeyLog
from decoders.tls.receiver import Receiver
from decoders.tls.records import RecordReader
from decoders.wire.chunk import Chunk
from decoders.wire.closing import ClosingSides
from decoders.wire.columnar.flows import Flows
from decoders.wire.columnar.offload import offload, restore
from decoders.wire.connection import Connection
from decoders.wire.decryption import Decryption
from decoders.wire.framing import Assembly, AssemblySnapshot, Framer, FramerState
from decoders.wire.kafka_layer import KafkaLayer, Opacity
from decoders.wire.pairing import LatestApiVersions, RequestsInFlight
from decoders.wire.principal import PrincipalReader
from decoders.wire.record_stream import RecordStream
from decoders.wire.recorder import FrameRecorder
from decoders.wire.stream import Stream
from decoders.wire.tracker import Tracker
from decoders.wire.transport import Transport
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.columnar.equality import packets_between
from tests.decoders.wire.conversation import EVENTS, SCHEMAS
from tests.decoders.wire.encrypted import encrypted

PERMANENT = {
    Connection: {
        "client",
        "server",
        "client_syn",
        "_recorder",
        "ledger",
        "_transport",
        "_kafka",
        "decryption",
    },
    Transport: {"_is_proven", "_ledger", "_wait", "closing_sides"},
    ClosingSides: {"_closed_at"},
    KafkaLayer: {
        "_detector",
        "_ledger",
        "_recorder",
        "_principal_reader",
        "_framers",
        "_frame_recorder",
        "_opacity",
    },
    PrincipalReader: {"_schemas"},
    FrameRecorder: {"_detector", "_recorder", "in_flight", "api_versions"},
    LatestApiVersions: {"_in_flight", "_acknowledged_by"},
    Opacity: {
        "_detector",
        "_ledger",
        "_recorder",
        "_decrypts",
        "_no_request",
        "_other_protocol",
        "is_encrypted",
    },
    Framer: {
        "_opaque_reason",
        "_ledger",
        "_opens",
        "_resumes",
        "_is_other_protocol",
        "_other_protocol_reason",
        "_max_frame",
    },
    Stream: {
        "_ledger",
        "_acknowledged",
        "_acknowledged_at",
        "is_heard",
        "_chunks",
        "held",
        "_doubted_at",
    },
    RequestsInFlight: set[str](),
    Assembly: {"_max_frame"},
    Decryption: {
        "_keeps_subject",
        "_key_log",
        "_ledger",
        "_session",
        "_beginning",
        "_is_read",
        "_latest",
        "_waits_since",
    },
    RecordStream: {"_lost"},
    RecordReader: {"_next_begin"},
    Receiver: {"_suite", "_secret", "protection", "_messages", "_skipped", "_attempts", "has_begun"},
}
"""Set by the constructor, or unchanged while the connection is offloaded."""
EMPTY = {
    Connection: {"is_closed", "_offered_syn"},
    Transport: {"ending", "_early", "_reset", "_syn_data"},
    ClosingSides: {"_notified_by"},
    KafkaLayer: set[str](),
    PrincipalReader: {"_mechanism"},
    FrameRecorder: {"expects_tokens"},
    LatestApiVersions: set[str](),
    Opacity: {"awaits_client", "is_excluded"},
    Framer: {"_candidate", "_candidate_chunks"},
    Stream: {"_unsure"},
    RequestsInFlight: set[str](),
    Assembly: set[str](),
    Decryption: {"is_over", "_opening", "_awaiting", "_held", "_held_cost"},
    RecordStream: set[str](),
    RecordReader: {"is_seeking", "dropped"},
    Receiver: set[str](),
}
"""False, None, zero or empty in every connection that can be offloaded."""
COPIED = {
    Connection: {"last_seen_at", "_last_position", "standing", "counted_held"},
    Transport: {"streams", "_awaits_syn"},
    ClosingSides: {"closers"},
    KafkaLayer: set[str](),
    PrincipalReader: set[str](),
    FrameRecorder: set[str](),
    LatestApiVersions: {"response"},
    Opacity: {"is_kafka"},
    Framer: {"_assembly", "state"},
    Stream: {"next_offset", "next_sequence", "_end"},
    RequestsInFlight: {
        "_queue",
        "_ids",
        "_in_order",
        "_latest",
        "_last_before_loss",
        "_ids_repeat",
        "_highest_id",
        "_turn",
    },
    Assembly: {"size", "_first", "_bytes", "_passed"},
    Decryption: {"_streams"},
    RecordStream: {"_reader", "_sources"},
    RecordReader: {"offset", "_buffer"},
    Receiver: {"number"},
}


def ordinary_connections() -> list[Connection]:
    """The same conversation, in plaintext and over TLS, after packets after which it can be offloaded."""
    found = []
    for suite in (None, SUITES[0], SUITES[3]):
        writer = TlsWriter(*suite or SUITES[0])
        packets = packets_between(encrypted(EVENTS, writer, 90) if suite else EVENTS, segment=50)
        for count in range(1, len(packets), 1 if suite is None else 5):
            key_log = KeyLog() if suite else None
            if key_log is not None:
                key_log.add(writer.key_log)
            tracker = Tracker(SCHEMAS, ports={9092}, run=7, key_log=key_log, keeps_principals=True)
            for packet in packets[:count]:
                tracker.feed(packet)
            found += [connection for connection in tracker.connections if connection.can_be_offloaded]
    return found


ORDINARY = ordinary_connections()


def parts(connection: Connection) -> list[Any]:
    kafka, decryption = connection._kafka, connection.decryption
    frame_recorder = kafka._frame_recorder
    framers = list(kafka._framers.values())
    assemblies = [framer._assembly for framer in framers if framer._assembly]
    of_tls: list[Any] = []
    if decryption is not None:
        receivers = [decryption.receiver(direction) for direction in decryption._streams]
        streams = decryption._streams.values()
        of_tls = [decryption, *streams, *(stream._reader for stream in streams), *receivers]
    return [
        connection,
        kafka,
        kafka._principal_reader,
        kafka._opacity,
        frame_recorder,
        frame_recorder.in_flight,
        frame_recorder.api_versions,
        *framers,
        connection._transport,
        *connection._transport.streams.values(),
        connection._transport.closing_sides,
        *assemblies,
        *of_tls,
    ]


def test_each_attribute_is_copied_or_there_is_a_reason() -> None:
    seen = set()
    for part in (part for connection in ORDINARY for part in parts(connection)):
        kind = type(part)
        assert vars(part).keys() == PERMANENT[kind] | EMPTY[kind] | COPIED[kind]
        assert not any(getattr(part, name) for name in EMPTY[kind])
        seen.add(kind)
    assert seen == COPIED.keys()


def test_a_flow_restores_the_state_that_was_offloaded() -> None:
    with_requests = with_frames = with_records = 0
    for connection in ORDINARY:
        before, flows = connection.snapshot(), Flows()
        assembled = offload(connection, flows, flows.acquire(), True, 1)
        assert assembled is not None
        data = np.frombuffer(bytearray(b"".join(assembled)), np.uint8)
        for direction, piece in enumerate(assembled):
            row = flows.streams[0, direction]
            row["start"], row["filled"] = direction * len(assembled[0]), len(piece)
        restore(flows, 0, connection, data)
        assert connection.snapshot() == before
        with_requests += bool(before.kafka.in_flight.requests)
        with_frames += any(before.kafka.frames.values())
        with_records += before.records is not None and any(before.records.held.values())
    assert with_requests
    assert with_frames
    assert with_records


@pytest.mark.parametrize("size", range(9))
def test_an_assembly_continues_from_a_snapshot(size: int) -> None:
    content = (8).to_bytes(4) + bytes(range(4))
    chunk = Chunk(0, content[:size], 5, 6, 7, starts_segment=True)
    assembly = Assembly(chunk, 100)
    assembly.add(content[: min(size, 4)])
    assembly.add(content[4:size])
    snapshot = assembly.snapshot()
    assert isinstance(snapshot, AssemblySnapshot)
    assert Assembly.of(snapshot, 100).snapshot() == snapshot
    assert Assembly.of(snapshot, 100).wanted == assembly.wanted


def test_a_connection_that_seeks_a_boundary_cannot_be_offloaded() -> None:
    framers = [framer for connection in ORDINARY for framer in connection._kafka._framers.values()]
    assert all(framer.state is not FramerState.SEEKING for framer in framers)
