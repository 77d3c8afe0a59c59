"""What breaks the rules of KIP-1242, one thing at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from expectations.rules.base.response_rule import ENOUGH
from tests.mutations.bodies import CLUSTER_ID, NODE_ID
from tests.mutations.clean import ask as request
from tests.mutations.clean import script as listing_all
from tests.mutations.kip_511 import REFUSED, negotiations
from tests.mutations.mutator import breaks
from tests.mutations.script import SECOND_ONE, Ask, Close, Script, Step

MISROUTED = {"errorCode": 129}
HALVES = (
    {"clusterId": CLUSTER_ID, "nodeId": -1},
    {"clusterId": "", "nodeId": -1},
    {"clusterId": None, "nodeId": NODE_ID},
    {"clusterId": None, "nodeId": -2},
)
ELSEWHERE = (
    {"clusterId": "another-cluster", "nodeId": NODE_ID},
    {"clusterId": CLUSTER_ID, "nodeId": 7},
    {"clusterId": "", "nodeId": 0},
)
DESCRIBING = ("Metadata", "DescribeCluster")


def _identified(script: Script) -> Iterator[tuple[int, Ask]]:
    """The ApiVersions requests that may give the IDs."""
    return ((place, ask) for place, ask in negotiations(script) if ask.version >= 5)


@breaks("kip1242/half-identified")
def give_one_id(script: Script) -> Iterator[Script]:
    for place, ask in _identified(script):
        for half in HALVES:
            yield script.broken_off(place, body={**ask.body, **half}, response=REFUSED)


@breaks("kip1242/half-identified-accepted")
def accept_one_id(script: Script) -> Iterator[Script]:
    for place, ask in _identified(script):
        for half in HALVES:
            yield script.changed(place, body={**ask.body, **half})


@breaks("kip1242/misrouted")
def mean_another_broker(script: Script) -> Iterator[Script]:
    for place, ask in _identified(script):
        for ids in ELSEWHERE:
            yield script.broken_off(place, body={**ask.body, **ids}, response=MISROUTED)


@breaks("kip1242/misrouted-accepted")
def accept_another_broker(script: Script) -> Iterator[Script]:
    """What the broker says of itself afterwards shows it."""
    for place, ask in _identified(script):
        later = {asked.api for at, asked in script.asks(ask.on) if at > place}
        if not later.isdisjoint(DESCRIBING) and not _authenticates_later(script, place, ask):
            for ids in ELSEWHERE:
                yield script.changed(place, body={**ask.body, **ids})


def _authenticates_later(script: Script, place: int, ask: Ask) -> bool:
    """Whether the broker need not compare the IDs, as it does not know the client yet."""
    described = [at for at, asked in script.asks(ask.on) if at > place and asked.api in DESCRIBING]
    return any(
        asked.api == "SaslHandshake" and place < at < described[0] for at, asked in script.asks(ask.on)
    )


@breaks("kip1242/rebootstrap-without-cause")
def send_the_client_away(script: Script) -> Iterator[Script]:
    for place, ask in negotiations(script):
        if ask.body.get("clusterId") is None:
            yield script.broken_off(place, response=MISROUTED)


@breaks("kip1242/rebootstrap-without-cause")
def send_away_whom_metadata_led_here(script: Script) -> Iterator[Script]:
    """The client asks again with the IDs that Metadata gave on the same connection."""
    for place, ask in script.targets():
        first = next(script.asks(ask.on))[1]
        is_accepted = first.response is not None and not first.response.get("errorCode")
        if ask.api in DESCRIBING and (first.api, first.version) == ("ApiVersions", 5) and is_accepted:
            ids = {"clusterId": CLUSTER_ID, "nodeId": NODE_ID}
            again = dataclasses.replace(first, body={**first.body, **ids}, response=MISROUTED)
            yield script.put(place, ask, again).broken_off(place + 1)


@breaks("kip1242/rebootstrap-without-cause")
def send_away_whom_the_address_describes(script: Script) -> Iterator[Script]:
    """Metadata on other connections gives the same IDs, before and after."""
    for place, ask in _identified(script):
        if not script.before(place):
            ids = {"clusterId": CLUSTER_ID, "nodeId": NODE_ID}
            refused = dataclasses.replace(ask, body={**ask.body, **ids}, response=MISROUTED)
            steps: list[Step] = []
            for on in ("before", ask.on, "after"):
                steps += [refused if on == ask.on else request("Metadata", 12, on=on), Close(on=on)]
            yield dataclasses.replace(script, steps=tuple(steps), hosts={"before": 2, "after": 2})


@breaks("kip1242/rebootstrap-ignored")
def go_on_although_misrouted(script: Script) -> Iterator[Script]:
    for place, ask in _identified(script):
        later = [each for each, _ in script.asks(ask.on) if each > place]
        mutant = script.changed(place, body={**ask.body, **ELSEWHERE[0]}, response=MISROUTED)
        if later:
            yield mutant
        if len(later) >= ENOUGH and all(script.is_in_turn(each) for each in later):
            yield mutant.hurried()


@breaks("kip1242/ids-withheld")
def say_nobody_is_meant(script: Script) -> Iterator[Script]:
    """Of another broker, after Metadata."""
    for place, asked in _identified(script):
        if not script.before(place) and asked.on != SECOND_ONE and asked.header < 3:
            known = (asked, request("Metadata", 12))
            used = (dataclasses.replace(asked, on=SECOND_ONE), request("FindCoordinator", 6, on=SECOND_ONE))
            mutant = listing_all(script.name, *known, *used, Close(on=SECOND_ONE))
            yield dataclasses.replace(mutant, servers={SECOND_ONE: 201})


@breaks("kip1242/rebootstrap-with-ids")
def come_back_with_the_ids(script: Script) -> Iterator[Script]:
    for place, ask in _identified(script):
        if not script.before(place) and ask.on != SECOND_ONE:
            misrouted = dataclasses.replace(ask, body={**ask.body, **ELSEWHERE[0]})
            told = dataclasses.replace(misrouted, response=MISROUTED)
            again = dataclasses.replace(misrouted, on=SECOND_ONE)
            steps = (told, Close(), again, Close(on=SECOND_ONE))
            yield dataclasses.replace(script, steps=steps)


@breaks("kip1242/rebootstrap-with-ids")
def come_back_with_the_ids_at_once(script: Script) -> Iterator[Script]:
    """Within milliseconds, three times in sequence."""
    for place, ask in _identified(script):
        if not script.before(place) and ask.on != SECOND_ONE:
            body = {**ask.body, **ELSEWHERE[0]}
            told = dataclasses.replace(ask, body=body, response=MISROUTED, after=0.01)
            steps = [
                step
                for on in (ask.on, SECOND_ONE, "three")
                for step in (dataclasses.replace(told, on=on), Close(on=on, after=0.01))
            ]
            yield dataclasses.replace(script, steps=tuple(steps))
