"""The duties of a broker, by the five KIPs and the protocol: what is asked, and which rules judge it.

Duties that change nothing on the broker are always asked, those that join a group only with `--writes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

from decoders.protocol import API_VERSIONS, NAMES_BROKER_FROM, NAMES_SOFTWARE_FROM
from expectations.identity.known_ranges import ENOUGH_CLOSES
from expectations.report.coverage import Coverage
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import rule_named
from streaming.probe.client import GROUP, HEARTBEATS, LEAVE, SOFTWARE
from streaming.probe.plays import (
    EDGES,
    NO_NODE_HAS,
    Play,
    ask_before_and_after_login,
    ask_edge,
    ask_the_version_above,
    ask_three_at_once,
    ask_unknown_api,
    ask_unknown_version,
    ask_versions,
    beat_as,
    begin_with_header_v3,
    change_instance_id,
    give_null,
    join_without_id,
    live_as_member,
    meet_named_broker,
    send_bytes,
    shake_hands_after_id,
    subscribe_to_telemetry,
)
from streaming.record.provocations import ANOTHER_CLUSTER, PROVOCATIONS


@dataclass(frozen=True)
class Duty:
    """One duty of a broker.

    `says` is what the broker must do, `rules` judge it. Each of the `plays` has a connection of its own.
    A duty that `writes` joins a group. With `before_login` the plays begin before the login.
    """

    name: str
    says: str
    rules: tuple[str, ...]
    plays: tuple[Play, ...]
    writes: bool = False
    before_login: bool = False


WELLFORMED: Final = ("apache-kafka.java", "0.0.0-SNAPSHOT", "x", "9")
MALFORMED: Final = (
    "java@apache_kafka",
    "-apache-kafka-java",
    "apache-kafka-java.",
    "",
    "RP Console",
    "\u00e9",
)
UNKNOWN_VERSIONS: Final = (99, 32_767, -1, -32_768)
HALVES: Final[tuple[dict[str, Any], ...]] = (
    {"clusterId": "a"},
    {"clusterId": ""},
    {"nodeId": 1},
    {"nodeId": -2},
)
MEMBER: Final = "kcjqdTIoQMuWKqjv0mmNEw"
FORMS: Final = (
    MEMBER,
    "91c8ea75-3228-40cb-962a-a8efd2698d13",
    "91c8ea75322840cb962aa8efd2698d13",
    f"{MEMBER}==",
)
"""A UUID in each form in which clients write it."""
ANOTHER_ID: Final = bytes(15) + b"\7"
_WRONG_SIZES: Final = (
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\x7f\xff\xff\xff",
    b"\0\0\0\0",
    b"\0\0\0\3\0\0\0",
)
"""Lengths that no request has: negative ones, the largest, none at all, and less than a header."""


def _software(**claims: Any) -> tuple[Play, ...]:
    return tuple(partial(ask_versions, version=version, **claims) for version in (3, 4, 5))


_LEAVING: Final = {"groupId": GROUP, "memberId": MEMBER, "memberEpoch": LEAVE}
_HEADER: Final = API_VERSIONS.to_bytes(2) + b"\0\3" + b"\0\0\0\1"

DUTIES: Final = (
    Duty(
        "one-list-of-versions",
        "gives the same list of versions throughout a connection, before a login and after it",
        ("kip35/ranges-changed", "kip35/ranges-withheld"),
        (ask_before_and_after_login,) * ENOUGH_CLOSES,
        before_login=True,
    ),
    Duty(
        "orderly-list-of-versions",
        "gives each API one range, ApiVersions from version 0 and SaslHandshake up to version 1",
        ("kip35/range-inverted", "kip35/apiversions-v0-dropped", "kip1313/sasl-handshake-raised"),
        tuple(
            partial(ask_versions, version=version) for version in (0, NAMES_SOFTWARE_FROM, NAMES_BROKER_FROM)
        ),
    ),
    Duty(
        "serves-what-it-lists",
        "responds to the lowest and the highest version of each API that it lists, if that changes nothing",
        ("kip35/advertised-version-refused",),
        tuple(partial(ask_edge, api=api, newest=newest) for api in EDGES for newest in (False, True)),
    ),
    Duty(
        "unknown-api",
        "responds to an API that it does not have with nothing but a close or a well-formed response",
        ("wire/answer-without-request",),
        (ask_unknown_api,),
    ),
    Duty(
        "unknown-version",
        "responds to an unknown version of ApiVersions in the layout of version 0: error 35, and its range",
        (
            "kip511/unsupported-answer-not-v0",
            "kip511/unsupported-answer-without-range",
            "kip511/unknown-version-closed",
        ),
        (
            ask_the_version_above,
            *(partial(ask_unknown_version, version=version) for version in UNKNOWN_VERSIONS),
        ),
    ),
    Duty(
        "well-formed-software",
        "takes a well-formed software name and version, and sends nobody away without a cause",
        ("kip511/wellformed-name-refused", "kip1242/rebootstrap-without-cause"),
        tuple(
            play
            for text in WELLFORMED
            for play in _software(clientSoftwareName=text, clientSoftwareVersion=text)
        ),
    ),
    Duty(
        "malformed-software",
        "refuses a malformed software name or version with INVALID_REQUEST",
        ("kip511/malformed-name-accepted",),
        tuple(
            play
            for text in MALFORMED
            for field in ("clientSoftwareName", "clientSoftwareVersion")
            for play in _software(**{field: text})
        ),
    ),
    Duty(
        "half-identified",
        "refuses a client that names a cluster without a node, or the reverse, with INVALID_REQUEST",
        ("kip1242/half-identified-accepted",),
        tuple(partial(ask_versions, version=NAMES_BROKER_FROM, **half) for half in HALVES),
    ),
    Duty(
        "misrouted",
        "tells a client that means another cluster or node to rebootstrap",
        ("kip1242/misrouted-accepted",),
        (
            partial(meet_named_broker, clusterId=ANOTHER_CLUSTER, nodeId=NO_NODE_HAS),
            partial(meet_named_broker, nodeId=NO_NODE_HAS),
        ),
    ),
    Duty(
        "well-routed",
        "takes a client that means this cluster and node",
        ("kip1242/misrouted-accepted", "kip1242/rebootstrap-without-cause"),
        (meet_named_broker,),
    ),
    Duty(
        "member-id-assigned",
        "gives a member ID to a consumer that joins by version 0 without one",
        ("kip1082/member-id-not-assigned",),
        (join_without_id,),
        writes=True,
    ),
    Duty(
        "member-id-kept",
        "takes the member ID that a client has made, in any form, and keeps it",
        ("kip1082/member-id-rewritten", "kip1082/member-id-refused"),
        tuple(partial(live_as_member, member_id=member_id) for member_id in FORMS),
        writes=True,
    ),
    Duty(
        "member-id-empty",
        "refuses a heartbeat without a member ID, where it must have one, with INVALID_REQUEST",
        ("kip1082/member-id-empty-accepted",),
        tuple(
            partial(beat_as, api=api, version=version, member_id=member_id, epoch=epoch)
            for (api, version), epoch, member_id in product(HEARTBEATS, (1, LEAVE), ("", " \t"))
        ),
    ),
    Duty(
        "telemetry-id-assigned",
        "assigns an instance ID to a telemetry client that has none",
        ("kip1313/telemetry-id-not-assigned",),
        (subscribe_to_telemetry,),
    ),
    Duty(
        "telemetry-id-echoed",
        "returns a telemetry client's own instance ID",
        ("kip1313/telemetry-id-not-echoed",),
        (partial(subscribe_to_telemetry, clientInstanceId=MEMBER),),
    ),
    Duty(
        "header-v3",
        "offers request header v3 for every API, and asks for the client ID once",
        ("kip1313/header-v3-not-offered",),
        (begin_with_header_v3,),
    ),
    Duty(
        "instance-id-checked",
        "refuses a request whose client instance ID is missing or has changed",
        ("kip1313/instance-id-accepted-wrongly",),
        tuple(
            partial(change_instance_id, instance_id=instance_id) for instance_id in (bytes(16), ANOTHER_ID)
        ),
    ),
    Duty(
        "handshake-without-instance-id",
        "takes SaslHandshake without an instance ID on a connection that has one",
        ("kip1313/sasl-handshake-refused",),
        (shake_hands_after_id,),
    ),
    Duty(
        "responses-in-order",
        "responds to requests in their order, each with its own correlation ID",
        ("wire/correlation-mismatch", "wire/answer-without-request"),
        (ask_three_at_once,),
    ),
    Duty(
        "malformed-request",
        "responds to a request that cannot be read with nothing but a close or a well-formed response",
        ("wire/malformed-response",),
        (
            # Headers that end in the client ID or in the tags, and nulls where none may be.
            partial(send_bytes, data=b"\0\0\0\x0c" + _HEADER + b"\0\x20ab"),
            partial(send_bytes, data=b"\0\0\0\x0b" + _HEADER + b"\xff\xff\x05"),
            partial(
                give_null,
                api="ApiVersions",
                version=NAMES_SOFTWARE_FROM,
                text="kipwatch-probe",
                body=SOFTWARE,
            ),
            *(
                partial(give_null, api=api, version=version, text=MEMBER, body=_LEAVING)
                for api, version in HEARTBEATS
            ),
        ),
    ),
    Duty(
        "wrong-frame-size",
        "responds to a frame of a size that no request has with nothing but a close, and serves others on",
        ("wire/frame-size-invalid",),
        tuple(partial(send_bytes, data=size) for size in _WRONG_SIZES),
    ),
)
"""All duties, in the order in which they are asked: a group has a coordinator once it was joined."""


def exercises(rule: Rule) -> list[str]:
    """Return the commands that let a rule judge something; none if only a client's own traffic can."""
    duties = [duty.name for duty in DUTIES if rule.id in duty.rules]
    provocations = [each.name for each in PROVOCATIONS if rule.id in each.rules]
    asked = [f"kipwatch probe ({', '.join(duties)})"] if duties else []
    return asked + ([f"kipwatch record --provoke {','.join(provocations)}"] if provocations else [])


def unexercised(coverage: Iterable[Coverage]) -> Iterator[str]:
    """Yield a line for each rule that decided nothing: what it needs, and the command that provides it."""
    for row in coverage:
        if not row.exercised:
            rule = rule_named(row.rule)
            by = "; ".join(exercises(rule))
            yield f"{rule.id} needs {rule.needs}" + (f": {by}" if by else "")
