"""What breaks the rules of KIP-35 about refusals and about other brokers, one thing at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from decoders.frame.record import Direction
from decoders.protocol import OPENING_APIS
from expectations.identity.known_ranges import FIRST_IN_KAFKA_4
from tests.mutations.clean import ask
from tests.mutations.kip_35 import listing, negotiated_requests, ranges_beside, with_range
from tests.mutations.kip_511 import refusals
from tests.mutations.mutator import breaks
from tests.mutations.script import FIRST, SECOND_ONE, Ask, Close, Script, Send, Step

SHORTLY, LONG = 0.1, 61.0
"""Seconds before a step."""
LOGIN = (ask("SaslHandshake", 1, on=SECOND_ONE), ask("SaslAuthenticate", 2, on=SECOND_ONE))
"""What another client sends first."""


@breaks("kip35/version-refused")
def be_refused_for_the_version(script: Script) -> Iterator[Script]:
    """The broker closes at once upon what it does not list, unless that expects no response anyway."""
    for place, asked in negotiated_requests(script):
        if asked.response is None:
            continue
        for beside in ranges_beside(script, asked):
            listed = listing(script, with_range(asked.known.key, beside))
            yield listed.broken_off(place, Direction.TO_CLIENT, response=None, after=SHORTLY)


@breaks("kip35/version-refused")
def be_refused_without_having_asked(script: Script) -> Iterator[Script]:
    """The broker has told its versions to a client at another address."""
    for place, asked in negotiated_requests(script):
        if script.focus != place or asked.header == 3:
            continue
        for beside in ranges_beside(script, asked):
            told = listing(script, with_range(asked.known.key, beside)).steps[:place]
            steps = [*told, *_closed_upon([asked], SECOND_ONE), Close(on=FIRST)]
            yield dataclasses.replace(script, steps=tuple(steps), hosts={SECOND_ONE: 2})


@breaks("kip35/version-refused")
def be_refused_where_nobody_asks(script: Script) -> Iterator[Script]:
    """A version that Kafka 4.0 removed, on three connections, while another client is served."""
    for _, asked in script.targets():
        if asked.response is not None and asked.version < FIRST_IN_KAFKA_4.get(asked.known.key, 0):
            closed = [step for name in ("a", "b", "c") for step in _closed_upon([asked], name)]
            steps = (ask("Metadata", 12, on=SECOND_ONE), *closed, Close(on=SECOND_ONE))
            yield dataclasses.replace(script, steps=steps, hosts={SECOND_ONE: 2})


@breaks("kip35/refused-version-repeated")
def send_what_is_refused_on_each_connection(script: Script) -> Iterator[Script]:
    for place, asked in negotiated_requests(script):
        beside = ranges_beside(script, asked)
        if script.focus != place or asked.header == 3 or not beside:
            continue
        listed = listing(script, with_range(asked.known.key, *beside[:1]))
        said = [*listed.before(place), asked]
        steps = [step for name in ("one", "two", "three") for step in _closed_upon(said, name)]
        yield dataclasses.replace(script, steps=tuple(steps))


@breaks("kip35/refused-version-repeated")
def ask_what_is_refused(script: Script) -> Iterator[Script]:
    for place, asked in refusals(script):
        again = dataclasses.replace(asked, after=SHORTLY)
        yield script.put(place, asked, again, again).broken_off(place + 2)
        steps = list(script.steps[:place])
        for name in ("a", "b", "c"):
            steps += [dataclasses.replace(again, on=name), Close(on=name)]
        if not script.before(place):
            yield dataclasses.replace(script, steps=tuple(steps))


@breaks("kip35/request-before-sasl")
def forget_to_log_in(script: Script) -> Iterator[Script]:
    """Another client logs in at the address."""
    for place, asked in negotiated_requests(script):
        before = script.before(place)
        is_use = asked.known.key not in OPENING_APIS and asked.response is not None
        if script.focus == place and is_use and all(earlier.api == "ApiVersions" for earlier in before):
            steps = [*LOGIN, *_closed_upon([*before, asked], FIRST), Close(on=SECOND_ONE)]
            yield dataclasses.replace(script, steps=tuple(steps), hosts={SECOND_ONE: 2})


@breaks("kip35/login-never-begun")
def ask_for_nothing_else(script: Script) -> Iterator[Script]:
    """Another client logs in at the address."""
    for place, asked in script.targets():
        is_told = asked.api == "ApiVersions" and asked.response and not asked.response.get("errorCode")
        if is_told and not script.before(place):
            steps = (*LOGIN, dataclasses.replace(asked, on=FIRST), Close(on=FIRST), Close(on=SECOND_ONE))
            yield dataclasses.replace(script, steps=steps, hosts={SECOND_ONE: 2})


@breaks("kip35/request-before-tls")
def connect_in_plaintext(script: Script) -> Iterator[Script]:
    """The server answers the first request with an alert of TLS 1.2: internal error."""
    for place, asked in script.targets():
        if not script.before(place):
            alert = Send(Direction.TO_CLIENT, bytes.fromhex("15030300020250"), asked.on, SHORTLY)
            silent = dataclasses.replace(asked, response=None)
            steps = [*script.steps[:place], silent, alert, Close(Direction.TO_CLIENT, asked.on)]
            yield dataclasses.replace(script, steps=tuple(steps))


@breaks("kip35/broker-not-asked")
def use_another_broker_without_asking(script: Script) -> Iterator[Script]:
    asks = [asked for _, asked in script.asks(FIRST) if asked.api == "ApiVersions" and asked.client_id]
    if script.focus is None and asks and len({step.on for step in script.steps}) == 1:
        first = ask("Metadata", 13, on=SECOND_ONE)
        steps = [*script.steps[:-1], first, dataclasses.replace(first, after=LONG)]
        closes = [Close(on=SECOND_ONE), script.steps[-1]]
        yield dataclasses.replace(script, steps=(*steps, *closes), servers={SECOND_ONE: 201})


@breaks("kip35/broker-not-asked")
def use_all_other_brokers_without_asking(script: Script) -> Iterator[Script]:
    """Three brokers show it at once."""
    asks = [asked for _, asked in script.asks(FIRST) if asked.api == "ApiVersions" and asked.client_id]
    if script.focus is None and asks and len({step.on for step in script.steps}) == 1:
        servers = {f"broker {number}": number for number in (201, 202, 203)}
        uses = [ask("Metadata", 13, on=name) for _ in range(2) for name in servers]
        closes = [Close(on=name) for name in servers]
        steps = (*script.steps[:-1], *uses, *closes, script.steps[-1])
        yield dataclasses.replace(script, steps=steps, servers=servers)


def _closed_upon(said: Sequence[Ask], name: str) -> list[Step]:
    """A connection of which the broker closes upon the last request."""
    last = dataclasses.replace(said[-1], response=None)
    steps = [dataclasses.replace(each, on=name, after=SHORTLY) for each in (*said[:-1], last)]
    return [*steps, Close(Direction.TO_CLIENT, name, SHORTLY)]
