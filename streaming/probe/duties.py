"""The duties of a broker, by the five KIPs and the protocol: what is asked, and which rules judge it.

Each *play* of a duty has a connection of its own. Duties that change nothing on the broker are always asked,
those that join a group only with `--writes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from decoders.protocol import API_VERSIONS, NAMES_BROKER_FROM, NAMES_SOFTWARE_FROM
from expectations.conversation.texts import identifier_text
from expectations.identity.known_ranges import ENOUGH_CLOSES
from expectations.report.coverage import Coverage
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import rule_named
from streaming.probe.client import (
    GROUP,
    HEARTBEATS,
    JOIN,
    LEAVE,
    SOFTWARE,
    await_success,
    beat,
    find_coordinator,
    negotiate,
    send_null,
)
from streaming.probe.connection import NotOfferedError, ProbingClient
from streaming.record.provocations import PROVOCATIONS

Play = Callable[[ProbingClient], object]
"""Asks on one connection. Raises ConnectionClosedError, or NotOfferedError if there is nothing to ask."""


@dataclass(frozen=True)
class Duty:
    """One duty of a broker.

    `says` is what the broker must do, `rules` judge it. `offences` are rules that the probe itself breaks on
    purpose. With `may_close` the broker conforms by closing the connection, too. `before_login` leaves the
    login to the plays.
    """

    name: str
    says: str
    rules: tuple[str, ...]
    plays: tuple[Play, ...]
    offences: frozenset[str] = frozenset()
    writes: bool = False
    before_login: bool = False


HEADER_V3: Final = 6
"""The first version of ApiVersions on request header v3."""
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
ANOTHER_CLUSTER: Final = "kipwatch-another-cluster"
NO_NODE_HAS: Final = 2_147_483_646
"""A node ID that no broker has."""
MEMBER: Final = "kcjqdTIoQMuWKqjv0mmNEw"
FORMS: Final = (
    MEMBER,
    "91c8ea75-3228-40cb-962a-a8efd2698d13",
    "91c8ea75322840cb962aa8efd2698d13",
    f"{MEMBER}==",
)
"""A UUID in each form in which clients write it."""
ANOTHER_ID: Final = bytes(15) + b"\7"
UNKNOWN_API: Final = 999
EDGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "ApiVersions": SOFTWARE,
    "ConsumerGroupDescribe": {},
    "DescribeCluster": {},
    "DescribeConfigs": {},
    "DescribeGroups": {},
    "DescribeProducers": {},
    "DescribeTransactions": {},
    "GetTelemetrySubscriptions": {},
    "ListConfigResources": {},
    "ListGroups": {},
    "ListOffsets": {"replicaId": -1},
    "Metadata": {"topics": [], "allowAutoTopicCreation": False},
    "OffsetFetch": {"groupId": GROUP, "groups": [{"groupId": GROUP}]},
    "OffsetForLeaderEpoch": {"replicaId": -2},
    "ShareGroupDescribe": {},
}
"""APIs that change nothing, each with a body that asks for next to nothing, in any version."""
_FIRST_THAT_ASKS_FOR_LITTLE: Final = {"Metadata": 4, "ListConfigResources": 1}
"""Older versions list everything, or create a topic."""
_WRONG_SIZES: Final = (
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\x7f\xff\xff\xff",
    b"\0\0\0\0",
    b"\0\0\0\3\0\0\0",
)
"""Lengths that no request has: negative ones, the largest, none at all, and less than a header."""


def _api_versions(client: ProbingClient, version: int, **claims: Any) -> None:
    negotiate(client, client.need("ApiVersions", version), **claims)


def _software(**claims: Any) -> tuple[Play, ...]:
    return tuple(partial(_api_versions, version=version, **claims) for version in (3, 4, 5))


def _ask_before_and_after_login(client: ProbingClient) -> None:
    negotiate(client, 0)
    client.log_in()
    negotiate(client, 0)


def _ask_the_version_above(client: ProbingClient) -> None:
    """Ask in a version that the schemas have and the broker has not, short of header v3."""
    _, highest = client.target.ranges.get("ApiVersions", (0, HEADER_V3))
    if highest + 1 >= HEADER_V3:
        raise NotOfferedError("a version of ApiVersions that it lacks")
    negotiate(client, highest + 1)


def _ask_unknown_version(client: ProbingClient, version: int) -> None:
    frame = client.frame("ApiVersions", NAMES_SOFTWARE_FROM, SOFTWARE)
    client.exchange(frame[:2] + version.to_bytes(2, signed=True) + frame[4:], "ApiVersions", version)


def _ask_edge(client: ProbingClient, api: str, *, newest: bool) -> None:
    lowest, highest = client.target.ranges.get(api, (0, -1))
    known = client.target.schemas.api_named(api)
    if known is None:
        raise NotOfferedError(api)
    lowest = max(lowest, known.versions.lowest, _FIRST_THAT_ASKS_FOR_LITTLE.get(api, 0))
    version = client.need(api, min(highest, known.versions.highest) if newest else lowest)
    fields = {field.name for field in known.request.struct.fields if version in field.versions}
    if api != "ApiVersions":
        negotiate(client, 0)
    client.request(
        api, {name: value for name, value in EDGES[api].items() if name in fields}, version=version
    )


def _ask_unknown_api(client: ProbingClient) -> None:
    negotiate(client, 0)
    client.may_close = True
    frame = client.frame("Metadata", 9, {})
    client.exchange(UNKNOWN_API.to_bytes(2) + frame[2:], "Metadata", 9)


def _meet(client: ProbingClient, **wrong: Any) -> None:
    """Name cluster and node as they are, or as `wrong` has them, and let the broker say who it is."""
    client.need("ApiVersions", NAMES_BROKER_FROM)
    told = client.request("Metadata", {"topics": []}, version=client.need("Metadata", 12))
    nodes = [broker for broker in told.get("brokers", ()) if _is_at(broker, client)] or told.get(
        "brokers", ()
    )
    if not told.get("clusterId") or (len(nodes) != 1 and "nodeId" not in wrong):
        raise NotOfferedError("a Metadata response that tells its cluster, and which node it is")
    right = {"clusterId": told["clusterId"], "nodeId": nodes[0]["nodeId"] if nodes else NO_NODE_HAS}
    met = negotiate(client, **(right | wrong))
    if not met.get("errorCode"):
        client.request("Metadata", {"topics": []}, version=12)


def _is_at(broker: Mapping[str, Any], client: ProbingClient) -> bool:
    """Whether a listed broker has the address that the probe was given, or that its name leads to."""
    given, port = client.target.address
    return broker["port"] == port and broker["host"] in (given, client.server)


def _give_no_member(client: ProbingClient, api: str, version: int, member_id: str, epoch: int) -> None:
    beat(client, member_id, epoch, api, client.need(api, version))


def _give_null(client: ProbingClient, api: str, version: int, text: str, body: dict[str, Any]) -> None:
    """Give a null in the place of a text of the body."""
    client.need(api, version)
    negotiate(client, 0)
    client.may_close = True
    send_null(client, api, version, text, **body)


def _join_without_id(client: ProbingClient) -> None:
    version = client.need("ConsumerGroupHeartbeat", 0)
    _await_coordinator(client)
    joined = beat(client, "", JOIN, version=version)
    if joined.get("memberId"):
        beat(client, joined["memberId"], LEAVE, version=version)


def _live(client: ProbingClient, member_id: str) -> None:
    """Join, go on and leave under one member ID."""
    client.need("ConsumerGroupHeartbeat", 1)
    negotiate(client, 0)
    _await_coordinator(client)
    joined = beat(client, member_id, JOIN)
    for epoch in (joined.get("memberEpoch", 1), LEAVE):
        beat(client, member_id, epoch)


def _await_coordinator(client: ProbingClient) -> None:
    """Let the broker make the topic in which it keeps groups, and wait until there is a coordinator."""
    version = client.need("FindCoordinator", 4)
    await_success(lambda: find_coordinator(client, version)["coordinators"][0]["errorCode"])


def _subscribe(client: ProbingClient, **given: str) -> None:
    version = client.need("GetTelemetrySubscriptions", 0)
    client.request("GetTelemetrySubscriptions", given, version=version)


def _begin_with_header_v3(client: ProbingClient) -> None:
    client.need("ApiVersions", HEADER_V3)
    negotiate(client, HEADER_V3)
    client.request("Metadata", {"topics": []})


def _change_instance_id(client: ProbingClient, instance_id: bytes) -> None:
    client.need("ApiVersions", HEADER_V3)
    negotiate(client, HEADER_V3)
    body = {"groupId": GROUP, "memberId": identifier_text(client.instance_id), "memberEpoch": LEAVE}
    client.request("ConsumerGroupHeartbeat", body, instance_id=instance_id)


def _shake_hands_after_id(client: ProbingClient) -> None:
    client.need("ApiVersions", HEADER_V3)
    version = client.need("SaslHandshake", 1)
    negotiate(client, HEADER_V3)
    client.request("SaslHandshake", {"mechanism": "PLAIN"}, version=version)


def _ask_three_at_once(client: ProbingClient) -> None:
    for version in (0, 1, 2):
        client.send(client.frame("ApiVersions", version, {}))
    for _ in range(3):
        client.receive()
    client.linger()


def _send_bytes(client: ProbingClient, data: bytes) -> None:
    negotiate(client, 0)
    client.may_close = True
    client.send_bytes(data)
    client.receive()


def _without_member() -> Iterator[Play]:
    for api, version in HEARTBEATS:
        for epoch in (1, LEAVE):
            for member_id in ("", " \t"):
                ask = partial(_give_no_member, api=api, version=version)
                yield partial(ask, member_id=member_id, epoch=epoch)


_LEAVING: Final = {"groupId": GROUP, "memberId": MEMBER, "memberEpoch": LEAVE}
_UNREADABLE: Final = "wire/malformed-request"
_HEADER: Final = API_VERSIONS.to_bytes(2) + b"\0\3" + b"\0\0\0\1"

DUTIES: Final = (
    Duty(
        "one-list-of-versions",
        "gives the same list of versions throughout a connection, before a login and after it",
        ("kip35/ranges-changed", "kip35/ranges-withheld"),
        (_ask_before_and_after_login,) * ENOUGH_CLOSES,
        before_login=True,
    ),
    Duty(
        "orderly-list-of-versions",
        "gives each API one range, ApiVersions from version 0 and SaslHandshake up to version 1",
        ("kip35/range-inverted", "kip35/apiversions-v0-dropped", "kip1313/sasl-handshake-raised"),
        tuple(
            partial(_api_versions, version=version) for version in (0, NAMES_SOFTWARE_FROM, NAMES_BROKER_FROM)
        ),
    ),
    Duty(
        "serves-what-it-lists",
        "responds to the lowest and the highest version of each API that it lists, if that changes nothing",
        ("kip35/advertised-version-refused",),
        tuple(partial(_ask_edge, api=api, newest=newest) for api in EDGES for newest in (False, True)),
    ),
    Duty(
        "unknown-api",
        "responds to an API that it does not have with nothing but a close or a well-formed response",
        ("wire/answer-without-request",),
        (_ask_unknown_api,),
        frozenset({"wire/unknown-api", "kip35/api-not-advertised", "kip35/version-refused"}),
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
            _ask_the_version_above,
            *(partial(_ask_unknown_version, version=version) for version in UNKNOWN_VERSIONS),
        ),
        frozenset({"wire/unknown-api", _UNREADABLE}),
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
        frozenset({"kip511/software-name-malformed", "kip511/software-version-malformed"}),
    ),
    Duty(
        "half-identified",
        "refuses a client that names a cluster without a node, or the reverse, with INVALID_REQUEST",
        ("kip1242/half-identified-accepted",),
        tuple(partial(_api_versions, version=NAMES_BROKER_FROM, **half) for half in HALVES),
        frozenset({"kip1242/half-identified"}),
    ),
    Duty(
        "misrouted",
        "tells a client that means another cluster or node to rebootstrap",
        ("kip1242/misrouted-accepted",),
        (
            partial(_meet, clusterId=ANOTHER_CLUSTER, nodeId=NO_NODE_HAS),
            partial(_meet, nodeId=NO_NODE_HAS),
        ),
        frozenset({"kip1242/misrouted"}),
    ),
    Duty(
        "well-routed",
        "takes a client that means this cluster and node",
        ("kip1242/misrouted-accepted", "kip1242/rebootstrap-without-cause"),
        (_meet,),
    ),
    Duty(
        "member-id-assigned",
        "gives a member ID to a consumer that joins by version 0 without one",
        ("kip1082/member-id-not-assigned",),
        (_join_without_id,),
        frozenset({"kip1082/member-id-assigned-late"}),
        writes=True,
    ),
    Duty(
        "member-id-kept",
        "takes the member ID that a client has made, in any form, and keeps it",
        ("kip1082/member-id-rewritten", "kip1082/member-id-refused"),
        tuple(partial(_live, member_id=member_id) for member_id in FORMS),
        frozenset({"kip1082/member-id-not-base64url", "kip1082/member-id-changed"}),
        writes=True,
    ),
    Duty(
        "member-id-empty",
        "refuses a heartbeat without a member ID, where it must have one, with INVALID_REQUEST",
        ("kip1082/member-id-empty-accepted",),
        tuple(_without_member()),
        frozenset({"kip1082/member-id-empty"}),
    ),
    Duty(
        "telemetry-id-assigned",
        "assigns an instance ID to a telemetry client that has none",
        ("kip1313/telemetry-id-not-assigned",),
        (_subscribe,),
    ),
    Duty(
        "telemetry-id-echoed",
        "returns a telemetry client's own instance ID",
        ("kip1313/telemetry-id-not-echoed",),
        (partial(_subscribe, clientInstanceId=MEMBER),),
    ),
    Duty(
        "header-v3",
        "offers request header v3 for every API, and asks for the client ID once",
        ("kip1313/header-v3-not-offered",),
        (_begin_with_header_v3,),
    ),
    Duty(
        "instance-id-checked",
        "refuses a request whose client instance ID is missing or has changed",
        ("kip1313/instance-id-accepted-wrongly",),
        tuple(
            partial(_change_instance_id, instance_id=instance_id) for instance_id in (bytes(16), ANOTHER_ID)
        ),
        frozenset(
            {"kip1313/instance-id-missing", "kip1313/instance-id-changed", "kip1313/member-id-differs"}
        ),
    ),
    Duty(
        "handshake-without-instance-id",
        "takes SaslHandshake without an instance ID on a connection that has one",
        ("kip1313/sasl-handshake-refused",),
        (_shake_hands_after_id,),
    ),
    Duty(
        "responses-in-order",
        "responds to requests in their order, each with its own correlation ID",
        ("wire/correlation-mismatch", "wire/answer-without-request"),
        (_ask_three_at_once,),
    ),
    Duty(
        "malformed-request",
        "responds to a request that cannot be read with nothing but a close or a well-formed response",
        ("wire/malformed-response",),
        (
            # Headers that end in the client ID or in the tags, and nulls where none may be.
            partial(_send_bytes, data=b"\0\0\0\x0c" + _HEADER + b"\0\x20ab"),
            partial(_send_bytes, data=b"\0\0\0\x0b" + _HEADER + b"\xff\xff\x05"),
            partial(
                _give_null,
                api="ApiVersions",
                version=NAMES_SOFTWARE_FROM,
                text="kipwatch-probe",
                body=SOFTWARE,
            ),
            *(
                partial(_give_null, api=api, version=version, text=MEMBER, body=_LEAVING)
                for api, version in HEARTBEATS
            ),
        ),
        frozenset({_UNREADABLE, "kip1082/member-id-empty"}),
    ),
    Duty(
        "wrong-frame-size",
        "responds to a frame of a size that no request has with nothing but a close, and serves others on",
        ("wire/frame-size-invalid",),
        tuple(partial(_send_bytes, data=size) for size in _WRONG_SIZES),
        frozenset({"wire/frame-size-invalid", _UNREADABLE}),
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
