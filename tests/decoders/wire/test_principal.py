"""The name under which a client logs in is read from its first token; nothing else of the token is."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from decoders.frame.cutting import cut
from decoders.frame.record import Kind, Record
from decoders.wire.principal import LONGEST_NAME, name_of
from tests.decoders.wire.columnar.equality import assert_equal, packets_between, placed
from tests.decoders.wire.conversation import (
    SCHEMAS,
    Event,
    metadata,
    metadata_response,
    of_kind,
    request,
    response,
    to_broker,
    to_client,
)

SECRET = "5ecret"


def bearer(claims: Any, *, header: Any = None, signature: str = SECRET, before: str = "n,,") -> bytes:
    """The first token of OAUTHBEARER."""
    parts = (json.dumps(each).encode() for each in (header or {"alg": "RS256"}, claims))
    head, body = (base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
    return f"{before}\x01auth=Bearer {head}.{body}.{signature}\x01\x01".encode()


DEEP = bearer({}).replace(b"e30", base64.b64encode(b'{"sub": "alice", "more": ' + b"[" * 30_000))


@pytest.mark.parametrize(
    ("mechanism", "token", "name"),
    [
        ("PLAIN", b"\0alice\0" + SECRET.encode(), "alice"),
        ("PLAIN", b"alice\0alice\0" + SECRET.encode(), "alice"),
        ("PLAIN", "\0zoë\0".encode() + SECRET.encode(), "zoë"),
        ("PLAIN", b"\0alice\0", ""),
        ("PLAIN", b"\0alice", ""),
        ("PLAIN", b"\0alice\0" + SECRET.encode() + b"\0", ""),
        ("PLAIN", b"\0\0" + SECRET.encode(), ""),
        ("PLAIN", b"\0 \0" + SECRET.encode(), ""),
        ("PLAIN", b"\0\xff\xfe\0" + SECRET.encode(), ""),
        ("PLAIN", b"\0a\nb\0" + SECRET.encode(), ""),
        ("PLAIN", b"\0" + b"a" * LONGEST_NAME + b"\0" + SECRET.encode(), "a" * LONGEST_NAME),
        ("PLAIN", b"\0" + b"a" * (LONGEST_NAME + 1) + b"\0" + SECRET.encode(), ""),
        ("PLAIN", b"", ""),
        ("SCRAM-SHA-256", b"n,,n=alice,r=" + SECRET.encode(), "alice"),
        ("SCRAM-SHA-512", b"n,a=alice,n=alice,r=" + SECRET.encode(), "alice"),
        ("SCRAM-SHA-512", b"n,,n=a=2Cb=3Dc,r=" + SECRET.encode(), "a,b=c"),
        ("SCRAM-SHA-512", b"n,,n=alice,r=" + SECRET.encode() + b",x=y", "alice"),
        ("SCRAM-SHA-512", b"n,,n=a=2cb,r=" + SECRET.encode(), ""),
        ("SCRAM-SHA-512", b"n,,n=tokens-id,r=" + SECRET.encode() + b",tokenauth=true", ""),
        ("SCRAM-SHA-512", b"c=biws,r=" + SECRET.encode() + b",p=" + SECRET.encode(), ""),
        ("OAUTHBEARER", bearer({"sub": "alice"}), "alice"),
        ("OAUTHBEARER", bearer({"sub": "alice", "scope": SECRET}, before="n,a=alice,"), "alice"),
        ("OAUTHBEARER", bearer({"sub": "alice"}, signature=""), "alice"),
        ("OAUTHBEARER", bearer({"sub": 7}), ""),
        ("OAUTHBEARER", bearer({"user": SECRET}), ""),
        ("OAUTHBEARER", bearer([SECRET]), ""),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer " + SECRET.encode() + b"\x01\x01", ""),
        ("OAUTHBEARER", b"\x01", ""),
        ("OAUTHBEARER", b"", ""),
        ("OAUTHBEARER", bearer({"sub": "alice"})[:-1], ""),
        ("OAUTHBEARER", bearer({"sub": "alice"}).replace(b"n,,", b"n,,\x01host=broker"), "alice"),
        ("OAUTHBEARER", bearer({"sub": "alice"}).replace(b"n,,", b"n,," + bearer({"sub": "bob"})[3:-2]), ""),
        ("OAUTHBEARER", DEEP, ""),
        ("GSSAPI", b"\0alice\0" + SECRET.encode(), ""),
        ("OWN", b"\0alice\0" + SECRET.encode(), ""),
        ("", b"\0alice\0" + SECRET.encode(), ""),
    ],
)
def test_a_name_is_read_where_the_token_is_what_its_mechanism_demands(
    mechanism: str, token: bytes, name: str
) -> None:
    assert name_of(mechanism, token) == name


def login(mechanism: str, token: bytes, number: int = 1, version: int = 1) -> list[Event]:
    """Shake hands and log in, in requests, or in raw tokens after a handshake of version 0."""
    handshake = request("SaslHandshake", version, number, mechanism=mechanism)
    accepted = response("SaslHandshake", version, number, mechanisms=[mechanism])
    events = to_broker(handshake) + to_client(accepted)
    if version == 0:
        return events + to_broker(token) + to_client(b"")
    encoded = base64.b64encode(token).decode()
    events += to_broker(request("SaslAuthenticate", 2, number + 1, authBytes=encoded))
    return events + to_client(response("SaslAuthenticate", 2, number + 1))


def used(number: int) -> list[Event]:
    return to_broker(metadata(number)) + to_client(metadata_response(number))


def recorded(events: list[Event], *, segment: int = 60_000, **options: Any) -> list[Record]:
    """What both trackers make of events, however their packets are divided into batches."""
    packets = placed(packets_between(events, segment=segment))
    records = assert_equal(packets, **options)
    assert assert_equal(packets, range(len(packets)), **options) == records
    return records


def names(records: list[Record]) -> list[str]:
    return [record.frame.decode() for record in of_kind(records, Kind.PRINCIPAL)]


@pytest.mark.parametrize("segment", [7, 60_000])
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("PLAIN", b"\0alice\0" + SECRET.encode()),
        ("SCRAM-SHA-512", b"n,,n=alice,r=" + SECRET.encode()),
        ("OAUTHBEARER", bearer({"sub": "alice"})),
    ],
)
def test_the_name_follows_the_frame_that_shows_it(
    mechanism: str, token: bytes, version: int, segment: int
) -> None:
    events = [*used(1), *login(mechanism, token, 2, version), *used(5)]
    records = recorded(events, segment=segment, keeps_principals=True)
    assert names(records) == ["alice"]
    place = next(at for at, record in enumerate(records) if record.kind is Kind.PRINCIPAL)
    before = records[place - 1]
    assert (before.kind is Kind.SASL_TOKEN) == (version == 0)
    assert (before.captured_at, before.position) == (records[place].captured_at, records[place].position)
    assert all(SECRET.encode() not in cut(SCHEMAS, record).frame for record in records)


def test_without_the_setting_no_name_is_read() -> None:
    for version in (0, 1):
        records = recorded([*login("PLAIN", b"\0alice\0" + SECRET.encode(), version=version), *used(5)])
        assert names(records) == []
        assert all(b"alice" not in cut(SCHEMAS, record).frame for record in records)


def test_only_the_first_token_after_a_handshake_shows_a_name() -> None:
    token = base64.b64encode(b"\0bob\0" + SECRET.encode()).decode()
    again = to_broker(request("SaslAuthenticate", 2, 8, authBytes=token))
    events = [*login("PLAIN", b"\0alice\0" + SECRET.encode()), *again]
    assert names(recorded(events, keeps_principals=True)) == ["alice"]


def test_a_client_that_logs_in_again_is_named_again() -> None:
    events = [
        *login("PLAIN", b"\0alice\0" + SECRET.encode()),
        *used(3),
        *login("SCRAM-SHA-256", b"n,,n=bob,r=" + SECRET.encode(), 4),
        *used(6),
    ]
    assert names(recorded(events, keeps_principals=True)) == ["alice", "bob"]


def test_a_token_without_its_handshake_shows_no_name() -> None:
    events = login("PLAIN", b"\0alice\0" + SECRET.encode())[2:]
    assert names(recorded([*used(1), *events], keeps_principals=True)) == []


def test_a_token_of_another_mechanism_than_it_looks_like_shows_no_name() -> None:
    events = [*login("GSSAPI", b"\0alice\0" + SECRET.encode()), *used(3)]
    assert names(recorded(events, keeps_principals=True)) == []


def test_a_token_that_is_too_long_is_not_looked_at() -> None:
    kept, left = (b"\0alice\0" + SECRET.encode() * size for size in (8_000, 12_000))
    assert names(recorded([*login("PLAIN", kept), *used(3)], keeps_principals=True)) == ["alice"]
    assert names(recorded([*login("PLAIN", left), *used(3)], keeps_principals=True)) == []


def test_a_token_that_was_not_captured_whole_shows_no_name() -> None:
    packets = placed(packets_between([*login("PLAIN", b"\0alice\0" + SECRET.encode()), *used(3)], segment=40))
    shown = 0
    for lost in range(len(packets)):
        records = assert_equal([*packets[:lost], *packets[lost + 1 :]], keeps_principals=True)
        assert set(names(records)) <= {"alice"}
        shown += len(names(records))
    assert 0 < shown < len(packets)
