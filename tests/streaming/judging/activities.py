"""Random activities of connections: what they say, under which IDs, and how batches cut through it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace

from decoders.frame.record import Record
from expectations.conversation.observation import Window
from expectations.conversation.texts import RESERVED_UUIDS, ZERO_UUID, identifier_text
from tests.exchange import ID_A, ID_B, Exchange
from tests.expectations.conversation.steps import BEATS, STEPS, beats
from tests.streaming.judging.travelling import on, windows

IDS = (b"a", b"b", b"c", b"d", b"e", b"f")


# In Kafka's form, and in every other form that rules distinguish.
ORDINARY = ("8zQ4pXkCTt2cYd0sVhGm1A", "u1nGfQ5lT8-7bDk_QzWq3w", "aaaaaaaaaaaaaaaaaaaaaa")
MEMBERS = st.one_of(
    st.permutations(ORDINARY),
    st.permutations([identifier_text(ID_A), *ORDINARY[:2]]),
    st.permutations(
        ["A", "B", ZERO_UUID, identifier_text(ID_A), ID_B.hex(), ORDINARY[0], ORDINARY[0] + "=="]
    ),
)


CLIENTS = st.permutations(["app", "another app", ""])
INSTANCES = st.permutations([ID_A, ID_B, bytes(range(32, 48)), RESERVED_UUIDS[1]])


class Names(NamedTuple):
    """The IDs of two members, of two clients and of two client instances."""

    members: Sequence[str] = ORDINARY
    clients: Sequence[str] = ("app", "other app")
    instances: Sequence[bytes] = (ID_A, ID_B)


OPENINGS: list[dict[str, Any]] = [
    {"client_id": "app"},
    {},
    {"client_id": "other"},
    {"version": 6, "client_id": "app", "instance_id": ID_A},
    {"version": 6, "instance_id": ID_B},
]
OPENING = st.sampled_from([0, 0, 0, *range(len(OPENINGS))])
NAMES_OF_ONE = st.builds(Names, MEMBERS, CLIENTS, INSTANCES)


class Renamed(Exchange):
    """An exchange with IDs of its own, for members A and B, clients app and other, and both instances."""

    def __init__(self, names: Names, mid_stream: bool) -> None:
        super().__init__(mid_stream=mid_stream)
        self._texts = dict(zip(["A", "B"], names.members, strict=False))
        self._clients = dict(zip(["app", "other"], names.clients, strict=False))
        self._instances = dict(zip([ID_A, ID_B], names.instances, strict=False))
        self._texts |= {identifier_text(old): identifier_text(new) for old, new in self._instances.items()}

    def request(self, api: str, version: int, body: dict[str, Any] | None = None, **how: Any) -> Record:
        how["client_id"] = self._clients.get(how.get("client_id", ""), how.get("client_id"))
        how["instance_id"] = self._instances.get(how.get("instance_id", b""), how.get("instance_id"))
        return super().request(api, version, self._renamed(body), **how)

    def respond(self, request: Record, body: dict[str, Any] | None = None, **how: Any) -> Record:
        return super().respond(request, self._renamed(body), **how)

    def _renamed(self, body: dict[str, Any] | None) -> dict[str, Any] | None:
        fields = body or {}
        named = {name: fields[name] for name in ("memberId", "clientInstanceId") if fields.get(name)}
        return body and body | {name: self._texts.get(text, text) for name, text in named.items()}


def fetch(exchange: Exchange, **how: Any) -> None:
    exchange.respond(exchange.request("Fetch", 12, client_id="app", **how), {})


def look_up(exchange: Exchange, **how: Any) -> None:
    exchange.respond(exchange.request("FindCoordinator", 7, **how), {})


def commit(exchange: Exchange) -> None:
    exchange.respond(exchange.request("OffsetCommit", 8, client_id="app"), {})


def long_poll(exchange: Exchange) -> None:
    """The response to an earlier fetch, and the next fetch."""
    paired = {seen.paired_sequence for seen in exchange.records}
    waiting = [seen for seen in exchange.records if seen.frame[:2] == (1).to_bytes(2)]
    for request in waiting:
        if request.sequence not in paired:
            exchange.respond(request, {})
            break
    exchange.request("Fetch", 12, client_id="app", settled=True)


def write_unacknowledged(exchange: Exchange) -> None:
    exchange.request("Produce", 9, {"acks": 0}, client_id="app")


def learn_id(exchange: Exchange) -> None:
    request = exchange.request("GetTelemetrySubscriptions", 0, client_id="app", instance_id=ID_A)
    exchange.respond(request, {"clientInstanceId": identifier_text(ID_B)})
    push = {"clientInstanceId": identifier_text(ID_B)}
    exchange.respond(exchange.request("PushTelemetry", 0, push, client_id="app"), {})


ACTIVITIES: dict[str, Callable[[Exchange], object]] = {
    "fetch": fetch,
    "fetch, settled": lambda exchange: fetch(exchange, settled=True),
    "fetch, informed": lambda exchange: fetch(exchange, informed=True),
    "not listed": lambda exchange: exchange.respond(exchange.request("Heartbeat", 4, informed=True), {}),
    "look up": lambda exchange: look_up(exchange, instance_id=ID_A),
    "look up with other ID": lambda exchange: look_up(exchange, instance_id=ID_B),
    "look up with both": lambda exchange: look_up(exchange, instance_id=ID_A, client_id="app"),
    "fetch as other": lambda exchange: exchange.respond(exchange.request("Fetch", 12, client_id="other"), {}),
    "learn ID": learn_id,
    "commit": commit,
    "long poll": long_poll,
    "unacknowledged": write_unacknowledged,
}


def of_another_group(exchange: Exchange) -> None:
    for _ in range(2):
        body = {"groupId": "h", "memberId": "A", "memberEpoch": 1}
        request = exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app")
        exchange.respond(request, {"memberId": "A", "heartbeatIntervalMs": 5000})


def beats_with_id(exchange: Exchange, member_id: str) -> None:
    for _ in range(2):
        body = {"groupId": "g", "memberId": member_id, "memberEpoch": 1}
        request = exchange.request("ConsumerGroupHeartbeat", 2, body, instance_id=ID_A)
        exchange.respond(request, {"memberId": member_id, "heartbeatIntervalMs": 5000})


def out_of_turn(exchange: Exchange, *order: int) -> None:
    """Two heartbeats and then both responses, which have different intervals."""
    requests = exchange.beat("A", 1), exchange.beat("A", 1)
    for number, interval in zip(order, (5000, 3000), strict=True):
        exchange.respond(requests[number], {"memberId": "A", "heartbeatIntervalMs": interval})


def in_turn(exchange: Exchange, *steps: Callable[[Exchange], object]) -> None:
    for step in steps:
        step(exchange)


FOUR_FRAMES: dict[str, Callable[[Exchange], object]] = {
    "A twice": STEPS["A twice"],
    "A joins twice": STEPS["A joins twice"],
    "A refused": STEPS["A refused"],
    "A renamed B twice": lambda exchange: beats(exchange, 2, "A", memberId="B"),
    "A unnamed twice": lambda exchange: beats(exchange, 2, "A", memberId=None),
    "B twice": lambda exchange: beats(exchange, 2, "B", memberId="B"),
    "of another group": of_another_group,
    "together": lambda exchange: out_of_turn(exchange, 0, 1),
    "crosswise": lambda exchange: out_of_turn(exchange, 1, 0),
    "with ID twice": lambda exchange: (ACTIVITIES["look up"](exchange), ACTIVITIES["look up"](exchange)),
    "with other ID": lambda exchange: in_turn(exchange, fetch, ACTIVITIES["look up with other ID"]),
    "as other": lambda exchange: in_turn(exchange, fetch, ACTIVITIES["fetch as other"]),
    "learn ID": learn_id,
    "A with ID twice": lambda exchange: beats_with_id(exchange, "A"),
    "ID with ID twice": lambda exchange: beats_with_id(exchange, identifier_text(ID_A)),
}
"""Activities of four frames each."""
FOUR_FRAME_STEPS = st.lists(st.tuples(st.sampled_from([*FOUR_FRAMES]), st.integers(1, 3)), max_size=4).map(
    lambda runs: [activity for activity, times in runs for _ in range(times)]
)
STEADY = st.lists(st.sampled_from([*ACTIVITIES, "A twice", "A twice", "response", "wait"]), max_size=40)
ANYTHING = st.lists(st.sampled_from([*ACTIVITIES, *STEPS]), max_size=40)
HEARTBEATS = st.lists(st.sampled_from(["A twice", "response", *BEATS]), max_size=20)
SHORT = st.lists(st.sampled_from([*ACTIVITIES, *STEPS]), max_size=8)


def exchange_of(
    activities: Sequence[str],
    mid_stream: bool,
    names: Names | None = None,
    opening: int = 0,
    is_closed: bool = False,
) -> Exchange:
    """What a connection says that performs these activities."""
    exchange = Renamed(names or Names(), mid_stream)
    if not mid_stream:
        exchange.negotiate(**OPENINGS[opening])
    for activity in activities:
        (ACTIVITIES | STEPS | FOUR_FRAMES)[activity](exchange)
    if is_closed:
        exchange.close()
    return exchange


def numbered(exchange: Exchange, place: int, count: int) -> Exchange:
    """Number the records as a run does in which `count` connections send in turns."""
    for at, record in enumerate(exchange.records):
        sequences = {"sequence": record.sequence, "paired_sequence": record.paired_sequence}
        counted = {name: number and number * count + place for name, number in sequences.items()}
        exchange.records[at] = replace(record, **counted)
    return exchange


def batches(exchanges: list[Exchange], size: int) -> Iterator[list[Window]]:
    """Cut what connections say at once into batches of so many records of each."""
    exchanges = [numbered(each, place, len(exchanges)) for place, each in enumerate(exchanges)]
    longest = max(len(exchange.records) for exchange in exchanges)
    for begin in range(0, longest, size):
        parts = zip(IDS, exchanges, strict=False)
        yield [one for name, exchange in parts for one in on(name, windows(exchange, begin, begin + size))]


def joining(client_id: str = "app", member_id: str = ORDINARY[0], group_id: str = "g") -> Exchange:
    exchange = Exchange()
    exchange.negotiate(client_id=client_id)
    for epoch in (0, 1):
        body = {"groupId": group_id, "memberId": member_id, "memberEpoch": epoch}
        request = exchange.request("ConsumerGroupHeartbeat", 1, body, client_id=client_id)
        exchange.respond(request, {"memberId": member_id, "memberEpoch": 1, "heartbeatIntervalMs": 5_000})
    return exchange


def fetching(client_id: str = "app", member_id: str = ORDINARY[0]) -> Exchange:
    exchange = joining(client_id, member_id)
    for _ in range(3):
        exchange.respond(exchange.request("Fetch", 12, client_id=client_id), {})
    return exchange


def rounds(exchanges: Sequence[Exchange], begin: int, size: int) -> list[list[Window]]:
    """A batch of the first records of each connection, up to `begin`, and then batches of `size` of each."""
    exchanges = [numbered(each, number, len(exchanges)) for number, each in enumerate(exchanges)]
    end = len(exchanges[0].records)
    return [
        [
            window
            for number, exchange in enumerate(exchanges, 1)
            for window in on(bytes([number]), windows(exchange, first, last))
        ]
        for first, last in itertools.pairwise([0, *range(begin, end, size), end])
    ]


def together(batches_of_windows: Iterable[list[Window]], count: int) -> list[list[list[Window]]]:
    """Let one step process so many batches at once."""
    left = iter(batches_of_windows)
    return [*iter(lambda: [*itertools.islice(left, count)], [])]


def opened(exchange: Exchange) -> Exchange:
    """Let the traffic after the negotiation begin in a new window."""
    exchange.records.insert(3, exchange.records[2])
    return exchange


def retimed(exchange: Exchange, gaps: list[int]) -> None:
    """Let the records follow each other after these times, in milliseconds."""
    at = exchange.records[0].captured_at
    for place, (record, gap) in enumerate(zip(exchange.records, gaps, strict=True)):
        at += gap * 1_000_000
        exchange.records[place] = replace(record, captured_at=at)
