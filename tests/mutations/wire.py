"""What breaks the rules of the wire itself, one thing at a time."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator

from decoders.frame.record import Direction
from tests.mutations.kip_35 import listing, with_range
from tests.mutations.mutator import breaks
from tests.mutations.script import Alteration, Ask, Close, Script, Send, prefixed

NO_API, NO_VERSION = 999, 99
TO_BROKER, TO_CLIENT = Direction.TO_BROKER, Direction.TO_CLIENT
PADDED_ZERO, TAG_TWICE = bytes.fromhex("8000"), bytes.fromhex("0209000900")
OTHER_PROTOCOLS = (
    b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\n",
    bytes.fromhex("1603010200010001fc0303"),
    b"PROXY TCP4 10.0.0.9 10.0.0.2 50000 9092\r\n",
    bytes.fromhex("0d0a0d0a000d0a515549540a"),
    b"SSH-2.0-OpenSSH_9.6\r\n",
    bytes.fromhex("0300002f2ae00000"),
    b"*1\r\n$4\r\nPING\r\n",
)
"""HTTP/1.1 and 2, a TLS hello, PROXY headers of both versions, SSH, RDP, Redis."""


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


@breaks("wire/malformed-request")
def name_a_negative_version(script: Script) -> Iterator[Script]:
    for place, _ask in _released(script):
        if not _follows_tokens(script, place):
            yield script.broken_off(place, TO_CLIENT, alter=_of_negative_version, response=None)


def _of_negative_version(frame: bytes) -> bytes:
    return frame[:2] + struct.pack(">h", -3) + frame[4:]


@breaks("wire/malformed-response")
def end_a_response_early(script: Script) -> Iterator[Script]:
    """A refusal, whose body has another version, has a rule of its own."""
    for place, ask in _released(script):
        if ask.response is not None and ask.response_version is None:
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


@breaks("wire/encoding-not-canonical")
def pad_the_tags_of_a_request_header(script: Script) -> Iterator[Script]:
    for place, ask in _flexible(script):
        yield script.changed(place, alter=_put_at(_end_of_client_id(ask), PADDED_ZERO))


@breaks("wire/encoding-not-canonical")
def repeat_a_tag_of_a_request_header(script: Script) -> Iterator[Script]:
    for place, ask in _flexible(script):
        yield script.changed(place, alter=_put_at(_end_of_client_id(ask), TAG_TWICE))


@breaks("wire/encoding-not-canonical")
def pad_the_tags_of_a_response_header(script: Script) -> Iterator[Script]:
    for place, ask in _released(script):
        if ask.response is not None and ask.known.response_header_version(ask.version) == 1:
            yield script.changed(place, alter_response=_put_at(4, PADDED_ZERO))


def _flexible(script: Script) -> Iterator[tuple[int, Ask]]:
    """Requests of a release whose header ends with a tag section, which is empty."""
    for place, ask in _released(script):
        if ask.header == 2 and ask.alter is None:
            yield place, ask


def _end_of_client_id(ask: Ask) -> int:
    return 10 + len(ask.client_id or "")


def _put_at(offset: int, tags: bytes) -> Alteration:
    """Put a tag section in the place of an empty one."""

    def put(frame: bytes) -> bytes:
        return frame[:offset] + tags + frame[offset + 1 :]

    return put


@breaks("wire/unknown-api")
def use_an_unknown_version(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.api not in ("ApiVersions", "SaslHandshake"):
            listed = listing(script, with_range(ask.known.key, (0, NO_VERSION)))
            yield listed.broken_off(place, TO_CLIENT, alter=_at_no_version, response=None)


@breaks("wire/unknown-api")
def use_an_unknown_api(script: Script) -> Iterator[Script]:
    listed = listing(script, with_range(NO_API, (0, NO_VERSION)))
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
def begin_with_a_broken_length(script: Script) -> Iterator[Script]:
    for size in (0, 3, -1, -(1 << 31)):
        yield from _with_a_stranger(script, struct.pack(">i", size))


@breaks("wire/not-kafka")
def speak_another_protocol(script: Script) -> Iterator[Script]:
    for beginning in OTHER_PROTOCOLS:
        yield from _with_a_stranger(script, beginning)


def _with_a_stranger(script: Script, beginning: bytes) -> Iterator[Script]:
    """The script, and after it another connection, which begins so and is closed by the broker."""
    has_response = any(ask.response is not None for _, ask in script.asks())
    if script.focus is None and has_response:
        stranger = Send(TO_BROKER, beginning, "stranger"), Close(TO_CLIENT, "stranger")
        yield dataclasses.replace(script, steps=(*script.steps, *stranger))


@breaks("wire/frame-size-invalid")
def respond_with_an_impossible_size(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if script.focus is None and not _is_raw(ask):
            wrong = Send(TO_CLIENT, _announcing(3), ask.on)
            yield dataclasses.replace(script, steps=(*script.steps[: place + 1], wrong, Close(on=ask.on)))


def _announcing(size: int) -> bytes:
    """A length, and as many bytes if there can be so few."""
    return struct.pack(">i", size) + bytes(max(size, 0) if size < 4 else 0)
