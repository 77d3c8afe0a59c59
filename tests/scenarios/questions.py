"""Questions to a real broker: requests that the KIPs define a response for, and altered responses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from expectations.conversation.identifier import identifier_bytes
from streaming.demo.instance_client import InstanceClient
from tests.scenarios.alteration import Alter, replacing, with_error
from tests.scenarios.requests import (
    GROUP,
    HEARTBEATS,
    JOIN,
    LEAVE,
    beat,
    negotiate,
    send,
    send_as_version,
    send_null,
)

API_VERSIONS_ERROR = 4
"""Where an ApiVersions response has its error: behind response header 0."""
HEARTBEAT_ERROR = 9
"""Behind response header 1 and the throttle time."""
MEMBER, OTHER_MEMBER = "kcjqdTIoQMuWKqjv0mmNEw", "zzzzdTIoQMuWKqjv0mmNEw"
SUBSCRIBED_ID, OTHER_ID = MEMBER, OTHER_MEMBER
WELLFORMED = ("apache-kafka.java", "0.0.0-SNAPSHOT", "x", "9")
MALFORMED = ("java@apache_kafka", "-apache-kafka-java", "apache-kafka-java.", "", "RP Console", "\u00e9")
HALVES: tuple[dict[str, Any], ...] = (
    {"clusterId": "a"},
    {"clusterId": ""},
    {"nodeId": 1},
    {"nodeId": -2},
)
MISROUTED: tuple[dict[str, Any], ...] = (
    {"clusterId": "another", "nodeId": 1},
    {"clusterId": "", "nodeId": 0},
)

Play = Callable[[InstanceClient], object]


@dataclass(frozen=True)
class Question:
    """A request, the rule that it breaks, and the rule that a broker breaks with another response."""

    name: str
    play: Play
    offences: frozenset[str] = frozenset()
    altered: Alter | None = None
    fault: str = ""


def _question(name: str, play: Play, *offences: str, alter: Alter | None = None, fault: str = "") -> Question:
    return Question(name, play, frozenset(offences), alter, fault)


def _api_versions() -> list[Question]:
    refused = with_error(API_VERSIONS_ERROR, 0, 42)
    sent_away = with_error(API_VERSIONS_ERROR, 0, 129)
    return [
        *(_question(f"ApiVersions v{version}", partial(negotiate, version=version)) for version in range(5)),
        *(
            _question(
                f"ApiVersions v{version}, refused",
                partial(negotiate, version=version),
                alter=refused,
                fault="kip511/wellformed-name-refused",
            )
            for version in (3, 4, 5)
        ),
        *(
            _question(
                f"ApiVersions v{version}, sent away",
                partial(negotiate, version=version),
                alter=sent_away,
                fault="kip1242/rebootstrap-without-cause",
            )
            for version in (0, 3, 5)
        ),
    ]


def _unsupported() -> list[Question]:
    questions = []
    for version in (6, 99, 32_767, -1, -32_768):
        ask = partial(send_as_version, api="ApiVersions", written=3, claimed=version, **_software())
        asked = [
            ("", None, ""),
            (", response behind header 1", _behind_header_1, "kip511/unsupported-answer-not-v0"),
            (", response without a range", _without_range, "kip511/unsupported-answer-without-range"),
        ]
        questions += [
            _question(f"ApiVersions v{version}{how}", ask, "wire/unknown-api", alter=alter, fault=fault)
            for how, alter, fault in asked
        ]
    return questions


def _software(name: str = "tester", version: str = "1") -> dict[str, Any]:
    return {"clientSoftwareName": name, "clientSoftwareVersion": version}


def _behind_header_1(frame: bytes) -> bytes:
    return frame[:4] + b"\0" + frame[4:]


def _without_range(frame: bytes) -> bytes:
    return frame[:6] + bytes(4)


def _software_names() -> list[Question]:
    accepted = with_error(API_VERSIONS_ERROR, 42, 0)
    questions = [
        _question(f"software {text}", partial(negotiate, **_software(text, text))) for text in WELLFORMED
    ]
    for text in MALFORMED:
        for version in (3, 4, 5):
            for claims, rule in (
                (_software(name=text), "kip511/software-name-malformed"),
                (_software(version=text), "kip511/software-version-malformed"),
            ):
                ask = partial(negotiate, version=version, **claims)
                name = f"{rule} {text!r} in v{version}"
                fault = "kip511/malformed-name-accepted"
                questions += [
                    _question(name, ask, rule),
                    _question(f"{name}, accepted", ask, rule, alter=accepted, fault=fault),
                ]
    null = partial(send_null, api="ApiVersions", version=3, text="nameless", **_software("nameless"))
    return [*questions, _question("a null name", null, "wire/malformed-request")]


def _identities() -> list[Question]:
    accepted = with_error(API_VERSIONS_ERROR, 42, 0)
    questions = []
    for half in HALVES:
        ask = partial(negotiate, **half)
        fault = "kip1242/half-identified-accepted"
        questions += [
            _question(f"half identified {half}", ask, "kip1242/half-identified"),
            _question(f"{half}, accepted", ask, "kip1242/half-identified", alter=accepted, fault=fault),
        ]
    for wrong in MISROUTED:
        questions += [
            _question(f"misrouted {wrong}", partial(negotiate, **wrong), "kip1242/misrouted"),
            _question(
                f"misrouted {wrong}, accepted",
                partial(_describe_afterwards, claims=wrong),
                alter=with_error(API_VERSIONS_ERROR, 129, 0),
                fault="kip1242/misrouted-accepted",
            ),
        ]
    return [*questions, _question("the right cluster and node", _meet_again)]


def _describe_afterwards(client: InstanceClient, claims: dict[str, Any]) -> None:
    negotiate(client, **claims)
    client.request("Metadata", {}, version=12)


def _meet_again(client: InstanceClient) -> None:
    cluster = client.request("Metadata", {}, version=12)["clusterId"]
    negotiate(client, clusterId=cluster, nodeId=1)
    client.request("DescribeCluster", {}, version=0)


def _member_ids() -> list[Question]:
    accepted = with_error(HEARTBEAT_ERROR, 42, 0)
    questions = []
    for api, version in HEARTBEATS:
        for epoch in (JOIN, 1, LEAVE):
            for member_id in ("", " \t"):
                ask = partial(beat, member_id=member_id, epoch=epoch, api=api, version=version)
                name = f"{api} v{version}, epoch {epoch}, member {member_id!r}"
                fault = "kip1082/member-id-empty-accepted"
                offence = "kip1082/member-id-empty"
                questions += [
                    _question(name, ask, offence),
                    _question(f"{name}, accepted", ask, offence, alter=accepted, fault=fault),
                ]
        body: dict[str, Any] = {"groupId": GROUP, "memberId": MEMBER, "memberEpoch": LEAVE}
        null = partial(send_null, api=api, version=version, text=MEMBER, **body)
        offences = ("kip1082/member-id-empty", "wire/malformed-request")
        questions.append(_question(f"{api} v{version}, a null member", null, *offences))
    for epoch in (1, LEAVE):
        ask = partial(beat, member_id="", epoch=epoch, version=0)
        questions.append(_question(f"version 0, epoch {epoch}", ask, "kip1082/member-id-empty"))
    late = partial(beat, member_id="", epoch=JOIN, version=0)
    long = partial(beat, member_id="x" * 37, epoch=LEAVE, api="ShareGroupHeartbeat")
    too_long = ("kip1082/member-id-too-long", "kip1082/member-id-not-uuid")
    return [
        *questions,
        _question("a join by version 0", late, "kip1082/member-id-assigned-late"),
        _question("a long member of a share group", long, *too_long),
        _question("one life of a member", _live),
        _question(
            "one life of a member, renamed",
            _live,
            alter=replacing(MEMBER.encode(), OTHER_MEMBER.encode()),
            fault="kip1082/member-id-rewritten",
        ),
    ]


def _live(client: InstanceClient) -> None:
    negotiate(client)
    joined = beat(client, MEMBER, JOIN)
    assert joined["errorCode"] == 0
    for epoch in (joined["memberEpoch"], LEAVE, JOIN, LEAVE):
        beat(client, MEMBER, epoch)


def _telemetry() -> list[Question]:
    given: dict[str, Any] = {"clientInstanceId": SUBSCRIBED_ID}
    echoed = partial(send, api="GetTelemetrySubscriptions", version=0, **given)
    assigned = partial(send, api="GetTelemetrySubscriptions", version=0)
    other = replacing(_bytes_of(SUBSCRIBED_ID), _bytes_of(OTHER_ID))
    return [
        _question("an instance ID is asked for", assigned),
        _question(
            "an instance ID is asked for, none given",
            assigned,
            alter=_without_instance_id,
            fault="kip1313/telemetry-id-not-assigned",
        ),
        _question("an instance ID is given", echoed),
        _question(
            "an instance ID is given, not echoed",
            echoed,
            alter=other,
            fault="kip1313/telemetry-id-not-echoed",
        ),
        _question("a push without an ID", partial(send, api="PushTelemetry", version=0, metrics="")),
    ]


def _bytes_of(text: str) -> bytes:
    return identifier_bytes(text) or b""


def _without_instance_id(frame: bytes) -> bytes:
    """The ID is behind response header 1, the throttle time and the error."""
    return frame[:11] + bytes(16) + frame[27:]


def _out_of_range() -> list[Question]:
    closing = (("Metadata", 99), ("Fetch", 3), ("FindCoordinator", 99), ("ListOffsets", 99))
    questions = [
        _question(
            f"{api} v{version}",
            partial(send_as_version, api=api, written=6, claimed=version),
            "wire/unknown-api",
        )
        for api, version in closing
    ]
    unstable = partial(send, api="InitProducerId", version=6, transactionTimeoutMs=1_000)
    return [*questions, _question("an unstable version", unstable)]


QUESTIONS = [
    *_api_versions(),
    *_unsupported(),
    *_software_names(),
    *_identities(),
    *_member_ids(),
    *_telemetry(),
    *_out_of_range(),
]
