"""Faults of a broker: a duty that it meets, the alteration of its responses, and the rule that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streaming.record.rewriting import Alter, Body, error_code, in_body
from tests.streaming.probe.model_broker import SCHEMAS, ZERO

ORDERLY = "orderly-list-of-versions"
HEARTBEATS = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
OTHER_ID = "zzzzdTIoQMuWKqjv0mmNEw"
ACCEPTED = error_code(42, 0)


class Fault(NamedTuple):
    """`newest` is the newest ApiVersions of the broker that has the fault; `login`: who logs in finds it."""

    rule: str
    duty: str
    make: Callable[[], Alter]
    newest: int = 5
    login: bool = False


def _body(change: Callable[[Body], Body | None], *apis: str, since: int = 0) -> Alter:
    return in_body(SCHEMAS, change, *apis, since=since)


def _listing(api: str, lowest: int = 0, highest: int = 0) -> Alter:
    """Move the ends of an API's range, wherever all ranges are listed."""
    api_key = SCHEMAS.api_named(api).key  # type: ignore[union-attr]

    def change(body: Body) -> Body:
        for entry in body["apiKeys"]:
            if entry["apiKey"] == api_key and len(body["apiKeys"]) > 1:
                entry["minVersion"] += lowest
                entry["maxVersion"] += highest
        return body

    return _body(change, "ApiVersions")


def _every_other() -> Alter:
    """List another range every other time."""
    narrowed, turns = _listing("Fetch", highest=-1), iter(range(10_000))
    return lambda asked, response: narrowed(asked, response) if next(turns) % 2 else response


def _closing_upon(api: str, version: int) -> Alter:
    return lambda asked, response: None if asked[1:] == (api, version) else response


def _where_refused(change: Callable[[bytes], bytes]) -> Alter:
    """Change the bytes of a refusal of an ApiVersions version."""
    refused = (35).to_bytes(2)
    return lambda asked, frame: (
        change(frame) if asked.api == "ApiVersions" and frame[4:6] == refused else frame
    )


def _bytes(change: Callable[[bytes], bytes]) -> Alter:
    return lambda _asked, frame: change(frame)


FAULTS = (
    Fault("kip35/ranges-changed", "one-list-of-versions", _every_other),
    Fault("kip35/ranges-withheld", "one-list-of-versions", _every_other, login=True),
    Fault("kip35/range-inverted", ORDERLY, lambda: _listing("Fetch", lowest=100)),
    Fault("kip35/apiversions-v0-dropped", ORDERLY, lambda: _listing("ApiVersions", lowest=1)),
    Fault(
        "kip1313/sasl-handshake-raised",
        ORDERLY,
        lambda: _listing("SaslHandshake", highest=1),
    ),
    Fault("kip35/advertised-version-refused", "serves-what-it-lists", lambda: _closing_upon("ListGroups", 0)),
    Fault(
        "kip511/unsupported-answer-not-v0",
        "unknown-version",
        lambda: _where_refused(lambda frame: frame[:4] + b"\0" + frame[4:]),
    ),
    Fault(
        "kip511/unsupported-answer-without-range",
        "unknown-version",
        lambda: _where_refused(lambda frame: frame[:6] + bytes(4)),
    ),
    Fault("kip511/unknown-version-closed", "unknown-version", lambda: _closing_upon("ApiVersions", 4), 3),
    Fault(
        "kip511/wellformed-name-refused",
        "well-formed-software",
        lambda: _body(error_code(0, 42), "ApiVersions", since=3),
    ),
    Fault(
        "kip1242/rebootstrap-without-cause",
        "well-formed-software",
        lambda: _body(error_code(0, 129), "ApiVersions", since=3),
    ),
    Fault(
        "kip511/malformed-name-accepted",
        "malformed-software",
        lambda: _body(ACCEPTED, "ApiVersions"),
    ),
    Fault(
        "kip1242/half-identified-accepted",
        "half-identified",
        lambda: _body(ACCEPTED, "ApiVersions"),
    ),
    Fault(
        "kip1242/misrouted-accepted",
        "misrouted",
        lambda: _body(error_code(129, 0), "ApiVersions"),
    ),
    Fault("kip1082/member-id-empty-accepted", "member-id-empty", lambda: _body(ACCEPTED, *HEARTBEATS)),
    Fault(
        "kip1082/member-id-not-assigned",
        "member-id-assigned",
        lambda: _body(lambda body: body | {"memberId": None}, *HEARTBEATS),
    ),
    Fault(
        "kip1082/member-id-rewritten",
        "member-id-kept",
        lambda: _body(lambda body: body | {"memberId": OTHER_ID}, *HEARTBEATS),
    ),
    Fault(
        "kip1082/member-id-refused",
        "member-id-kept",
        lambda: _body(error_code(0, 42), *HEARTBEATS),
    ),
    Fault(
        "kip1313/telemetry-id-not-assigned",
        "telemetry-id-assigned",
        lambda: _body(lambda body: body | {"clientInstanceId": ZERO}, "GetTelemetrySubscriptions"),
    ),
    Fault(
        "kip1313/telemetry-id-not-echoed",
        "telemetry-id-echoed",
        lambda: in_body(
            SCHEMAS, lambda body: body | {"clientInstanceId": OTHER_ID}, "GetTelemetrySubscriptions"
        ),
    ),
    Fault("kip1313/header-v3-not-offered", "header-v3", lambda: _listing("Fetch", highest=-1), 6),
    Fault(
        "kip1313/instance-id-accepted-wrongly",
        "instance-id-checked",
        lambda: _body(ACCEPTED, "ConsumerGroupHeartbeat", since=2),
        6,
    ),
    Fault(
        "kip1313/sasl-handshake-refused",
        "handshake-without-instance-id",
        lambda: _body(lambda body: body | {"errorCode": 42}, "SaslHandshake"),
        6,
    ),
    Fault(
        "wire/correlation-mismatch",
        "responses-in-order",
        lambda: _bytes(lambda frame: frame[:3] + bytes([frame[3] ^ 64]) + frame[4:]),
    ),
    Fault("wire/malformed-response", "responses-in-order", lambda: _bytes(lambda frame: frame[:-1])),
    Fault("wire/trailing-bytes", "responses-in-order", lambda: _bytes(lambda frame: frame + b"\0")),
)
