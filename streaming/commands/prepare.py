"""`kipwatch prepare`: fetch jars and compile, so that a first start needs no network and compiles nothing."""

from __future__ import annotations

import argparse
import io
from functools import partial
from importlib.util import find_spec

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
from streaming.broker.jars import jars
from streaming.feeder.feeder import Feeder
from streaming.judging.bucket_input import by_bucket, pack_input, unpack_input
from streaming.judging.step import BucketStep
from streaming.settings.configuration import Configuration
from streaming.state.bucket import Bucket, pack_bucket


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define no flags."""


def run(arguments: argparse.Namespace) -> int:
    """Fill the user cache with what is missing. Raises UserError if that fails."""
    say = partial(print, flush=True)
    if find_spec("pyspark") is None:
        say("kipwatch: the query is not installed, so no jars are fetched; kipwatch[run] has it")
    else:
        say("kipwatch: looking for Kafka's and Spark's jars in the user cache; missing ones are downloaded")
        jars("connector", say)
    say(
        "kipwatch: compiling into the user cache; this takes a minute the first time, and a second afterwards"
    )
    Feeder(Configuration(), run=0)
    _read_a_packet()
    _judge_a_request()
    return 0


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
