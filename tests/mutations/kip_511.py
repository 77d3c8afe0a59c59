"""What breaks the rules of KIP-511, one thing at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from decoders.frame.record import Direction
from decoders.protocol import NAMES_SOFTWARE_FROM
from expectations.rules.base.response_rule import ENOUGH
from tests.mutations.bodies import INVALID_REQUEST, UNSUPPORTED_VERSION, ranges
from tests.mutations.mutator import breaks
from tests.mutations.script import Ask, Close, Script, Step

REFUSED = {"errorCode": INVALID_REQUEST}
NAME, VERSION = "clientSoftwareName", "clientSoftwareVersion"
MALFORMED = ("RP Console", "", "-x", "x.", "name@host", "é")
MALFORMED_IN_BOTH = ("RP Console", "", "name@host")
"""The text allows dots and hyphens at the ends."""


def negotiations(script: Script) -> Iterator[tuple[int, Ask]]:
    """The ApiVersions requests that are accepted."""
    for place, ask in script.targets():
        if ask.api == "ApiVersions" and ask.response is not None and not ask.response.get("errorCode"):
            yield place, ask


def _claims(script: Script) -> Iterator[tuple[int, Ask]]:
    return ((place, ask) for place, ask in negotiations(script) if ask.version >= 3)


def _claims_of_one_connection(script: Script) -> Iterator[tuple[int, Ask]]:
    """Where there are two, software that differs on one of them shows another client."""
    if len({step.on for step in script.steps}) == 1:
        yield from _claims(script)


def _malformed(script: Script, field: str) -> Iterator[Script]:
    for place, ask in _claims(script):
        for value in MALFORMED:
            mutant = script.broken_off(place, body={**ask.body, field: value}, response=REFUSED)
            yield mutant
            if value in MALFORMED_IN_BOTH:
                yield mutant.read_as("kip511=text")


@breaks("kip511/software-name-malformed")
def malform_the_name(script: Script) -> Iterator[Script]:
    yield from _malformed(script, NAME)


@breaks("kip511/software-version-malformed")
def malform_the_version(script: Script) -> Iterator[Script]:
    yield from _malformed(script, VERSION)


@breaks("kip511/malformed-name-accepted")
def accept_a_malformed_name(script: Script) -> Iterator[Script]:
    for place, ask in _claims_of_one_connection(script):
        for field in (NAME, VERSION):
            yield script.changed(place, body={**ask.body, field: "RP Console"})


@breaks("kip511/wellformed-name-refused")
def refuse_a_wellformed_name(script: Script) -> Iterator[Script]:
    """On connections with instance IDs the refusal may be for those."""
    for place, ask in _claims(script):
        if all(asked.header < 3 for asked in (*script.before(place), ask)):
            yield script.broken_off(place, response=REFUSED)


@breaks("kip511/connection-kept")
def go_on_after_a_refusal(script: Script) -> Iterator[Script]:
    for place, ask in _claims_of_one_connection(script):
        later = [each for each, _ in script.asks(ask.on) if each > place]
        mutant = script.changed(place, body={**ask.body, NAME: "RP Console"}, response=REFUSED)
        if later:
            yield mutant
        if len(later) >= ENOUGH and all(script.is_in_turn(each) for each in later):
            yield mutant.hurried()


def refusals(script: Script) -> Iterator[tuple[int, Ask]]:
    """The ApiVersions requests whose version the broker does not have."""
    for place, ask in script.targets():
        if ask.response is not None and ask.response.get("errorCode") == UNSUPPORTED_VERSION:
            yield place, ask


@breaks("kip511/unsupported-answer-not-v0")
def refuse_in_another_layout(script: Script) -> Iterator[Script]:
    for place, ask in refusals(script):
        for version in range(1, ask.version + 1):
            yield script.changed(place, response_version=version)
        yield script.changed(place, alter_response=_behind_header_1)
        yield script.broken_off(place, alter_response=_in_no_layout)
        yield script.broken_off(place, alter_response=lambda frame: frame[:-1])


def _in_no_layout(frame: bytes) -> bytes:
    """What librdkafka's mock broker writes behind the error code fits no version."""
    return frame[:6] + bytes.fromhex("0100120000000200000000")


def _behind_header_1(frame: bytes) -> bytes:
    """Response header 1 has a tag section behind the correlation ID."""
    return frame[:4] + b"\0" + frame[4:]


@breaks("kip511/unsupported-answer-not-v0")
def respond_to_what_is_not_supported(script: Script) -> Iterator[Script]:
    for place, ask in refusals(script):
        if script.before(place):
            yield script.broken_off(place, response=REFUSED, response_version=ask.version)
            accepted = script.before(place)[0].response
            yield script.broken_off(place, response=accepted, response_version=ask.version)


@breaks("kip511/unsupported-answer-without-range")
def refuse_without_a_range(script: Script) -> Iterator[Script]:
    for place, ask in refusals(script):
        mutant = script.changed(place, response={**(ask.response or {}), "apiKeys": []})
        for later, retry in script.asks():
            if later > place and retry.api == "ApiVersions":
                mutant = mutant.put(later, dataclasses.replace(retry, version=0, body={}))
        yield mutant


@breaks("kip511/fallback-version-wrong")
def retry_what_was_refused(script: Script) -> Iterator[Script]:
    for place, ask in refusals(script):
        for version in range(ask.version, 6):
            again = dataclasses.replace(ask, version=version)
            mutant = script.put(place, ask, again).broken_off(place + 1)
            yield from (mutant, mutant.hurried())


@breaks("kip511/fallback-version-wrong")
def go_back_to_version_0(script: Script) -> Iterator[Script]:
    """The refusal offers a version that names the software."""
    for place, ask in refusals(script):
        if ask.version > NAMES_SOFTWARE_FROM:
            listed = {"errorCode": 0, "apiKeys": ranges((18, 0, ask.version - 1))}
            retreat = dataclasses.replace(ask, version=0, body={}, response=listed)
            mutant = script.put(place, ask, retreat).broken_off(place + 1)
            yield from (mutant, mutant.hurried())


@breaks("kip511/unknown-version-closed")
def close_upon_an_unknown_version(script: Script) -> Iterator[Script]:
    """On three connections in a row, while another version gets its response."""
    for place, ask in refusals(script):
        known = dataclasses.replace(ask, version=ask.version - 1, on="known", response=_known(ask))
        steps: list[Step] = [dataclasses.replace(known, response_version=None), Close(on="known")]
        for name in ("one", "two", "three"):
            asked = dataclasses.replace(ask, on=name, response=None, response_version=None)
            steps += [asked, Close(Direction.TO_CLIENT, name)]
        if not script.before(place):
            yield dataclasses.replace(script, steps=tuple(steps))


def _known(ask: Ask) -> Mapping[str, Any]:
    """What the broker responds to a version that it has."""
    return {"errorCode": 0, "apiKeys": (ask.response or {})["apiKeys"]}
