"""What breaks the rules of the wire itself, one thing at a time."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator

from decoders.frame.record import Direction
from tests.mutations.kip_35 import _listing, _with_range
from tests.mutations.mutator import breaks
from tests.mutations.script import Ask, Close, Script, Send, prefixed

NO_API, NO_VERSION = 999, 99
TO_BROKER, TO_CLIENT = Direction.TO_BROKER, Direction.TO_CLIENT


def _shorter(frame: bytes) -> bytes:
    return frame[:-1]


def _longer(frame: bytes) -> bytes:
    return frame + b"\0"


def _released(script: Script) -> Iterator[tuple[int, Ask]]:
    """Requests whose version a release has: others must decode to their last byte to be believed."""
    for place, ask in script.targets():
        if not ask.known.is_overlay(ask.version):
            yield place, ask


def _follows_tokens(script: Script, place: int) -> bool:
    """Whether an unreadable request would be taken for one more raw SASL token."""
    return [(ask.api, ask.version) for ask in script.before(place)[-1:]] == [("SaslHandshake", 0)]


@breaks("wire/malformed-request")
def end_a_request_early(script: Script) -> Iterator[Script]:
    for place, _ask in _released(script):
        if not _follows_tokens(script, place):
            yield script.broken_off(place, TO_CLIENT, alter=_shorter, response=None)


@breaks("wire/malformed-response")
def end_a_response_early(script: Script) -> Iterator[Script]:
    for place, ask in _released(script):
        if ask.response is not None:
            yield script.broken_off(place, alter_response=_shorter)


@breaks("wire/trailing-bytes")
def leave_bytes_behind_a_request(script: Script) -> Iterator[Script]:
    for place, _ in _released(script):
        yield script.changed(place, alter=_longer)


@breaks("wire/trailing-bytes")
def leave_bytes_behind_a_response(script: Script) -> Iterator[Script]:
    for place, ask in _released(script):
        if ask.response is not None:
            yield script.changed(place, alter_response=_longer)


@breaks("wire/unknown-api")
def use_an_unknown_version(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.api != "ApiVersions":
            listed = _listing(script, _with_range(ask.known.key, (0, NO_VERSION)))
            yield listed.broken_off(place, TO_CLIENT, alter=_at_no_version, response=None)


@breaks("wire/unknown-api")
def use_an_unknown_api(script: Script) -> Iterator[Script]:
    listed = _listing(script, _with_range(NO_API, (0, NO_VERSION)))
    for place, _ask in script.targets():
        if script.before(place) and not _follows_tokens(script, place):
            yield listed.broken_off(place, TO_CLIENT, alter=_of_no_api, response=None)


def _at_no_version(frame: bytes) -> bytes:
    return frame[:2] + struct.pack(">h", NO_VERSION) + frame[4:]


def _of_no_api(frame: bytes) -> bytes:
    return struct.pack(">h", NO_API) + frame[2:]


@breaks("wire/correlation-mismatch")
def respond_under_another_id(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.response is not None:
            yield script.broken_off(place, alter_response=_of_another_request)


def _of_another_request(frame: bytes) -> bytes:
    return struct.pack(">i", 1_000_000) + frame[4:]


@breaks("wire/answer-without-request")
def respond_twice(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.response is not None and not _is_raw(ask):
            again = Send(TO_CLIENT, prefixed(bytes(8)), ask.on)
            yield script.put(place, ask, again).broken_off(place + 1)


def _is_raw(ask: Ask) -> bool:
    """Whether what follows are SASL tokens, which nobody counts."""
    return (ask.api, ask.version) == ("SaslHandshake", 0)


@breaks("wire/answer-without-request")
def respond_to_what_expects_nothing(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.api == "Produce":
            yield script.changed(place, body={**ask.body, "acks": 0}, response=ask.response or {})


@breaks("wire/frame-size-invalid")
def announce_an_impossible_size(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if script.focus is None and not _is_raw(ask):
            for size in (0, 3, -1, 0x474554_20):
                wrong = Send(TO_BROKER, _announcing(size), ask.on)
                yield dataclasses.replace(
                    script, steps=(*script.steps[: place + 1], wrong, Close(TO_CLIENT, ask.on))
                )


@breaks("wire/frame-size-invalid")
def respond_with_an_impossible_size(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if script.focus is None and not _is_raw(ask):
            wrong = Send(TO_CLIENT, _announcing(3), ask.on)
            yield dataclasses.replace(script, steps=(*script.steps[: place + 1], wrong, Close(on=ask.on)))


def _announcing(size: int) -> bytes:
    """A length, and as many bytes if there can be so few."""
    return struct.pack(">i", size) + bytes(max(size, 0) if size < 4 else 0)
