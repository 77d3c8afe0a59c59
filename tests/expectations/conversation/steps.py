"""What a client, a broker or the network does next: the steps of invented conversations on one connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

from decoders.frame.record import Direction, Kind, Pairing, Record
from tests.exchange import ID_A, ID_B, SOFTWARE, ZERO_ID, Exchange, advertisement

PRODUCE_V2 = bytes.fromhex("0000000200000009ffff")
LEFT_OVER = bytes.fromhex("001200000000000100036170700102")


def cut_beat(exchange: Exchange, epoch: int) -> None:
    """A heartbeat whose bytes were not all kept."""
    exchange.beat("A", epoch)
    exchange.cut_last(12)


def malform_name(exchange: Exchange) -> None:
    """A software name that is refused."""
    body = SOFTWARE | {"clientSoftwareName": "-x"}
    exchange.respond(exchange.request("ApiVersions", 4, body, client_id="app"), advertisement(42))


def answered(exchange: Exchange, error_code: int, **how: Any) -> None:
    """A request that is answered with an error code."""
    exchange.respond(exchange.request("OffsetDelete", 1, **how), {"errorCode": error_code})


def describe(exchange: Exchange, cluster_id: str) -> None:
    """A broker that tells of itself."""
    nodes = [{"nodeId": 3, "host": "10.0.0.2", "port": 9092}]
    body = {"clusterId": cluster_id, "brokers": nodes}
    exchange.respond(exchange.request("Metadata", 12, client_id="app"), body)


def mean(exchange: Exchange, error_code: int) -> None:
    """A client that means to reach a certain broker."""
    body = SOFTWARE | {"clusterId": "c", "nodeId": 3}
    exchange.respond(exchange.request("ApiVersions", 5, body, client_id="app"), advertisement(error_code))


def unsupported(exchange: Exchange) -> None:
    """A version of ApiVersions that the broker does not have."""
    body = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 3}]}
    exchange.respond(exchange.request("ApiVersions", 5, SOFTWARE, client_id="app"), body, version=0)


def not_listed(exchange: Exchange, error: int) -> None:
    exchange.respond(exchange.request("Heartbeat", 4, client_id="app", informed=True), {"errorCode": error})


def late_response(exchange: Exchange) -> None:
    """The response to a request that was sent long before."""
    waiting = [seen for seen in exchange.records if seen.frame[:4] == bytes((0, 3, 0, 14))]
    paired = {seen.paired_sequence for seen in exchange.records}
    for request in waiting:
        if request.sequence not in paired:
            exchange.respond(request, {"topics": [{"name": "t", "errorCode": 0}]})
            return


def beats(exchange: Exchange, times: int, member_id: str, epoch: int = 1, **told: Any) -> None:
    """Heartbeats that are answered, three seconds apart."""
    for _ in range(times):
        exchange.wait(3)
        exchange.respond(exchange.beat(member_id, epoch), {"heartbeatIntervalMs": 5000, **told})


def late_beat(exchange: Exchange) -> None:
    """The response to a heartbeat that was sent before."""
    paired = {seen.paired_sequence for seen in exchange.records}
    for request in exchange.records:
        is_beat = request.frame[:2] == (68).to_bytes(2) and request.kind is Kind.REQUEST
        if is_beat and not request.is_cut and request.sequence not in paired:
            exchange.respond(request, {"memberId": "A", "heartbeatIntervalMs": 5000})
            return


def odd(exchange: Exchange, request: Record, before: bytes, after: bytes) -> Record:
    """Encode a part of the latest request in another way."""
    frame = request.frame.replace(before, after, 1)
    exchange.records[-1] = msgspec.structs.replace(request, frame=frame, true_length=len(frame))
    return exchange.records[-1]


def in_latin_1(exchange: Exchange) -> None:
    """A client ID that is not UTF-8."""
    request = exchange.request("Metadata", 12, client_id="caffe")
    exchange.respond(odd(exchange, request, b"caffe", b"caf\xe9."))


def padded(exchange: Exchange) -> None:
    """Heartbeats whose header tags are counted in two bytes, and a response of that kind."""
    for _ in range(3):
        request = odd(exchange, exchange.beat("A", 1), b"app\x00", b"app\x80\x00")
        exchange.respond(request, {"memberId": "A"})
    response = exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    frame = response.frame[:4] + b"\x80\x00" + response.frame[5:]
    exchange.records[-1] = msgspec.structs.replace(response, frame=frame, true_length=len(frame))


STEPS: dict[str, Callable[[Exchange], object]] = {
    "plain": lambda exchange: exchange.request("Metadata", 14, instance_id=ID_A),
    "old header": lambda exchange: exchange.request("Metadata", 12, client_id="app"),
    "zero ID": lambda exchange: exchange.request("Metadata", 14, instance_id=ZERO_ID),
    "other ID, taken": lambda exchange: answered(exchange, 0, instance_id=ID_B),
    "other ID, refused": lambda exchange: answered(exchange, 42, instance_id=ID_B),
    "zero ID, taken": lambda exchange: answered(exchange, 0, instance_id=ZERO_ID),
    "plain, taken": lambda exchange: answered(exchange, 0, instance_id=ID_A),
    "late response": late_response,
    "telemetry": lambda exchange: exchange.respond(
        exchange.request("GetTelemetrySubscriptions", 0, client_id="app"), {}
    ),
    "other ID": lambda exchange: exchange.request("Metadata", 14, instance_id=ID_B),
    "repeat": lambda exchange: exchange.request("Metadata", 14, instance_id=ID_A, client_id="app"),
    "settled": lambda exchange: exchange.request("Metadata", 12, client_id="app", settled=True),
    "out of range": lambda exchange: exchange.request("Produce", 2, settled=True, frame=PRODUCE_V2),
    "informed": lambda exchange: not_listed(exchange, 0),
    "informed, refused": lambda exchange: not_listed(exchange, 35),
    "informed, no response": lambda exchange: exchange.request("Heartbeat", 4, informed=True),
    "gap to client": lambda exchange: exchange.gap(Direction.TO_CLIENT),
    "beat A": lambda exchange: exchange.beat("A", 1),
    "beat B": lambda exchange: exchange.beat("B", 1),
    "leave": lambda exchange: exchange.beat("A", -1),
    "response": lambda exchange: exchange.respond(exchange.beat("A", 1), {"memberId": "A"}),
    "A twice": lambda exchange: beats(exchange, 2, "A", memberId="A"),
    "B thrice": lambda exchange: beats(exchange, 3, "B", memberId="B"),
    "A joins twice": lambda exchange: beats(exchange, 2, "A", 0, memberId="A"),
    "A renamed B": lambda exchange: beats(exchange, 3, "A", memberId="B"),
    "nobody twice": lambda exchange: beats(exchange, 2, "", memberId="B"),
    "A refused": lambda exchange: beats(exchange, 2, "A", errorCode=25),
    "late beat": late_beat,
    "unreadable beat": lambda exchange: cut_beat(exchange, 1),
    "silence": lambda exchange: exchange.wait(6),
    "negotiate": lambda exchange: exchange.negotiate(client_id="app"),
    "malformed name": malform_name,
    "gap": lambda exchange: exchange.gap(),
    "wait": lambda exchange: exchange.wait(2),
    "describe c": lambda exchange: describe(exchange, "c"),
    "describe d": lambda exchange: describe(exchange, "d"),
    "mean c": lambda exchange: mean(exchange, 0),
    "misrouted": lambda exchange: mean(exchange, 129),
    "unsupported": unsupported,
    "leftover": lambda exchange: exchange.request("Metadata", 12, frame=LEFT_OVER),
    "oversized": lambda exchange: exchange.invalid_size(1 << 30),
    "in Latin-1": in_latin_1,
    "padded": padded,
    "foreign": lambda exchange: exchange.stray(Pairing.FOREIGN),
    "unowed": lambda exchange: exchange.stray(Pairing.UNOWED),
    "authenticate": lambda exchange: exchange.request("SaslHandshake", 1, client_id="app"),
}


BEATS = (
    "A twice",
    "B thrice",
    "A joins twice",
    "A renamed B",
    "A refused",
    "beat A",
    "beat B",
    "leave",
    "late beat",
    "unreadable beat",
    "silence",
    "gap",
    "plain, taken",
)
SCRIPTS = st.lists(st.sampled_from(sorted(STEPS)), max_size=40) | st.lists(
    st.sampled_from(BEATS), max_size=15
)
