"""A script: what is sent on which connection, how it becomes packets, and how it is judged.

A step is a value, so a mutator makes a mutant by replacing one. Two seconds pass between two steps,
enough for a client to have certainly read every response.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.cutting import cut
from decoders.frame.record import Direction
from decoders.schema.registry import Api, default_schemas
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from decoders.wire.tracker import Tracker
from expectations.judging.outcome import Outcome
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import read_choices, rules_read_as
from tests.exchange import SECOND, ZERO_ID, Exchange

SCHEMAS = default_schemas()
SERVER_PORT = 9092
INTERVAL = 2.0
"""Seconds between two steps."""
HURRY = 0.001
"""Seconds between two steps of a client that wastes no time."""
FIRST, SECOND_ONE = "one", "two"
"""The names of the connections."""

Alteration = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Ask:
    """A request and its response, None if it gets none.

    `alter` and `alter_response` change the frames that the fields make. `response_version` is that of
    the response's body, if it is not the request's.
    """

    api: str
    version: int
    body: Mapping[str, Any] = field(default_factory=dict)
    response: Mapping[str, Any] | None = field(default_factory=dict)
    client_id: str | None = "app"
    instance_id: bytes = ZERO_ID
    on: str = FIRST
    response_version: int | None = None
    alter: Alteration | None = None
    alter_response: Alteration | None = None
    after: float = INTERVAL

    @property
    def known(self) -> Api:
        """The API in the schemas."""
        api = SCHEMAS.api_named(self.api)
        assert api is not None
        return api

    @property
    def header(self) -> int:
        """The request header that the version calls for."""
        return self.known.request_header_version(self.version)

    def request_frame(self, correlation_id: int) -> bytes:
        """Write the request's frame."""
        instance_id = self.instance_id if self.header == 3 else None
        frame = write_request(
            SCHEMAS, self.api, self.version, correlation_id, self.client_id, self.body, instance_id
        )
        return self.alter(frame) if self.alter else frame

    def response_frame(self, correlation_id: int) -> bytes | None:
        """Write the response's frame, None if there is none."""
        if self.response is None:
            return None
        version = self.version if self.response_version is None else self.response_version
        frame = write_response(SCHEMAS, self.api, version, correlation_id, self.response)
        return self.alter_response(frame) if self.alter_response else frame


@dataclass(frozen=True)
class Send:
    """Bytes in one direction that are no frame of the schemas, with or without a length prefix."""

    direction: Direction
    data: bytes
    on: str = FIRST
    after: float = INTERVAL


@dataclass(frozen=True)
class Close:
    """Both sides end the connection, the sender of `by` first."""

    by: Direction = Direction.TO_BROKER
    on: str = FIRST
    after: float = INTERVAL


Step = Ask | Send | Close


@dataclass(frozen=True)
class Script:
    """Steps in their order, the readings they are judged by, and hosts of clients and servers by connection.

    `counted` names the connection whose correlation IDs a connection goes on with, if it counts no own ones.
    If a script has a `focus`, mutators break only the step at that place.
    """

    name: str
    steps: tuple[Step, ...]
    readings: tuple[str, ...] = ()
    hosts: Mapping[str, int] = field(default_factory=dict)
    servers: Mapping[str, int] = field(default_factory=dict)
    counted: Mapping[str, str] = field(default_factory=dict)
    focus: int | None = None

    def asks(self, on: str | None = None) -> Iterator[tuple[int, Ask]]:
        """The requests, of one connection or of all, each with its place."""
        for place, step in enumerate(self.steps):
            if isinstance(step, Ask) and on in (None, step.on):
                yield place, step

    def targets(self) -> Iterator[tuple[int, Ask]]:
        """The requests that are to be broken, each with its place."""
        return ((place, ask) for place, ask in self.asks() if self.focus in (None, place))

    def before(self, place: int) -> list[Ask]:
        """The requests on the connection of a step that come before it."""
        return [ask for earlier, ask in self.asks(self.steps[place].on) if earlier < place]

    def changed(self, place: int, **changes: Any) -> Script:
        """This script with one step changed."""
        return self.put(place, dataclasses.replace(self.steps[place], **changes))

    def put(self, place: int, *steps: Step) -> Script:
        """This script with other steps in the place of one."""
        return dataclasses.replace(self, steps=self.steps[:place] + steps + self.steps[place + 1 :])

    def each(self, change: Callable[[Ask], Ask]) -> Script:
        """This script with every request changed."""
        steps = (change(step) if isinstance(step, Ask) else step for step in self.steps)
        return dataclasses.replace(self, steps=tuple(steps))

    def broken_off(self, place: int, by: Direction = Direction.TO_BROKER, **changes: Any) -> Script:
        """This script up to a step, which is changed; then all connections are closed."""
        last = dataclasses.replace(self.steps[place], **changes)
        others = sorted({step.on for step in self.steps[:place]} - {last.on})
        left = [Close(on=name) for name in others if not self._is_closed(name, place)]
        return dataclasses.replace(self, steps=(*self.steps[:place], last, Close(by, last.on), *left))

    def hurried(self) -> Script:
        """This script without pauses, so that no request in it is settled."""
        return dataclasses.replace(
            self, steps=tuple(dataclasses.replace(step, after=HURRY) for step in self.steps)
        )

    def is_in_turn(self, place: int) -> bool:
        """Whether a request expects a response, and comes after the response to the one before it."""
        asks = [*self.before(place), self.steps[place]]
        return all(isinstance(step, Ask) and step.response is not None for step in asks[-2:])

    def read_as(self, *readings: str) -> Script:
        """This script, judged by other readings."""
        return dataclasses.replace(self, readings=readings)

    def judge(self) -> Outcome:
        """Perform the script and judge its packets as `kipwatch check` does."""
        exchange, rules = self.performed()
        return exchange.judge(rules=rules)

    def performed(self) -> tuple[Exchange, Sequence[Rule]]:
        """Perform the script. Returns the exchange of its packets and the rules in their readings."""
        tracker = Tracker(SCHEMAS, ports=frozenset({SERVER_PORT}), run=1)
        records = [record for packet in Performance(self).packets() for record in tracker.feed(packet)]
        exchange = Exchange()
        exchange.records = [cut(SCHEMAS, record) for record in [*records, *tracker.finish()]]
        return exchange, rules_read_as(read_choices(self.readings))

    def _is_closed(self, name: str, place: int) -> bool:
        return any(isinstance(step, Close) and step.on == name for step in self.steps[:place])


class Performance:
    """One performance of a script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._at = 1_000 * SECOND
        self._connections: dict[str, SyntheticConnection] = {}
        self._correlation_ids: dict[str, int] = {}
        self._packets: list[Packet] = []

    def packets(self) -> list[Packet]:
        """Perform it."""
        for step in self._script.steps:
            self._at += int(step.after * SECOND)
            connection = self._connection(step.on)
            match step:
                case Ask():
                    self._ask(step, connection)
                case Send(direction, data):
                    self._packets += connection.sent(self._at, direction, data)
                case Close(by):
                    for direction in (by, _opposite(by)):
                        self._packets += connection.finished(self._at, direction)
        return self._packets

    def _ask(self, ask: Ask, connection: SyntheticConnection) -> None:
        counted = self._script.counted.get(ask.on, ask.on)
        correlation_id = self._correlation_ids[counted] = self._correlation_ids.get(counted, 0) + 1
        request, response = ask.request_frame(correlation_id), ask.response_frame(correlation_id)
        self._packets += connection.sent(self._at, Direction.TO_BROKER, prefixed(request))
        self._at += SECOND // 1_000
        if response is not None:
            self._packets += connection.sent(self._at, Direction.TO_CLIENT, prefixed(response))

    def _connection(self, name: str) -> SyntheticConnection:
        if name not in self._connections:
            host, port = self._script.hosts.get(name, 1), 40_000 + len(self._connections)
            client = SocketAddress(bytes([10, 0, 0, host]), port)
            server = SocketAddress(bytes([10, 0, 0, self._script.servers.get(name, 200)]), SERVER_PORT)
            self._connections[name] = SyntheticConnection(client, server)
            self._packets += self._connections[name].opened(self._at)
        return self._connections[name]


def prefixed(frame: bytes) -> bytes:
    """Put the length before a frame."""
    return struct.pack(">i", len(frame)) + frame


def _opposite(direction: Direction) -> Direction:
    return Direction.TO_CLIENT if direction is Direction.TO_BROKER else Direction.TO_BROKER
