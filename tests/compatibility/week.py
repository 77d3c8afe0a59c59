"""The traffic of eight days of 48 minutes: connections that last for days, some of which begin to offend."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from decoders.wire.segment import Packet
from tests.exchange import SECOND, Exchange, advertisement
from tests.streaming.captures import packets_of

WEEK: Final = 8
DAY: Final = 48 * 60 * SECOND
BEGIN: Final = 1_790_000_000 * SECOND
SOME_DAY: Final = 4
"""The day on which the first of the lasting connections may offend; the next one does so a day later."""
PORT: Final = 9092
LASTING: Final = 8
"""Connections from the first day to the last."""


def week() -> list[list[Packet]]:
    """The packets of each day; all connections end on the last."""
    return by_day(WEEK, chain(lasting(0, WEEK), sharing()))


def by_day(count: int, exchanges: Iterable[Exchange]) -> list[list[Packet]]:
    """The packets of each day, in the order of their times."""
    days: list[list[Packet]] = [[] for _ in range(count)]
    for packet in chain.from_iterable(map(packets_of, exchanges)):
        days[(packet.captured_at - BEGIN) // DAY].append(packet)
    return [sorted(packets, key=lambda packet: packet.captured_at) for packets in days]


def lasting(begin: int, end: int) -> Iterator[Exchange]:
    """Connections that ask each day; half of them change their ID on one day and keep the other one."""
    for number in range(LASTING):
        exchange = opened(f"10.100.{begin}.{number + 1}", begin, number)
        changed_on = begin + SOME_DAY + number if number % 2 else end
        for day in range(begin, end):
            go_on(exchange, day, number)
            ask(exchange, "another" if day >= changed_on else "")
        exchange.close()
        yield exchange


def sharing() -> Iterator[Exchange]:
    """Two live connections of different software with one ID; the second comes days after the first."""
    for first_day, software in ((1, "app"), (6, "another-app")):
        exchange = opened("10.102.0.1", first_day, 0, software, port=40_000 + first_day)
        for day in range(first_day, WEEK):
            go_on(exchange, day, first_day)
            ask(exchange)
        exchange.close()
        yield exchange


def opened(host: str, day: int, number: int, software: str = "app", *, port: int = 40_000) -> Exchange:
    """A connection of a host that has asked for the versions with the host's ID."""
    exchange = Exchange(client=f"{host}:{port}", server=f"10.200.0.1:{PORT}", at=_time(day, number))
    claimed = {"clientSoftwareName": software, "clientSoftwareVersion": "1.0"}
    asked = exchange.request("ApiVersions", 6, claimed, client_id="app", instance_id=_instance_id(exchange))
    exchange.respond(asked, advertisement())
    return exchange


def go_on(exchange: Exchange, day: int, number: int) -> None:
    """Let the time of the day come, if it has not."""
    exchange.at = max(exchange.at, _time(day, number))


def ask(exchange: Exchange, variant: str = "") -> None:
    """Ask for metadata with the host's ID, or with a variant of it."""
    exchange.respond(exchange.request("Metadata", 14, instance_id=_instance_id(exchange, variant)))


def _time(day: int, number: int) -> int:
    return BEGIN + day * DAY + number * 20 * SECOND


def _instance_id(exchange: Exchange, variant: str = "") -> bytes:
    """The ID of a host."""
    host = exchange.client.rpartition(":")[0]
    return hashlib.blake2b(f"{host} {variant}".encode(), digest_size=16).digest()
