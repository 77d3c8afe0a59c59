"""Bench: what clients cost that say something new in each frame, beside clients that all say the same.

Their frames are read, packed, walked, judged and stored in this process, bucket by bucket as the query does.
A name of software that nobody said before makes a template that no transition knows, and frames in random
order lead to ever other facts; then the judge judges. Epochs and client IDs are only values of registers.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.record import Direction
from decoders.retention import MILLISECOND
from decoders.schema.registry import default_schemas
from decoders.wire.columnar.frames import FrameBatch, joined
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from expectations.conversation.columnar.windows import Arrival, ColumnarWindows
from expectations.conversation.texts import identifier_text
from expectations.judging.automaton import Automaton
from expectations.judging.judge import Judge
from streaming.bench import in_turns, report
from streaming.bench.synthetic_capture import prefixed
from streaming.bench.traffic import FIRST_CAPTURED_AT, MEMBER_ID, RANGES, SOFTWARE_NAME
from streaming.judging.bucket_input import by_bucket, pack_input, unpack_input
from streaming.judging.step import BucketStep
from streaming.state.bucket import pack_bucket, unpack_bucket

FRAMES: Final = 60_000
"""Requests and responses of each kind of client."""
BATCH: Final = 12_000
ROUNDS: Final = 5
BUCKETS: Final = 16
_PORT: Final = 9092
_BROKER: Final = SocketAddress(bytes([10, 9, 0, 1]), _PORT)
_OF_A_CONNECTION: Final = 10
"""Requests after the versions were negotiated."""
_APIS: Final = ("Metadata", "FindCoordinator", "ListGroups", "DescribeCluster")

_Frame = tuple[Direction, bytes]
_Speech = Callable[[int, Random], Iterator[_Frame]]
"""Yields the frames of a connection, given its number."""


def measure(frames: int = FRAMES) -> dict[str, Any]:
    """Measure; figures are microseconds of a processor for a frame of each kind of client, at best."""
    batches = {kind: list(joined(_captured(said, frames), BATCH)) for kind, said in KINDS.items()}
    seconds = in_turns({kind: partial(_judge, captured) for kind, captured in batches.items()}, ROUNDS)
    costs = {
        kind: min(seconds[kind]) / sum(len(batch.frames.starts) for batch in captured) * 1e6
        for kind, captured in batches.items()
    }
    hostile = {kind: cost / costs["ordinary"] for kind, cost in costs.items() if kind != "ordinary"}
    return report(
        "hostile",
        {f"{kind}_microseconds": cost for kind, cost in costs.items()},
        {f"{kind}_vs_ordinary": ratio for kind, ratio in hostile.items()},
    )


def _ordinary(number: int, seed: Random) -> Iterator[_Frame]:
    """A member that sends heartbeats."""
    yield from _negotiated("app", SOFTWARE_NAME)
    for correlation_id in range(2, 2 + _OF_A_CONNECTION):
        yield from _heartbeat(correlation_id, "app", MEMBER_ID, 5)


def _new_names(number: int, seed: Random) -> Iterator[_Frame]:
    """Each connection is another software, client and member, and sends one heartbeat."""
    name = f"name-{seed.getrandbits(64):x}"
    yield from _negotiated(name, name)
    yield from _heartbeat(2, name, _new_id(seed), 0)


def _new_members(number: int, seed: Random) -> Iterator[_Frame]:
    yield from _negotiated("app", SOFTWARE_NAME)
    for correlation_id in range(2, 2 + 4 * _OF_A_CONNECTION):
        yield from _heartbeat(correlation_id, "app", _new_id(seed), 0)


def _new_epochs(number: int, seed: Random) -> Iterator[_Frame]:
    yield from _negotiated("app", SOFTWARE_NAME)
    for correlation_id in range(2, 2 + _OF_A_CONNECTION):
        yield from _heartbeat(correlation_id, "app", MEMBER_ID, seed.getrandbits(30))


def _new_client_ids(number: int, seed: Random) -> Iterator[_Frame]:
    """Requests with ever other client IDs, and those of the negotiation, in random order."""
    sent = [*_negotiated("app", f"name-{seed.getrandbits(64):x}")]
    for correlation_id in range(2, 2 + _OF_A_CONNECTION):
        client_id = f"client-{seed.getrandbits(20):x}"
        sent.append(_request(seed.choice(_APIS), 1, correlation_id, client_id, {}))
    seed.shuffle(sent)
    yield from sent


KINDS: Final[dict[str, _Speech]] = {
    "ordinary": _ordinary,
    "new_names": _new_names,
    "new_members": _new_members,
    "new_epochs": _new_epochs,
    "new_client_ids": _new_client_ids,
}


def _judge(batches: list[FrameBatch]) -> None:
    schemas = default_schemas()
    judge = Judge(schemas.api_names)
    step = BucketStep(judge, schemas.by_key, automaton=Automaton(judge, secrets.token_bytes()))
    windows = ColumnarWindows(schemas, secrets.token_bytes())
    stored, contents = dict[int, bytes](), dict[int, bytes]()
    for batch in batches:
        columns = windows.columns_of(Arrival.of_file(batch, ""))
        for number, given in by_bucket(columns, BUCKETS).items():
            packed = pack_input(given)
            bucket = unpack_bucket(stored.get(number), partial(contents.get, number))
            step.process(number, bucket, [unpack_input(packed).columns()])
            stored[number], changed, _ = pack_bucket(bucket)
            if changed is not None:
                contents[number] = changed


def _captured(said: _Speech, frames: int) -> Iterator[FrameBatch]:
    """Yield the frames of as many connections as say at least so many."""
    tracker = ColumnarTracker(
        default_schemas(), ports=frozenset([_PORT]), run=1, secret=secrets.token_bytes()
    )
    number = count = 0
    while count < frames:
        batch = tracker.feed(PacketBatch.of(_packets(number, said(number, Random(number)))))
        number, count = number + 1, count + len(batch.frames.starts)
        yield batch
    yield tracker.finish()


def _packets(number: int, sent: Iterator[_Frame]) -> Iterator[Packet]:
    at = FIRST_CAPTURED_AT + number * MILLISECOND
    client = SocketAddress((0x0A0A_0000 + number).to_bytes(4), 40_000)
    connection = SyntheticConnection(client, _BROKER)
    yield from connection.opened(at)
    for direction, frame in sent:
        at += MILLISECOND
        yield from connection.sent(at, direction, prefixed(frame))
    yield from connection.finished(at, Direction.TO_BROKER)
    yield from connection.finished(at, Direction.TO_CLIENT)


def _negotiated(client_id: str, name: str) -> Iterator[_Frame]:
    software = {"clientSoftwareName": name, "clientSoftwareVersion": "1.0"}
    yield _request("ApiVersions", 3, 1, client_id, software)
    yield _response("ApiVersions", 3, 1, {"apiKeys": RANGES})


def _new_id(seed: Random) -> str:
    return identifier_text(seed.randbytes(16))


def _heartbeat(correlation_id: int, client_id: str, member_id: str, epoch: int) -> Iterator[_Frame]:
    body = {"groupId": "group", "memberId": member_id, "memberEpoch": epoch}
    yield _request("ConsumerGroupHeartbeat", 1, correlation_id, client_id, body)
    answer = {"memberId": member_id, "memberEpoch": max(epoch, 1), "heartbeatIntervalMs": 5_000}
    yield _response("ConsumerGroupHeartbeat", 1, correlation_id, answer)


def _request(api: str, version: int, correlation_id: int, client_id: str, body: Any) -> _Frame:
    return Direction.TO_BROKER, write_request(
        default_schemas(), api, version, correlation_id, client_id, body
    )


def _response(api: str, version: int, correlation_id: int, body: Any) -> _Frame:
    return Direction.TO_CLIENT, write_response(default_schemas(), api, version, correlation_id, body)
