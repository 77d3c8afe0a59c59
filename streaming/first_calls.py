"""The first call of each function that is compiled at its first call, for `kipwatch prepare`."""

from __future__ import annotations

import io

import pyarrow as pa

from decoders.codec.request import write_request
from decoders.frame.columnar.block import ID_BYTES
from decoders.frame.columnar.block_reading import BlockReader
from decoders.frame.columnar.block_writing import write_block
from decoders.frame.record import Endpoint, Kind, Record
from decoders.protocol import API_VERSIONS
from decoders.schema.registry import default_schemas
from decoders.wire.columnar.packets import read_batches
from decoders.wire.pcap import PcapReader, PcapWriter
from decoders.wire.segment import LinkType, Packet
from expectations.conversation.columnar.windows import Arrival, ColumnarWindows
from expectations.judging.automaton import Automaton
from expectations.judging.judge import Judge
from streaming.feeder.feeder import Feeder
from streaming.judging.bucket_input import by_bucket, pack_input, unpack_input
from streaming.judging.step import BucketStep
from streaming.settings.configuration import Configuration
from streaming.state.bucket import Bucket, pack_bucket


def call_all() -> None:
    """Do once what `check`, a feeder and the query do."""
    Feeder(Configuration(), run=0)
    _read_a_packet()
    _judge_a_request()


def _read_a_packet() -> None:
    """Read a capture file, which compiles how its packets are found."""
    file = io.BytesIO()
    PcapWriter(file, LinkType.ETHERNET).write(Packet(0, LinkType.ETHERNET, b"", 0))
    file.seek(0)
    list(read_batches(PcapReader(file)))


def _judge_a_request() -> None:
    """Judge a request as the query does, which compiles what is compiled at its first call."""
    schemas, judge = default_schemas(), Judge({})
    frame = write_request(schemas, API_VERSIONS, 0, 0, None, {})
    client, server = Endpoint("127.0.0.1:1"), Endpoint("127.0.0.1:2")
    request = Record(Kind.REQUEST, bytes(ID_BYTES), 0, 1, 1, client, server, frame=frame)
    (opened,) = BlockReader(schemas.digest).read([write_block([request], schemas.digest)])
    arrival = Arrival.of_topic(opened, pa.array(["frames"]), pa.array([0]), pa.array([0]))
    columns = ColumnarWindows(schemas, bytes(16)).columns_of(arrival)
    step, bucket = BucketStep(judge, schemas.by_key, automaton=Automaton(judge, bytes(16))), Bucket()
    for part in by_bucket(columns, 1).values():
        step.process(0, bucket, [unpack_input(pack_input(part)).columns()])
    pack_bucket(bucket)
