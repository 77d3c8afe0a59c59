"""What breaks the rules of KIP-35, one thing at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from decoders.frame.record import Direction
from tests.mutations.bodies import UNSUPPORTED_VERSION, ranges
from tests.mutations.clean import ask as request_of
from tests.mutations.kip_511 import negotiations
from tests.mutations.mutator import breaks
from tests.mutations.script import SECOND_ONE, Ask, Close, Script, Step

API_VERSIONS = 18
OTHER = "other"
"""A connection of another client."""
UNUSED = 50
"""An API that no clean conversation lists beside those it uses."""
Entries = list[dict[str, int]]


def _with_entries(ask: Ask, change: Callable[[Entries], Entries]) -> Ask:
    """A request whose response lists something else, if it lists anything."""
    if ask.api != "ApiVersions" or ask.response is None or ask.response.get("errorCode"):
        return ask
    return dataclasses.replace(
        ask, response={**ask.response, "apiKeys": change(list(ask.response["apiKeys"]))}
    )


def listing(script: Script, change: Callable[[Entries], Entries]) -> Script:
    return script.each(lambda ask: _with_entries(ask, change))


def negotiated_requests(script: Script) -> Iterator[tuple[int, Ask]]:
    """The requests that an advertisement is in force for."""
    for place, ask in script.targets():
        is_negotiated = any(earlier.api == "ApiVersions" for earlier in script.before(place))
        if ask.api != "ApiVersions" and is_negotiated:
            yield place, ask


def with_range(key: int, *entries: tuple[int, int]) -> Callable[[Entries], Entries]:
    """List an API with these ranges, or with none."""

    def change(listed: Entries) -> Entries:
        others = [entry for entry in listed if entry["apiKey"] != key]
        return others + ranges(*((key, low, high) for low, high in entries))

    return change


def _cut_off(script: Script, place: int) -> Iterator[Script]:
    """The broker closes upon a request, which the client sent at leisure or at once."""
    mutant = script.broken_off(place, Direction.TO_CLIENT, response=None)
    yield mutant
    if script.is_in_turn(place):
        yield mutant.hurried()


@breaks("kip35/version-out-of-range")
def leave_the_range(script: Script) -> Iterator[Script]:
    """The broker closes upon a version that it does not have."""
    for place, ask in negotiated_requests(script):
        for beside in ranges_beside(script, ask):
            yield from _cut_off(listing(script, with_range(ask.known.key, beside)), place)


def ranges_beside(script: Script, ask: Ask) -> list[tuple[int, int]]:
    """Ranges without the version of a request that neither withhold header v3 nor raise SaslHandshake."""
    above = (ask.version + 1, max(ask.version + 1, ask.known.versions.highest))
    below = (0, ask.version - 1)
    uses_header_v3 = any(other.header == 3 for _, other in script.asks())
    beside = [above] if uses_header_v3 else [above, below]
    return [(low, high) for low, high in beside if low <= high and (ask.api != "SaslHandshake" or high <= 1)]


@breaks("kip35/api-not-advertised")
def use_what_is_not_listed(script: Script) -> Iterator[Script]:
    for place, ask in negotiated_requests(script):
        yield from _cut_off(listing(script, with_range(ask.known.key)), place)


@breaks("kip35/advertised-version-refused")
def close_upon_what_is_listed(script: Script) -> Iterator[Script]:
    """On three connections in a row the broker closes upon one version. It serves others without a login."""
    for place, ask in negotiated_requests(script):
        if script.focus != place or ask.api.endswith("Acls"):
            continue
        before = script.before(place)
        if any((earlier.api, earlier.version) == (ask.api, ask.version) for earlier in before):
            continue
        steps: list[Step] = [_served_besides(ask)]
        for name in ("one", "two", "three"):
            said = [*before, dataclasses.replace(ask, response=None)]
            steps += [dataclasses.replace(request, on=name) for request in said]
            steps.append(Close(Direction.TO_CLIENT, name))
        yield dataclasses.replace(script, steps=tuple(steps), hosts={OTHER: 2})


def _served_besides(asked: Ask) -> Ask:
    """A request for another API, which the broker serves on a connection of another client."""
    return request_of("ListGroups" if asked.api != "ListGroups" else "DescribeGroups", 4, on=OTHER)


@breaks("kip35/advertised-version-refused")
def refuse_a_listed_version_of_api_versions(script: Script) -> Iterator[Script]:
    for place, ask in negotiations(script):
        if ask.header < 3 and _has_listed(script, place):
            own = ranges((API_VERSIONS, 0, 6))
            refused = {"errorCode": UNSUPPORTED_VERSION, "apiKeys": own}
            yield script.broken_off(place, response=refused, response_version=0)


def _has_listed(script: Script, place: int) -> bool:
    """Whether the broker has advertised its versions on the connection before a step."""
    responses = [ask.response or {} for ask in script.before(place) if ask.api == "ApiVersions"]
    return any(not response.get("errorCode") for response in responses)


@breaks("kip35/range-inverted")
def contradict_itself(script: Script) -> Iterator[Script]:
    if any(True for _ in negotiations(script)):
        yield listing(script, with_range(UNUSED, (3, 1)))
        yield listing(script, with_range(UNUSED, (0, 1), (0, 1)))


@breaks("kip35/apiversions-v0-dropped")
def drop_version_0(script: Script) -> Iterator[Script]:
    if any(True for _ in negotiations(script)):
        yield listing(script, with_range(API_VERSIONS))
        yield listing(script, _from_version_1)


def _from_version_1(listed: Entries) -> Entries:
    return [{**entry, "minVersion": 1} if entry["apiKey"] == API_VERSIONS else entry for entry in listed]


@breaks("kip35/ranges-changed")
def list_something_else_later(script: Script) -> Iterator[Script]:
    for place, ask in negotiations(script):
        if _has_listed(script, place):
            yield script.put(place, _with_entries(ask, with_range(UNUSED, (0, 1))))


@breaks("kip35/ranges-withheld")
def list_less_before_the_login(script: Script) -> Iterator[Script]:
    for place, logged_in in _first_questions(script):
        listed = with_range(UNUSED, (0, 1))
        steps: list[Step] = []
        for name in ("one", "two", "three"):
            said = [*script.before(place), _with_entries(logged_in, listed)]
            steps += [dataclasses.replace(each, on=name) for each in said]
            steps.append(Close(on=name))
        yield dataclasses.replace(script, steps=tuple(steps))


@breaks("kip35/ranges-withheld")
def close_upon_questions_before_the_login(script: Script) -> Iterator[Script]:
    """Other clients log in first, and ask then."""
    for place, logged_in in _first_questions(script):
        first, *login = script.before(place)
        steps: list[Step] = []
        for name in ("one", "two", "three"):
            steps += _logged_in(f"{OTHER} {name}", login, logged_in)
            steps += [dataclasses.replace(first, on=name, response=None), Close(Direction.TO_CLIENT, name)]
        steps += _logged_in(OTHER, login, logged_in)
        yield dataclasses.replace(script, steps=tuple(steps))


def _first_questions(script: Script) -> Iterator[tuple[int, Ask]]:
    """The first ApiVersions after a login that followed another one."""
    for place, ask in negotiations(script):
        before = [earlier.api for earlier in script.before(place)]
        if before[:2] == ["ApiVersions", "SaslHandshake"] and "ApiVersions" not in before[1:]:
            yield place, ask


def _logged_in(name: str, login: list[Ask], question: Ask) -> list[Step]:
    """A connection that logs in and asks then."""
    return [*(dataclasses.replace(each, on=name) for each in [*login, question]), Close(on=name)]


@breaks("kip35/negotiation-not-repeated")
def go_by_what_was_heard_before(script: Script) -> Iterator[Script]:
    places = [place for place, _ in script.asks(SECOND_ONE)]
    closed = any(isinstance(step, Close) for step in script.steps[: places[0]]) if places else False
    if closed:
        begun = script.changed(places[1], client_id="app")
        yield begun.put(places[0])
