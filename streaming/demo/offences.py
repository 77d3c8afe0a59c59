"""The offences that the demo plants: what the client sends, and the rules that it must violate.

Each offence is a function, played on a connection of its own, and a line of PLANTED. `settle` is the time in
seconds after which a response has certainly been read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from expectations.conversation.texts import identifier_text
from streaming.demo.front import INVERTING, LOWEST_LEFT, RENAMING, UPGRADED
from streaming.demo.workload import (
    GROUP,
    SOFTWARE,
    api_versions,
    find_coordinator,
    heartbeat,
    join,
    member_id_of,
    new_member_id,
)
from streaming.probe.client import JOIN, LEAVE, ConnectionClosedError, InstanceClient, new_instance_id

ZERO_ID, ONE_ID = bytes(16), bytes(15) + b"\1"
OLDER = 5
"""The newest ApiVersions with header v2. A connection that begins with it has no instance ID."""
CLIENT_ID = "kipwatch-1313"


def change_instance_id(client: InstanceClient, _settle: float) -> None:
    """Continue with another instance ID."""
    api_versions(client)
    _leave_with(client, new_instance_id())


def drop_instance_id(client: InstanceClient, _settle: float) -> None:
    """Continue without an instance ID."""
    api_versions(client)
    _leave_with(client, ZERO_ID)


def _leave_with(client: InstanceClient, instance_id: bytes) -> None:
    """Send a heartbeat: its response has an error field for a refused instance ID."""
    heartbeat(client, member_id_of(client), LEAVE, instance_id=instance_id)


def begin_with_zero(client: InstanceClient, _settle: float) -> None:
    """Send the zero ID from the first request on."""
    api_versions(client, instance_id=ZERO_ID)
    find_coordinator(client, instance_id=ZERO_ID)


def use_reserved_id(client: InstanceClient, _settle: float) -> None:
    """Send a reserved instance ID."""
    api_versions(client, instance_id=ONE_ID)
    find_coordinator(client, instance_id=ONE_ID)


def repeat_client_id(client: InstanceClient, _settle: float) -> None:
    """Send a client ID in a later request with header v3, too."""
    api_versions(client)
    find_coordinator(client, client_id="repeated")


def omit_client_id(client: InstanceClient, _settle: float) -> None:
    """Never send a client ID."""
    api_versions(client, client_id=None)
    find_coordinator(client, client_id=None)


def drop_client_id(client: InstanceClient, _settle: float) -> None:
    """Omit the client ID with an older header."""
    api_versions(client, version=OLDER)
    find_coordinator(client)
    find_coordinator(client, version=client.newest("FindCoordinator") - 1, client_id=None)


def change_client_id(client: InstanceClient, _settle: float) -> None:
    """Send another client ID with an older header."""
    api_versions(client, version=OLDER)
    find_coordinator(client)
    find_coordinator(client, version=client.newest("FindCoordinator") - 1, client_id="another")


def push_with_another_id(client: InstanceClient, _settle: float) -> None:
    """Push telemetry with another ID than the one that the broker assigned."""
    api_versions(client, version=OLDER)
    client.request("GetTelemetrySubscriptions", {}, version=0)
    other = {"clientInstanceId": identifier_text(client.instance_id), "metrics": ""}
    client.request("PushTelemetry", other, version=0)


def send_trailing_bytes(client: InstanceClient, _settle: float) -> None:
    """Send a byte after the body."""
    api_versions(client, version=OLDER)
    frame = client.frame("FindCoordinator", OLDER, {"keyType": 0, "coordinatorKeys": [GROUP]})
    client.exchange(frame + b"\0", "FindCoordinator", OLDER)


def use_unknown_api(client: InstanceClient, settle: float) -> None:
    """Use an API that does not exist, so that the broker does not advertise it."""
    api_versions(client, version=OLDER)
    time.sleep(settle)
    frame = client.frame("Metadata", 0, {})
    client.exchange(b"\x03\xe7" + frame[2:], "Metadata", 0)


def use_controller_api(client: InstanceClient, settle: float) -> None:
    """Use an API that the broker does not advertise."""
    api_versions(client, version=OLDER)
    time.sleep(settle)
    client.request("Vote", {}, version=0)


def empty_member_id(client: InstanceClient, _settle: float) -> None:
    """Join without a member ID."""
    api_versions(client)
    heartbeat(client, "", JOIN)


def change_member_id(client: InstanceClient, _settle: float) -> None:
    """Rejoin with another member ID."""
    api_versions(client, version=OLDER)
    for _ in range(2):
        member_id = new_member_id()
        for epoch in (JOIN, LEAVE):
            heartbeat(client, member_id, epoch, group=f"{GROUP}-changed", version=1)


def leave_as(member_id: Callable[[InstanceClient], str]) -> Callable[[InstanceClient, float], None]:
    """Return a script that leaves the group with the given member ID."""

    def leave(client: InstanceClient, _settle: float) -> None:
        api_versions(client)
        heartbeat(client, member_id(client), LEAVE)

    return leave


def send_long_member_id(client: InstanceClient, _settle: float) -> None:
    """Send a member ID that is too long, to a share group."""
    api_versions(client, version=OLDER)
    long = {"groupId": GROUP, "memberId": "x" * 37, "memberEpoch": LEAVE}
    client.request("ShareGroupHeartbeat", long, version=1)


def join_without_member_id(client: InstanceClient, _settle: float) -> None:
    """Join with an empty member ID, so that the broker assigns one."""
    api_versions(client, version=OLDER)
    heartbeat(client, "", JOIN, group=f"{GROUP}-late", version=0)


def use_removed_version(client: InstanceClient, settle: float) -> None:
    """Use a version that an upgraded broker no longer has."""
    api_versions(client, version=OLDER)
    time.sleep(settle)
    client.request("FindCoordinator", {"keyType": 0, "key": GROUP}, version=LOWEST_LEFT - 1)


def repeat_refused_version(client: InstanceClient, settle: float) -> None:
    """Use the ApiVersions version again that the broker just refused."""
    unknown = client.newest("ApiVersions") + 1
    for pause in (0.0, settle):
        time.sleep(pause)
        frame = client.frame("ApiVersions", OLDER, SOFTWARE)
        client.exchange(frame[:2] + unknown.to_bytes(2) + frame[4:], "ApiVersions", unknown)


def malform_software_name(client: InstanceClient, _settle: float) -> None:
    """Send a software name that no broker accepts."""
    api_versions(client, body={"clientSoftwareName": "kipwatch demo!"})


def malform_software_version(client: InstanceClient, _settle: float) -> None:
    """Send a software version that no broker accepts."""
    api_versions(client, body={"clientSoftwareVersion": "1.0 (demo)"})


def keep_connection(client: InstanceClient, settle: float) -> None:
    """Use the connection after a refusal."""
    api_versions(client, version=OLDER, body={"clientSoftwareName": "kipwatch demo!"})
    time.sleep(settle)
    find_coordinator(client, version=OLDER)


def name_cluster_only(client: InstanceClient, _settle: float) -> None:
    """Name a cluster and no node."""
    api_versions(client, body={"clusterId": "of-another-demo"})


def ignore_rebootstrap(client: InstanceClient, settle: float) -> None:
    """Use the connection after REBOOTSTRAP_REQUIRED."""
    api_versions(client, version=OLDER, body={"clusterId": "of-another-demo", "nodeId": 1})
    time.sleep(settle)
    find_coordinator(client, version=OLDER)


def null_member_id(client: InstanceClient, _settle: float) -> None:
    """Send null as the member ID, which is not nullable."""
    api_versions(client, version=OLDER)
    member_id = new_member_id()
    body = {"groupId": GROUP, "memberId": member_id, "memberEpoch": LEAVE}
    frame = client.frame("ConsumerGroupHeartbeat", 1, body)
    # A compact string is its length plus one and its bytes; null is a single zero byte.
    text = bytes([len(member_id) + 1]) + member_id.encode()
    client.exchange(frame.replace(text, b"\0"), "ConsumerGroupHeartbeat", 1)


def share_instance_id(client: InstanceClient, _settle: float) -> None:
    """Use an instance ID at the same time as a connection of other client software."""
    with client.another_connection() as other:
        api_versions(other, body={"clientSoftwareName": "kipwatch-other"})
        api_versions(client)
        find_coordinator(other)


def share_member_id(client: InstanceClient, _settle: float) -> None:
    """Send heartbeats of a member alternately on two connections."""
    with client.another_connection() as other:
        member_id = member_id_of(client)
        for connection in (other, client):
            api_versions(connection)
            epoch = join(connection, member_id)["memberEpoch"]
        for _ in range(2):
            heartbeat(other, member_id, epoch)
        heartbeat(other, member_id, LEAVE)


def negotiate(client: InstanceClient, _settle: float) -> None:
    """Negotiate versions. The fault is the broker's."""
    api_versions(client)


def join_and_leave(client: InstanceClient, _settle: float) -> None:
    """Join and leave a group. The fault is the broker's."""
    api_versions(client)
    member_id = member_id_of(client)
    for epoch in (JOIN, LEAVE):
        heartbeat(client, member_id, epoch, group=f"{GROUP}-renamed")


@dataclass(frozen=True, slots=True)
class PlantedOffence:
    """The offences of one connection, whose findings must be of exactly these rules.

    `play` gets the client and `settle`. With `expects_close` the broker closes the connection instead of
    responding. An unusual client ID makes the front simulate a fault of the broker.
    """

    name: str
    rules: frozenset[str]
    play: Callable[[InstanceClient, float], None]
    expects_close: bool = False
    client_id: str = CLIENT_ID


def _planted(
    name: str,
    play: Callable[[InstanceClient, float], None],
    *rules: str,
    expects_close: bool = False,
    client_id: str = CLIENT_ID,
) -> PlantedOffence:
    return PlantedOffence(name, frozenset(rules), play, expects_close, client_id)


_DIFFERS = "kip1313/member-id-differs"
PLANTED = (
    _planted("instance ID changed", change_instance_id, "kip1313/instance-id-changed", _DIFFERS),
    _planted("instance ID missing", drop_instance_id, "kip1313/instance-id-missing"),
    _planted("instance ID zero", begin_with_zero, "kip1313/instance-id-zero"),
    _planted("instance ID reserved", use_reserved_id, "kip1313/instance-id-reserved"),
    _planted("client ID repeated", repeat_client_id, "kip1313/client-id-repeated"),
    _planted("client ID never given", omit_client_id, "kip1313/client-id-missing-first"),
    _planted("client ID dropped", drop_client_id, "kip1313/client-id-dropped"),
    _planted("client ID changed", change_client_id, "kip1313/client-id-changed"),
    _planted("telemetry under another ID", push_with_another_id, "kip1313/telemetry-id-mismatch"),
    _planted("member ID of its own", leave_as(lambda _: new_member_id()), _DIFFERS),
    _planted("empty member ID", empty_member_id, "kip1082/member-id-empty"),
    _planted("member ID changed", change_member_id, "kip1082/member-id-changed"),
    _planted(
        "member ID in hex",
        leave_as(lambda client: client.instance_id.hex()),
        "kip1082/member-id-not-base64url",
    ),
    _planted("member ID that is a name", leave_as(lambda _: "orders-1"), "kip1082/member-id-not-uuid"),
    _planted(
        "member ID reserved",
        leave_as(lambda _: identifier_text(ONE_ID)),
        "kip1082/member-id-reserved",
        _DIFFERS,
    ),
    _planted(
        "member ID too long", send_long_member_id, "kip1082/member-id-too-long", "kip1082/member-id-not-uuid"
    ),
    _planted("member ID left to the broker", join_without_member_id, "kip1082/member-id-assigned-late"),
    _planted("software name malformed", malform_software_name, "kip511/software-name-malformed"),
    _planted("software version malformed", malform_software_version, "kip511/software-version-malformed"),
    _planted(
        "connection kept after a refusal",
        keep_connection,
        "kip511/software-name-malformed",
        "kip511/connection-kept",
    ),
    _planted(
        "the refused version again",
        repeat_refused_version,
        "kip511/fallback-version-wrong",
        "wire/unknown-api",
    ),
    _planted(
        "version out of range",
        use_removed_version,
        "kip35/version-out-of-range",
        "kip35/version-refused",
        expects_close=True,
        client_id=UPGRADED,
    ),
    _planted(
        "API not advertised",
        use_controller_api,
        "kip35/api-not-advertised",
        "kip35/version-refused",
        expects_close=True,
    ),
    _planted("half a broker named", name_cluster_only, "kip1242/half-identified"),
    _planted("rebootstrap ignored", ignore_rebootstrap, "kip1242/misrouted", "kip1242/rebootstrap-ignored"),
    _planted("bytes left over", send_trailing_bytes, "wire/trailing-bytes"),
    _planted(
        "API unknown",
        use_unknown_api,
        "wire/unknown-api",
        "kip35/api-not-advertised",
        "kip35/version-refused",
        expects_close=True,
    ),
    _planted(
        "null member ID",
        null_member_id,
        "wire/malformed-request",
        "kip1082/member-id-empty",
        expects_close=True,
    ),
    _planted("instance ID shared", share_instance_id, "kip1313/instance-id-shared"),
    _planted("member ID shared", share_member_id, "kip1082/member-id-shared"),
    _planted(
        "member renamed by the broker", join_and_leave, "kip1082/member-id-rewritten", client_id=RENAMING
    ),
    _planted(
        "range upside down in the advertisement", negotiate, "kip35/range-inverted", client_id=INVERTING
    ),
)
"""All planted offences."""


def play(planted: PlantedOffence, client: InstanceClient, settle: float) -> None:
    """Play one planted offence. Raises ConnectionClosedError if that is unexpected."""
    try:
        planted.play(client, settle)
    except ConnectionClosedError:
        if not planted.expects_close:
            raise
