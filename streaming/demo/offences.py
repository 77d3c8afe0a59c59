"""The offences that the demo plants: what the client sends, and the rules that it must violate.

Each offence is a function under `_planted`, and is played on a connection of its own. `settle` is the time in
seconds after which a response has certainly been read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

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
Play = Callable[[InstanceClient, float], None]
"""Takes the client and `settle`."""


@dataclass(frozen=True, slots=True)
class PlantedOffence:
    """The offences of one connection, whose findings must be of exactly these rules.

    With `expects_close` the broker closes the connection instead of responding. An unusual client ID makes
    the front simulate a fault of the broker.
    """

    name: str
    rules: frozenset[str]
    play: Play
    expects_close: bool = False
    client_id: str = CLIENT_ID


PLANTED: Final[list[PlantedOffence]] = []
"""All planted offences, in the order of their functions."""
_DIFFERS: Final = "kip1313/member-id-differs"


def _planted(
    name: str, *rules: str, expects_close: bool = False, client_id: str = CLIENT_ID
) -> Callable[[Play], Play]:
    """Plant the offences that a function commits."""

    def plant(play: Play) -> Play:
        PLANTED.append(PlantedOffence(name, frozenset(rules), play, expects_close, client_id))
        return play

    return plant


@_planted("instance ID changed", "kip1313/instance-id-changed", _DIFFERS)
def change_instance_id(client: InstanceClient, _settle: float) -> None:
    """Continue with another instance ID."""
    api_versions(client)
    _leave_with(client, new_instance_id())


@_planted("instance ID missing", "kip1313/instance-id-missing")
def drop_instance_id(client: InstanceClient, _settle: float) -> None:
    """Continue without an instance ID."""
    api_versions(client)
    _leave_with(client, ZERO_ID)


def _leave_with(client: InstanceClient, instance_id: bytes) -> None:
    """Send a heartbeat: its response has an error field for a refused instance ID."""
    heartbeat(client, member_id_of(client), LEAVE, instance_id=instance_id)


@_planted("instance ID zero", "kip1313/instance-id-zero")
def begin_with_zero(client: InstanceClient, _settle: float) -> None:
    """Send the zero ID from the first request on."""
    api_versions(client, instance_id=ZERO_ID)
    find_coordinator(client, instance_id=ZERO_ID)


@_planted("instance ID reserved", "kip1313/instance-id-reserved")
def use_reserved_id(client: InstanceClient, _settle: float) -> None:
    """Send a reserved instance ID."""
    api_versions(client, instance_id=ONE_ID)
    find_coordinator(client, instance_id=ONE_ID)


@_planted("client ID repeated", "kip1313/client-id-repeated")
def repeat_client_id(client: InstanceClient, _settle: float) -> None:
    """Send a client ID in a later request with header v3, too."""
    api_versions(client)
    find_coordinator(client, client_id="repeated")


@_planted("client ID never given", "kip1313/client-id-missing-first")
def omit_client_id(client: InstanceClient, _settle: float) -> None:
    """Never send a client ID."""
    api_versions(client, client_id=None)
    find_coordinator(client, client_id=None)


@_planted("client ID dropped", "kip1313/client-id-dropped")
def drop_client_id(client: InstanceClient, _settle: float) -> None:
    """Omit the client ID with an older header."""
    api_versions(client, version=OLDER)
    find_coordinator(client)
    find_coordinator(client, version=client.newest("FindCoordinator") - 1, client_id=None)


@_planted("client ID changed", "kip1313/client-id-changed")
def change_client_id(client: InstanceClient, _settle: float) -> None:
    """Send another client ID with an older header."""
    api_versions(client, version=OLDER)
    find_coordinator(client)
    find_coordinator(client, version=client.newest("FindCoordinator") - 1, client_id="another")


@_planted("telemetry under another ID", "kip1313/telemetry-id-mismatch")
def push_with_another_id(client: InstanceClient, _settle: float) -> None:
    """Push telemetry with another ID than the one that the broker assigned."""
    api_versions(client, version=OLDER)
    client.request("GetTelemetrySubscriptions", {}, version=0)
    other = {"clientInstanceId": identifier_text(client.instance_id), "metrics": ""}
    client.request("PushTelemetry", other, version=0)


def _leave_as(name: str, member_id: Callable[[InstanceClient], str], *rules: str) -> None:
    """Plant that a client leaves the group with some member ID."""

    @_planted(name, *rules)
    def leave(client: InstanceClient, _settle: float) -> None:
        api_versions(client)
        heartbeat(client, member_id(client), LEAVE)


_leave_as("member ID of its own", lambda _: new_member_id(), _DIFFERS)


@_planted("empty member ID", "kip1082/member-id-empty")
def empty_member_id(client: InstanceClient, _settle: float) -> None:
    """Join without a member ID."""
    api_versions(client)
    heartbeat(client, "", JOIN)


@_planted("member ID changed", "kip1082/member-id-changed")
def change_member_id(client: InstanceClient, _settle: float) -> None:
    """Rejoin with another member ID."""
    api_versions(client, version=OLDER)
    for _ in range(2):
        member_id = new_member_id()
        for epoch in (JOIN, LEAVE):
            heartbeat(client, member_id, epoch, group=f"{GROUP}-changed", version=1)


_leave_as("member ID in hex", lambda client: client.instance_id.hex(), "kip1082/member-id-not-base64url")
_leave_as("member ID that is a name", lambda _: "orders-1", "kip1082/member-id-not-uuid")
_leave_as("member ID reserved", lambda _: identifier_text(ONE_ID), "kip1082/member-id-reserved", _DIFFERS)


@_planted("member ID too long", "kip1082/member-id-too-long", "kip1082/member-id-not-uuid")
def send_long_member_id(client: InstanceClient, _settle: float) -> None:
    """Send a member ID that is too long, to a share group."""
    api_versions(client, version=OLDER)
    long = {"groupId": GROUP, "memberId": "x" * 37, "memberEpoch": LEAVE}
    client.request("ShareGroupHeartbeat", long, version=1)


@_planted("member ID left to the broker", "kip1082/member-id-assigned-late")
def join_without_member_id(client: InstanceClient, _settle: float) -> None:
    """Join with an empty member ID, so that the broker assigns one."""
    api_versions(client, version=OLDER)
    heartbeat(client, "", JOIN, group=f"{GROUP}-late", version=0)


@_planted("software name malformed", "kip511/software-name-malformed")
def malform_software_name(client: InstanceClient, _settle: float) -> None:
    """Send a software name that no broker accepts."""
    api_versions(client, body={"clientSoftwareName": "kipwatch demo!"})


@_planted("software version malformed", "kip511/software-version-malformed")
def malform_software_version(client: InstanceClient, _settle: float) -> None:
    """Send a software version that no broker accepts."""
    api_versions(client, body={"clientSoftwareVersion": "1.0 (demo)"})


@_planted("connection kept after a refusal", "kip511/software-name-malformed", "kip511/connection-kept")
def keep_connection(client: InstanceClient, settle: float) -> None:
    """Use the connection after a refusal."""
    api_versions(client, version=OLDER, body={"clientSoftwareName": "kipwatch demo!"})
    time.sleep(settle)
    find_coordinator(client, version=OLDER)


@_planted("the refused version again", "kip511/fallback-version-wrong", "wire/unknown-api")
def repeat_refused_version(client: InstanceClient, settle: float) -> None:
    """Use the ApiVersions version again that the broker just refused."""
    unknown = client.newest("ApiVersions") + 1
    for pause in (0.0, settle):
        time.sleep(pause)
        frame = client.frame("ApiVersions", OLDER, SOFTWARE)
        client.exchange(frame[:2] + unknown.to_bytes(2) + frame[4:], "ApiVersions", unknown)


@_planted(
    "version out of range",
    "kip35/version-out-of-range",
    "kip35/version-refused",
    expects_close=True,
    client_id=UPGRADED,
)
def use_removed_version(client: InstanceClient, settle: float) -> None:
    """Use a version that an upgraded broker no longer has."""
    api_versions(client, version=OLDER)
    time.sleep(settle)
    client.request("FindCoordinator", {"keyType": 0, "key": GROUP}, version=LOWEST_LEFT - 1)


@_planted("API not advertised", "kip35/api-not-advertised", "kip35/version-refused", expects_close=True)
def use_controller_api(client: InstanceClient, settle: float) -> None:
    """Use an API that the broker does not advertise."""
    api_versions(client, version=OLDER)
    time.sleep(settle)
    client.request("Vote", {}, version=0)


@_planted("half a broker named", "kip1242/half-identified")
def name_cluster_only(client: InstanceClient, _settle: float) -> None:
    """Name a cluster and no node."""
    api_versions(client, body={"clusterId": "of-another-demo"})


@_planted("rebootstrap ignored", "kip1242/misrouted", "kip1242/rebootstrap-ignored")
def ignore_rebootstrap(client: InstanceClient, settle: float) -> None:
    """Use the connection after REBOOTSTRAP_REQUIRED."""
    api_versions(client, version=OLDER, body={"clusterId": "of-another-demo", "nodeId": 1})
    time.sleep(settle)
    find_coordinator(client, version=OLDER)


@_planted("bytes left over", "wire/trailing-bytes")
def send_trailing_bytes(client: InstanceClient, _settle: float) -> None:
    """Send a byte after the body."""
    api_versions(client, version=OLDER)
    frame = client.frame("FindCoordinator", OLDER, {"keyType": 0, "coordinatorKeys": [GROUP]})
    client.exchange(frame + b"\0", "FindCoordinator", OLDER)


@_planted(
    "API unknown", "wire/unknown-api", "kip35/api-not-advertised", "kip35/version-refused", expects_close=True
)
def use_unknown_api(client: InstanceClient, settle: float) -> None:
    """Use an API that does not exist, so that the broker does not advertise it."""
    api_versions(client, version=OLDER)
    time.sleep(settle)
    frame = client.frame("Metadata", 0, {})
    client.exchange(b"\x03\xe7" + frame[2:], "Metadata", 0)


@_planted("null member ID", "wire/malformed-request", "kip1082/member-id-empty", expects_close=True)
def null_member_id(client: InstanceClient, _settle: float) -> None:
    """Send null as the member ID, which is not nullable."""
    api_versions(client, version=OLDER)
    member_id = new_member_id()
    body = {"groupId": GROUP, "memberId": member_id, "memberEpoch": LEAVE}
    frame = client.frame("ConsumerGroupHeartbeat", 1, body)
    # A compact string is its length plus one and its bytes; null is a single zero byte.
    text = bytes([len(member_id) + 1]) + member_id.encode()
    client.exchange(frame.replace(text, b"\0"), "ConsumerGroupHeartbeat", 1)


@_planted("instance ID shared", "kip1313/instance-id-shared")
def share_instance_id(client: InstanceClient, _settle: float) -> None:
    """Use an instance ID at the same time as a connection of other client software."""
    with client.another_connection() as other:
        api_versions(other, body={"clientSoftwareName": "kipwatch-other"})
        api_versions(client)
        find_coordinator(other)


@_planted("member ID shared", "kip1082/member-id-shared")
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


@_planted("member renamed by the broker", "kip1082/member-id-rewritten", client_id=RENAMING)
def join_and_leave(client: InstanceClient, _settle: float) -> None:
    """Join and leave a group. The fault is the broker's."""
    api_versions(client)
    member_id = member_id_of(client)
    for epoch in (JOIN, LEAVE):
        heartbeat(client, member_id, epoch, group=f"{GROUP}-renamed")


@_planted("range upside down in the advertisement", "kip35/range-inverted", client_id=INVERTING)
def negotiate(client: InstanceClient, _settle: float) -> None:
    """Negotiate versions. The fault is the broker's."""
    api_versions(client)


def play(planted: PlantedOffence, client: InstanceClient, settle: float) -> None:
    """Play one planted offence. Raises ConnectionClosedError if that is unexpected."""
    try:
        planted.play(client, settle)
    except ConnectionClosedError:
        if not planted.expects_close:
            raise
