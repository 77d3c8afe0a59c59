"""What breaks the rules of KIP-1313 on the request header, one thing at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from decoders.codec.request import read_request
from decoders.frame.record import Direction
from expectations.conversation.statement_reader import error_codes
from tests.exchange import ZERO_ID
from tests.mutations.bodies import (
    HEARTBEAT_APIS,
    INSTANCE_ID,
    INVALID_REQUEST,
    MEMBER_ID,
    ONE_ID,
    OTHER_ID,
    TELEMETRY_APIS,
    UNSUPPORTED_VERSION,
    ranges,
    response_body,
)
from tests.mutations.clean import ask as asked
from tests.mutations.kip_35 import UNUSED, listing, with_range
from tests.mutations.mutator import breaks
from tests.mutations.script import SCHEMAS, Ask, Close, Script, Step
from tests.oracle.splicing import NO_TAGS, end_of_client_id


def _is_first_identified(script: Script, place: int) -> bool:
    return all(ask.api == "SaslHandshake" for ask in script.before(place))


def _may_be_zero(ask: Ask) -> bool:
    """Whether a zero ID would show: telemetry v1 with it also reads as version 0."""
    return ask.header == 3 and ask.api not in TELEMETRY_APIS


def is_bound(script: Script, place: int) -> bool:
    """Whether the first request of the connection gave an ID that this one must give, too."""
    before = [ask for ask in script.before(place) if ask.api != "SaslHandshake"]
    return bool(before) and before[0].header == 3 and before[0].instance_id != ZERO_ID


def _follows_an_older_header(script: Script, place: int) -> bool:
    """Whether the connection began with an older header, so that nothing binds it to an ID."""
    before = [ask for ask in script.before(place) if ask.api != "SaslHandshake"]
    return bool(before) and before[0].header < 3


def refused(ask: Ask) -> dict[str, Any]:
    return response_body(ask.known, ask.version, INVALID_REQUEST)


def refuse(script: Script, place: int) -> Script:
    """Let the broker refuse a request for its ID, as it should. Without ApiVersions nothing can go on."""
    ask = script.steps[place]
    assert isinstance(ask, Ask)
    if ask.api == "ApiVersions":
        return script.broken_off(place, response=refused(ask))
    return script.changed(place, response=refused(ask))


@breaks("kip1313/instance-id-zero")
def begin_with_zero(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if _may_be_zero(ask) and _is_first_identified(script, place):
            yield script.changed(place, instance_id=ZERO_ID)


@breaks("kip1313/instance-id-zero")
def be_zero_after_an_older_header(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if _may_be_zero(ask) and _follows_an_older_header(script, place):
            zero = script.changed(place, instance_id=ZERO_ID)
            yield zero
            yield refuse(zero, place).read_as("kip1313=tagged")


@breaks("kip1313/instance-id-missing")
def drop_the_id(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if _may_be_zero(ask) and is_bound(script, place):
            yield refuse(script.changed(place, instance_id=ZERO_ID), place)


@breaks("kip1313/instance-id-missing")
def fall_back_to_an_older_header(script: Script) -> Iterator[Script]:
    """The broker offers header v3 for the API, as the client was told."""
    for place, ask in script.targets():
        if ask.header != 3 or not is_bound(script, place) or not _is_negotiated(script.before(place)):
            continue
        own = {"clientInstanceId": MEMBER_ID} if ask.api in TELEMETRY_APIS else {}
        for version in range(ask.known.versions.lowest, ask.version):
            yield refuse(script.put(place, asked(ask.api, version, on=ask.on, **own)), place)


def _is_negotiated(asks: list[Ask]) -> bool:
    """Whether a response among those of some requests advertises versions."""
    return any(ask.api == "ApiVersions" and ask.response and not ask.response["errorCode"] for ask in asks)


@breaks("kip1313/instance-id-changed")
def change_the_id(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.header == 3 and any(earlier.header == 3 for earlier in script.before(place)):
            other = INSTANCE_ID if ask.instance_id == OTHER_ID else OTHER_ID
            yield refuse(script.changed(place, instance_id=other), place)


@breaks("kip1313/instance-id-reserved")
def be_number_one(script: Script) -> Iterator[Script]:
    apis = {ask.api for _, ask in script.asks()}
    uses_it = any(ask.header == 3 for _, ask in script.asks())
    if uses_it and apis.isdisjoint((*HEARTBEAT_APIS, *TELEMETRY_APIS)):
        one = script.each(lambda ask: dataclasses.replace(ask, instance_id=ONE_ID))
        yield one
        if script.focus is None:
            yield one.read_as("kip1313=tagged")


@breaks("kip1313/instance-id-accepted-wrongly")
def accept_another_id(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.header == 3 and is_bound(script, place) and _has_error_field(ask):
            if _may_be_zero(ask):
                yield script.changed(place, instance_id=ZERO_ID)
            if ask.instance_id == INSTANCE_ID:
                yield script.changed(place, instance_id=OTHER_ID)


@breaks("kip1313/instance-id-accepted-wrongly")
def accept_zero(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        is_free = _is_first_identified(script, place) or _follows_an_older_header(script, place)
        if _may_be_zero(ask) and is_free and _has_error_field(ask):
            yield script.changed(place, instance_id=ZERO_ID).read_as("kip1313=tagged")


def _has_error_field(ask: Ask) -> bool:
    return error_codes(ask.known.response, ask.response or {}) == (0,)


@breaks("kip1313/client-id-missing-first")
def hide_the_client_id(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        later = [later for _, later in script.asks(ask.on)]
        if not script.before(place) and any(request.header == 3 for request in later):
            yield script.changed(place, client_id=None)


@breaks("kip1313/client-id-missing-first")
def tell_the_client_id_late(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        later = [at for at, request in script.asks(ask.on) if at > place and request.header == 3]
        if not script.before(place) and later:
            yield script.changed(place, client_id=None).changed(later[-1], client_id="app")


@breaks("kip1313/client-id-repeated")
def repeat_the_client_id(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.header == 3 and script.before(place):
            yield script.changed(place, client_id="app")
            yield script.changed(place, client_id="app").read_as("kip1313=tagged")


@breaks("kip1313/client-id-dropped")
def drop_the_client_id(script: Script) -> Iterator[Script]:
    for place, _ in _on_older_headers(script):
        yield script.changed(place, client_id=None)


@breaks("kip1313/client-id-changed")
def change_the_client_id(script: Script) -> Iterator[Script]:
    for place, _ in _on_older_headers(script):
        yield script.changed(place, client_id="another")


def _on_older_headers(script: Script) -> Iterator[tuple[int, Ask]]:
    """Requests on an older header after one on header v3."""
    for place, ask in script.targets():
        if ask.header < 3 and any(earlier.header == 3 for earlier in script.before(place)):
            yield place, ask


@breaks("kip1313/header-v3-before-negotiation")
def begin_with_header_v3(script: Script) -> Iterator[Script]:
    """The broker does not know header v3: it closes three times, or refuses the version."""
    for place, ask in script.targets():
        if ask.api == "ApiVersions" and ask.header == 3 and not script.before(place):
            yield dataclasses.replace(script, steps=tuple(_closed_upon_header_v3(ask)))
            refusal = {"errorCode": UNSUPPORTED_VERSION, "apiKeys": ranges((18, 0, 5))}
            yield script.broken_off(place, response=refusal)


def _closed_upon_header_v3(ask: Ask) -> Iterator[Step]:
    """A client is told the versions before header v3; another begins with header v3 on three connections."""
    listed = {"errorCode": 0, "apiKeys": ranges((ask.known.key, 0, 5))}
    known = asked(ask.api, 5, on="known", **ask.body)
    yield dataclasses.replace(known, response=listed, client_id="app")
    yield Close(on="known")
    for name in ("a", "b", "c"):
        yield dataclasses.replace(ask, on=name, response=None)
        yield Close(Direction.TO_CLIENT, name)


@breaks("kip1313/header-version-mismatch")
def use_another_header(script: Script) -> Iterator[Script]:
    """The broker cannot read it and closes. Header v3 counts once the connection has shown it."""
    for place, ask in script.targets():
        is_known = ask.header < 3 or any(earlier.header == 3 for earlier in script.before(place))
        if _is_first_identified(script, place) or not is_known:
            continue
        for header in {1, 2, 3} - {ask.header}:
            if _only_makes_sense(ask, header):
                yield script.broken_off(
                    place, Direction.TO_CLIENT, alter=_BehindHeader(ask.header, header), response=None
                )


AMBIGUOUS = {("ListPartitionReassignments", 1, 1), ("Metadata", 14, 2)}
"""API, version and header: requests that make sense behind a third header, too, by what their bodies happen
to hold."""


def _only_makes_sense(ask: Ask, header: int) -> bool:
    """Whether a request proves that it is behind this header.

    It does not if it also decodes behind its own, with bytes left over, or behind a third.
    """
    read = read_request(SCHEMAS, _BehindHeader(ask.header, header)(ask.request_frame(1)))
    is_tolerated = read.known and read.failure is None
    is_ambiguous = (ask.api, ask.version, header) in AMBIGUOUS
    return not (is_tolerated or is_ambiguous)


BEHIND_CLIENT_ID = {1: b"", 2: NO_TAGS, 3: OTHER_ID + NO_TAGS}
"""What request headers hold behind the client ID, by their version."""


@dataclasses.dataclass(frozen=True)
class _BehindHeader:
    """Takes what a header holds behind the client ID out of a frame, and puts in what another one holds."""

    own: int
    other: int

    def __call__(self, frame: bytes) -> bytes:
        end = end_of_client_id(frame)
        body = frame[end + len(BEHIND_CLIENT_ID[self.own]) :]
        return frame[:end] + BEHIND_CLIENT_ID[self.other] + body


@breaks("kip1313/header-v3-not-offered")
def withhold_header_v3(script: Script) -> Iterator[Script]:
    """The broker lists an API, which the client does not use, up to its last version on an older header."""
    if any(ask.known.key == UNUSED for _, ask in script.asks()):
        return
    if any(_is_negotiated(asks) and _is_answered_on_header_v3(asks) for asks in _by_connection(script)):
        yield listing(script, with_range(UNUSED, (0, 0)))


@breaks("kip1313/sasl-handshake-raised")
def raise_the_handshake(script: Script) -> Iterator[Script]:
    if any(_is_negotiated(asks) for asks in _by_connection(script)):
        yield listing(script, with_range(SASL_HANDSHAKE, (0, 2)))


SASL_HANDSHAKE = 17
"""An API that keeps its header."""


def _by_connection(script: Script) -> Iterator[list[Ask]]:
    for name in dict.fromkeys(ask.on for _, ask in script.asks()):
        yield [ask for _, ask in script.asks(name)]


def _is_answered_on_header_v3(asks: list[Ask]) -> bool:
    answered = (ask for ask in asks if ask.header == 3 and ask.response is not None)
    return any(not (ask.response or {}).get("errorCode") for ask in answered)


@breaks("kip1313/client-id-once-on-old-broker")
def send_the_client_id_once(script: Script) -> Iterator[Script]:
    """No request is on header v3, and another one than ApiVersions or SASL follows the first."""
    firsts = {ask.on: place for place, ask in reversed([*script.asks()])}
    early = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")
    asks = [(place, ask) for place, ask in script.asks() if place != firsts[ask.on]]
    if any(ask.header == 3 for _, ask in script.asks()) or all(ask.api in early for _, ask in asks):
        return
    mutant = script
    for place, _ in asks:
        mutant = mutant.changed(place, client_id=None)
    yield mutant


@breaks("kip1313/instance-id-in-header-v2")
def tag_header_v2(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.header == 2:
            yield script.changed(place, alter=_with_draft_id)


def _with_draft_id(frame: bytes) -> bytes:
    """Put the instance ID into tagged field 0 of a header that has none."""
    end = end_of_client_id(frame)
    return frame[:end] + bytes([1, 0, len(OTHER_ID)]) + OTHER_ID + frame[end + len(NO_TAGS) :]
