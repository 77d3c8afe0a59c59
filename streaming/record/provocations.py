"""Provocations: responses that a relay alters, and how a client must react by the KIPs.

A provocation gets the number of each connection, so that it can alter every other one: a client that is
refused on one connection must succeed on the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from decoders.codec.response import write_response
from decoders.protocol import (
    API_VERSIONS,
    HEARTBEAT_APIS,
    INVALID_REQUEST,
    NAMES_BROKER_FROM,
    NAMES_SOFTWARE_FROM,
    NO_ERROR,
    REBOOTSTRAP_REQUIRED,
    UNSUPPORTED_VERSION,
)
from decoders.schema.registry import Schemas
from streaming.record.rewriting import Alter, Body, ForwardedRequest, error_code, in_body, unaltered

Begin = Callable[[Schemas, int], Alter]
"""Begins a connection by its number, from 0, and returns how its responses are altered."""

HEARTBEATS: Final = tuple(HEARTBEAT_APIS.values())
SPARED: Final = (
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "OffsetForLeaderEpoch",
    "DescribeConfigs",
    "DescribeCluster",
)
"""APIs that a client can do without."""
NEVER: Final = -1
"""The newest version of an API that is not listed."""
FENCED_MEMBER_EPOCH: Final = 110
ANOTHER_CLUSTER: Final = "kipwatch-another-cluster"
MANY: Final = 8
"""Responses after which a connection is closed."""


@dataclass(frozen=True)
class Provocation:
    """`says` tells what seems to happen and how a client must react; `rules` judge whether it does."""

    name: str
    says: str
    rules: tuple[str, ...]
    begin: Begin


class Provoking:
    """A provocation in use. `altered` counts the responses that were altered, or replaced by a close."""

    def __init__(self, provocation: Provocation) -> None:
        self.provocation = provocation
        self.altered = 0

    def begin(self, schemas: Schemas, connection: int) -> Alter:
        treat = self.provocation.begin(schemas, connection)

        def alter(asked: ForwardedRequest, response: bytes) -> bytes | None:
            got = treat(asked, response)
            self.altered += got != response
            return got

        return alter


def _lists(schemas: Schemas, change: Callable[[Body], Body]) -> Alter:
    """List less than the broker serves, and close upon requests for the rest, as a broker without it does."""
    newest: dict[int, int] = {}

    def listed(body: Body) -> Body:
        changed = change(body)
        newest.update((entry["apiKey"], entry["maxVersion"]) for entry in changed["apiKeys"])
        return changed

    rewritten = in_body(schemas, listed, "ApiVersions")

    def alter(asked: ForwardedRequest, response: bytes) -> bytes | None:
        if newest and asked.api_key != API_VERSIONS and asked.version > newest.get(asked.api_key, NEVER):
            return None
        return rewritten(asked, response)

    return alter


def _refuse_new_versions(schemas: Schemas, connection: int) -> Alter:
    """Refuse new versions of ApiVersions as older brokers do.

    Every other connection gets no range of versions with error 35, as from brokers before Kafka 2.4.
    """
    own = {"apiKey": API_VERSIONS, "minVersion": 0, "maxVersion": NAMES_SOFTWARE_FROM - 1}
    refusal = {"errorCode": UNSUPPORTED_VERSION, "apiKeys": [own] if connection % 2 else []}

    def change(body: Body) -> Body:
        others = [entry for entry in _without_newest(body)["apiKeys"] if entry["apiKey"] != API_VERSIONS]
        return body | {"apiKeys": [own, *others]}

    older = _lists(schemas, change)

    def alter(asked: ForwardedRequest, response: bytes) -> bytes | None:
        altered = older(asked, response)
        if asked.api_key != API_VERSIONS or asked.version < NAMES_SOFTWARE_FROM:
            return altered
        return write_response(schemas, API_VERSIONS, 0, int.from_bytes(response[:4], signed=True), refusal)

    return alter


def _without_newest(body: Body) -> Body:
    """Withhold the newest version of each API, except of ApiVersions."""
    for entry in body["apiKeys"]:
        is_wide = entry["minVersion"] < entry["maxVersion"]
        entry["maxVersion"] -= is_wide and entry["apiKey"] != API_VERSIONS
    return body


def _narrow(schemas: Schemas, _connection: int) -> Alter:
    return _lists(schemas, _without_newest)


def _withdraw(schemas: Schemas, _connection: int) -> Alter:
    names = schemas.api_names

    def change(body: Body) -> Body:
        kept = [entry for entry in body["apiKeys"] if names.get(entry["apiKey"]) not in SPARED]
        return body | {"apiKeys": kept}

    return _lists(schemas, change)


def _every_other(begin: Begin, first: int = 0) -> Begin:
    """Alter the responses of every other connection, from number `first` on."""
    return lambda schemas, number: begin(schemas, number) if number % 2 == first else unaltered


def _with_error(code: int, since: int) -> Begin:
    """Refuse ApiVersions with an error and, as Kafka does, without a list, in versions from `since` on."""

    def change(body: Body) -> Body | None:
        return {"errorCode": code, "apiKeys": []} if body["errorCode"] == NO_ERROR else None

    return lambda schemas, _: in_body(schemas, change, "ApiVersions", since=since)


def _rename_cluster(schemas: Schemas, _connection: int) -> Alter:
    return in_body(
        schemas,
        lambda body: body | {"clusterId": ANOTHER_CLUSTER} if "clusterId" in body else None,
        "Metadata",
        "DescribeCluster",
    )


def _heartbeats(every: int, treat: Callable[[Schemas], Alter]) -> Begin:
    """Alter each `every`th response to a heartbeat of a connection. The first one may be to a join."""

    def begin(schemas: Schemas, _connection: int) -> Alter:
        beats, altered = count(1), treat(schemas)

        def alter(asked: ForwardedRequest, response: bytes) -> bytes | None:
            is_due = asked.api in HEARTBEATS and next(beats) % every == 0
            return altered(asked, response) if is_due else response

        return alter

    return begin


def _fence(schemas: Schemas) -> Alter:
    return in_body(schemas, error_code(NO_ERROR, FENCED_MEMBER_EPOCH), *HEARTBEATS)


def _close(_asked: ForwardedRequest, _response: bytes) -> None:
    return None


def _close_after_many(_schemas: Schemas, _connection: int) -> Alter:
    responses = count(1)
    return lambda _asked, response: response if next(responses) < MANY else None


_NEGOTIATES: Final = ("kip35/negotiation-not-repeated", "kip35/broker-not-asked")

PROVOCATIONS: Final = (
    Provocation(
        "versions-refused",
        "an older broker refuses ApiVersions from version 3 on with error 35, and a range on every other "
        "connection: the client asks within it, or by version 0, and goes by the list",
        ("kip511/fallback-version-wrong", "kip35/refused-version-repeated", "kip35/version-out-of-range"),
        _refuse_new_versions,
    ),
    Provocation(
        "software-refused",
        "every other connection's ApiVersions is refused with INVALID_REQUEST: the client closes that one",
        ("kip511/connection-kept",),
        _every_other(_with_error(INVALID_REQUEST, NAMES_SOFTWARE_FROM)),
    ),
    Provocation(
        "older-broker",
        "each API lacks its newest version: the client uses older ones",
        ("kip35/version-out-of-range",),
        _narrow,
    ),
    Provocation(
        "api-withdrawn",
        f"{', '.join(SPARED)} are not offered: the client does without",
        ("kip35/api-not-advertised",),
        _withdraw,
    ),
    Provocation(
        "mixed-brokers",
        "every other connection lacks the newest versions, as in an upgrade: the client goes by each list",
        (*_NEGOTIATES, "kip35/version-out-of-range"),
        _every_other(_narrow, first=1),
    ),
    Provocation(
        "rebootstrap",
        "every other connection is answered with error 129: the client leaves it, and forgets whom it meant",
        ("kip1242/rebootstrap-ignored", "kip1242/rebootstrap-with-ids"),
        _every_other(_with_error(REBOOTSTRAP_REQUIRED, NAMES_BROKER_FROM), first=1),
    ),
    Provocation(
        "another-cluster",
        "the cluster goes by an ID that no broker takes: the client is told to rebootstrap, and forgets it",
        ("kip1242/half-identified", "kip1242/rebootstrap-ignored", "kip1242/rebootstrap-with-ids"),
        _rename_cluster,
    ),
    Provocation(
        "heartbeats-lost",
        "connections break where a heartbeat's response was due: the client goes on as the same member",
        (
            "kip1082/member-id-assigned-late",
            "kip1082/member-id-changed",
            "kip1082/member-id-shared",
            "kip1082/member-ghost",
            "kip1313/instance-id-not-kept",
            *_NEGOTIATES,
        ),
        # A member of few records joins, sends one heartbeat and leaves.
        _heartbeats(2, lambda _schemas: _close),
    ),
    Provocation(
        "members-fenced",
        "members are fenced: the client joins again under the same ID, and commits under it",
        ("kip1082/member-id-changed", "kip1082/member-id-not-used"),
        # Not the second: the heartbeat after a join brings the partitions that the member is to read.
        _heartbeats(3, _fence),
    ),
    Provocation(
        "connections-closed",
        f"each connection breaks after {MANY - 1} responses: the client connects as the same instance, says "
        "whom it means, asks for the versions and logs in again",
        (
            *_NEGOTIATES,
            "kip35/request-before-sasl",
            "kip1242/ids-withheld",
            "kip1313/instance-id-not-lifelong",
            "kip1313/instance-id-shared",
        ),
        _close_after_many,
    ),
)
"""All provocations. Each is played in a run of the command of its own."""
