"""The traffic of a month in miniature.

Its days are 24 hours of the capture's clock together: twelve of two hours, or more that are shorter. Most
connections last for a moment, some for many days. Of both some break rules, the latter after days of obeying
them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import Final

from decoders.wire.segment import Packet
from tests.compatibility.week import BEGIN, DAY, ask, by_day, go_on, lasting, opened, sharing
from tests.exchange import SECOND, Exchange

DAYS: Final = int(os.environ.get("KIPWATCH_MONTH_DAYS", "12"))
"""The days of the month, 12 or more."""
SPAN: Final = 24 * 3600 * SECOND
VISITORS, PERMANENT = 60, 5
"""Connections of a day; from the begin of the month to its end."""


def month(upgrade: int) -> list[list[Packet]]:
    """The packets of each day. Connections last to the day before `upgrade`, or begin on it, or neither."""
    others = chain(lasting(0, upgrade), lasting(upgrade, DAYS), _permanent(), sharing())
    days = by_day(DAYS, chain(_visitors(), others))
    return [[_stretched(packet) for packet in packets] for packets in days]


def _stretched(packet: Packet) -> Packet:
    """The packet at the same part of the day, where all days are 24 hours together."""
    return packet._replace(captured_at=BEGIN + (packet.captured_at - BEGIN) * SPAN // (DAYS * DAY))


def _visitors() -> Iterator[Exchange]:
    """Connections of a moment, a third of which have a malformed name."""
    for day in range(DAYS):
        for number in range(VISITORS):
            software = "app" if number % 3 else "not an app"
            exchange = opened(f"10.{day}.1.{number + 1}", day, number, software)
            ask(exchange)
            exchange.close()
            yield exchange


def _permanent() -> Iterator[Exchange]:
    """Connections of the whole month that break no rule."""
    for number in range(PERMANENT):
        exchange = opened(f"10.101.0.{number + 1}", 0, number)
        for day in range(DAYS):
            go_on(exchange, day, number)
            ask(exchange)
        exchange.close()
        yield exchange
