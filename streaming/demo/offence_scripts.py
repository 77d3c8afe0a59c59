"""What the demo's client sends for each planted offence: one function per offence and connection.

`settle` is the time in seconds after which a response has certainly been read.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from expectations.conversation.identifier import identifier_text
from streaming.demo.faults import LOWEST_LEFT
from streaming.demo.instance_client import SOFTWARE, InstanceClient, new_instance_id
from streaming.demo.scenario import (
    GROUP,
    JOIN,
    LEAVE,
    api_versions,
    find_coordinator,
    heartbeat,
    join,
    member_id_of,
    new_member_id,
)

ZERO_ID, ONE_ID = bytes(16), bytes(15) + b"\1"
OLDER = 5
"""The newest ApiVersions with header 2: a connection that begins with it has no instance ID."""


def change_instance_id(client: InstanceClient, _settle: float) -> None:
    """Continue with another instance ID."""
    api_versions(client)
    _leave_with(client, new_instance_id())


def drop_instance_id(client: InstanceClient, _settle: float) -> None:
    """Continue without an instance ID."""
    api_versions(client)
    _leave_with(client, ZERO_ID)


def _leave_with(client: InstanceClient, instance_id: bytes) -> None:
    """Send a heartbeat, whose response has an error field for a refused instance ID."""
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
    """Send a client ID in a later request with header 3, too."""
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
    """Negotiate versions; the fault is the broker's."""
    api_versions(client)


def join_and_leave(client: InstanceClient, _settle: float) -> None:
    """Join and leave a group; the fault is the broker's."""
    api_versions(client)
    member_id = member_id_of(client)
    for epoch in (JOIN, LEAVE):
        heartbeat(client, member_id, epoch, group=f"{GROUP}-renamed")
