"""Bench: the memory of a connection in the state, and the cost of idle connections.

Connections differ like those of real clients: IDs, addresses, client IDs, members, times. A million of them
are put into the state when their buckets are first loaded. A thousand active connections send ten frames each
in a batch, once with and once without the idle million.
"""

from __future__ import annotations

import itertools
import statistics
from functools import cache
from random import Random
from typing import Any, Final

import msgspec

from decoders.schema.registry import Schemas, default_schemas
from decoders.wire.columnar.frames import joined
from expectations.conversation.columnar.windows import Arrival, ColumnarWindows
from expectations.conversation.members import member_name
from expectations.conversation.texts import identifier_text
from expectations.judging.judge import ConnectionState, Judge, open_connection
from expectations.judging.terms import Terms
from streaming.bench import report
from streaming.bench.batches import Bench, MeasuredBatch
from streaming.bench.traffic import FRAMES_IN_ROUND, Traffic, connection_id
from streaming.judging.bucket_input import buckets_of
from streaming.query.stages import BucketProcessor
from streaming.state.bucket import Bucket, pack_bucket

IDLE: Final = 1_000_000
ACTIVE: Final = 1_000
BATCHES: Final = 12
OPENING: Final = 5_000
"""Connections that open first, so that every bucket is loaded."""
_ACTIVE_RUN, _OPENING_RUN, IDLE_RUN = 1, 2, 3
_CONNECTIONS_OF_A_BUCKET: Final = 244
_SECOND: Final = 1_000_000_000


def measure(idle: int = IDLE, batches: int = BATCHES) -> dict[str, Any]:
    """Measure; figures are bytes per connection and seconds per batch."""
    traffic = Traffic(default_schemas(), ACTIVE)
    with Bench() as bench:
        frames = bench.fill("frames", Traffic(default_schemas(), OPENING, _OPENING_RUN).opening())
        frames += bench.fill("frames", traffic.opening())
        # Each round in blocks of its own, as many as a batch reads.
        frames += sum(bench.fill("frames", traffic.round(number)) for number in range(batches))
        buckets = bench.configuration.buckets
        alone = bench.monitor("frames", frames, ACTIVE * FRAMES_IN_ROUND)
        beside = bench.monitor("frames", frames, ACTIVE * FRAMES_IN_ROUND, Crowded(buckets, idle))
    figures = {
        "bytes_per_connection": bytes_per_connection(),
        "batch_seconds_alone": _median(alone, batches),
        "batch_seconds_beside_idle": _median(beside, batches),
        "idle_connections": float(idle),
    }
    ratio = figures["batch_seconds_beside_idle"] / figures["batch_seconds_alone"]
    return report("state", figures, {"idle_million_vs_thousand": ratio})


def bytes_per_connection(count: int = _CONNECTIONS_OF_A_BUCKET) -> float:
    """Return the bytes per connection of a stored bucket of different connections."""
    bucket = Bucket()
    bucket.connections.put([distinct(connection_id(IDLE_RUN, number), number) for number in range(count)])
    return pack_bucket(bucket).size / count


class Crowded(BucketProcessor):
    """A processor whose buckets hold their share of idle connections from the beginning."""

    def __init__(self, buckets: int, idle: int) -> None:
        super().__init__(buckets, Terms())
        self._idle = idle

    def _load(self, number: int) -> Bucket:
        bucket = super()._load(number)
        if not bucket.scheduled:
            idle = _idle_by_bucket(self._idle, self._buckets).get(number, ())
            bucket.connections.put([distinct(connection_id(IDLE_RUN, each), each) for each in idle])
        return bucket


def distinct(connection: bytes, number: int) -> ConnectionState:
    """Make the state of a consumer after a while of traffic, unlike any other in its bucket."""
    random = Random(number)
    # The rules' states are typed by the catalogue, at run time.
    state: Any = _consumer(default_schemas())
    conversation = state.conversation
    name, member_id = f"orders-service-{random.randrange(10_000)}", _member(random)
    conversation.connection, conversation.client_id = connection, name
    host = ".".join(str(random.randrange(256)) for _ in range(3))
    conversation.client = f"10.{host}:{random.randrange(32_768, 60_999)}"
    first = msgspec.structs.replace(conversation.first_request, client_id=name)
    conversation.first_request = conversation.first_identified = first
    _rename_member(state, member_name("orders-service", member_id))
    (group,) = state.rules.kip1082_member_id_changed.groups.values()
    (member,) = conversation.members.known.values()
    group.member_id = member.assigned_id = member_id
    _shift(state, random.randrange(3_600 * _SECOND), random)
    made: ConnectionState = state
    return made


def _rename_member(state: Any, name: str) -> None:
    conversation, identities = state.conversation, state.identities
    ((old, _),) = conversation.members.known.items()
    for named in (conversation.members.known, conversation.progress.members, identities.members):
        named[name] = named.pop(old)


def _shift(state: ConnectionState, nanoseconds: int, random: Random) -> None:
    """Move all times of a connection."""
    conversation, progress, identities = state.conversation, state.conversation.progress, state.identities
    conversation.opened_at += nanoseconds
    progress.captured_at += nanoseconds + random.randrange(_SECOND)
    for shown in (progress.client, *progress.members.values()):
        assert shown is not None
        shown.until += nanoseconds + random.randrange(_SECOND)
        shown.before_until += nanoseconds
    for identity in (identities.client, *identities.members.values()):
        assert identity is not None
        identity.since += nanoseconds
        identity.claimed_until += nanoseconds


def _median(batches: list[MeasuredBatch], last: int) -> float:
    """Return the median of the last `last` batches, of active connections alone.

    The first two of them and the very last are left out.
    """
    return statistics.median(batch.seconds for batch in batches[-last + 2 : -1])


@cache
def _idle_by_bucket(idle: int, buckets: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    ids = b"".join(connection_id(IDLE_RUN, number) for number in range(idle))
    for number, bucket in enumerate(buckets_of(ids, buckets).tolist()):
        found.setdefault(bucket, []).append(number)
    return found


@cache
def _packed_consumer(schemas: Schemas) -> bytes:
    traffic = Traffic(schemas, 1)
    said = itertools.chain(traffic.opening(), *(traffic.round(number) for number in range(5)))
    (batch,) = joined(said, 1 << 62)
    (window,) = ColumnarWindows(schemas, bytes(8)).columns_of(Arrival.of_file(batch, "frames")).windows()
    state = open_connection(window.connection)
    Judge(schemas.api_names).judge(state, window)
    return msgspec.msgpack.encode(state)


def _consumer(schemas: Schemas) -> ConnectionState:
    return msgspec.msgpack.decode(_packed_consumer(schemas), type=ConnectionState)


def _member(random: Random) -> str:
    return identifier_text(random.randbytes(16))
