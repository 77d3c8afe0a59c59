"""How the KIP-1313 client of the demo misbehaves: a function an offence, on a connection of its own.

Each is given `settle`: how long to wait, in seconds, until an answer has surely been read.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from expectations.conversation.identifier import identifier_text
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
"""The newest version of ApiVersions on header 2: what begins with it is bound to no instance ID."""


def change_instance_id(client: InstanceClient, _settle: float) -> None:
    """Go on under another instance ID."""
    api_versions(client)
    _leave_under(client, new_instance_id())


def drop_instance_id(client: InstanceClient, _settle: float) -> None:
    """Go on without an instance ID."""
    api_versions(client)
    _leave_under(client, ZERO_ID)


def _leave_under(client: InstanceClient, instance_id: bytes) -> None:
    """Send a heartbeat, whose answer can carry the refusal of another instance ID."""
    heartbeat(client, member_id_of(client), LEAVE, instance_id=instance_id)


def begin_with_zero(client: InstanceClient, _settle: float) -> None:
    """Give the zero ID from the beginning."""
    api_versions(client, instance_id=ZERO_ID)
    find_coordinator(client, instance_id=ZERO_ID)


def be_number_one(client: InstanceClient, _settle: float) -> None:
    """Give an ID that is reserved."""
    api_versions(client, instance_id=ONE_ID)
    find_coordinator(client, instance_id=ONE_ID)


def repeat_client_id(client: InstanceClient, _settle: float) -> None:
    """Give a client ID in a later request on header 3, too."""
    api_versions(client)
    find_coordinator(client, client_id="repeated")


def hide_client_id(client: InstanceClient, _settle: float) -> None:
    """Never give a client ID."""
    api_versions(client, client_id=None)
    find_coordinator(client, client_id=None)


def drop_client_id(client: InstanceClient, _settle: float) -> None:
    """Leave the client ID out behind an older header."""
    api_versions(client, version=OLDER)
    find_coordinator(client)
    find_coordinator(client, version=client.newest("FindCoordinator") - 1, client_id=None)


def change_client_id(client: InstanceClient, _settle: float) -> None:
    """Give another client ID behind an older header."""
    api_versions(client, version=OLDER)
    find_coordinator(client)
    find_coordinator(client, version=client.newest("FindCoordinator") - 1, client_id="another")


def push_under_another_id(client: InstanceClient, _settle: float) -> None:
    """Push telemetry under another ID than the one that the broker assigned."""
    api_versions(client, version=OLDER)
    client.ask("GetTelemetrySubscriptions", {}, version=0)
    other = {"clientInstanceId": identifier_text(client.instance_id), "metrics": ""}
    client.ask("PushTelemetry", other, version=0)


def send_trailing_bytes(client: InstanceClient, _settle: float) -> None:
    """Send a byte behind the body."""
    api_versions(client, version=OLDER)
    frame = client.frame("FindCoordinator", OLDER, {"keyType": 0, "coordinatorKeys": [GROUP]})
    client.exchange(frame + b"\0", "FindCoordinator", OLDER)


def use_an_unknown_api(client: InstanceClient, _settle: float) -> None:
    """Ask for an API that nobody has."""
    api_versions(client, version=OLDER)
    frame = client.frame("Metadata", 0, {})
    client.exchange(b"\x03\xe7" + frame[2:], "Metadata", 0)


def use_a_controllers_api(client: InstanceClient, settle: float) -> None:
    """Ask for an API that the broker does not advertise."""
    api_versions(client, version=OLDER)
    time.sleep(settle)
    client.ask("Vote", {}, version=0)


def empty_member_id(client: InstanceClient, _settle: float) -> None:
    """Join without a member ID."""
    api_versions(client)
    heartbeat(client, "", JOIN)


def change_member_id(client: InstanceClient, _settle: float) -> None:
    """Come back as another member."""
    api_versions(client, version=OLDER)
    for _ in range(2):
        member_id = new_member_id()
        for epoch in (JOIN, LEAVE):
            heartbeat(client, member_id, epoch, group=f"{GROUP}-changed", version=1)


def leave_as(member_id: Callable[[InstanceClient], str]) -> Callable[[InstanceClient, float], None]:
    """Leave the group under the member ID that is given."""

    def leave(client: InstanceClient, _settle: float) -> None:
        api_versions(client)
        heartbeat(client, member_id(client), LEAVE)

    return leave


def share_as_a_long_member(client: InstanceClient, _settle: float) -> None:
    """Give a member ID that is too long."""
    api_versions(client, version=OLDER)
    long = {"groupId": GROUP, "memberId": "x" * 37, "memberEpoch": LEAVE}
    client.ask("ShareGroupHeartbeat", long, version=1)


def join_without_member_id(client: InstanceClient, _settle: float) -> None:
    """Let the broker make the member ID."""
    api_versions(client, version=OLDER)
    heartbeat(client, "", JOIN, group=f"{GROUP}-late", version=0)


def leave_range(client: InstanceClient, settle: float) -> None:
    """Ask for a version that is not advertised."""
    api_versions(client)
    time.sleep(settle)
    # Its newest released version is unstable, so the broker does not advertise it.
    client.ask("InitProducerId", {"transactionalId": None, "transactionTimeoutMs": 1000})


def fall_back_wrongly(client: InstanceClient, settle: float) -> None:
    """Ask in a version that the broker just refused."""
    unknown = client.newest("ApiVersions") + 1
    for pause in (0.0, settle):
        time.sleep(pause)
        frame = client.frame("ApiVersions", OLDER, SOFTWARE)
        client.exchange(frame[:2] + unknown.to_bytes(2) + frame[4:], "ApiVersions", unknown)


def malform_software_name(client: InstanceClient, _settle: float) -> None:
    """Give a software name that no broker takes."""
    api_versions(client, body={"clientSoftwareName": "kipwatch demo!"})


def malform_software_version(client: InstanceClient, _settle: float) -> None:
    """Give a software version that no broker takes."""
    api_versions(client, body={"clientSoftwareVersion": "1.0 (demo)"})


def keep_the_connection(client: InstanceClient, settle: float) -> None:
    """Go on after a refusal."""
    api_versions(client, version=OLDER, body={"clientSoftwareName": "kipwatch demo!"})
    time.sleep(settle)
    find_coordinator(client, version=OLDER)


def name_half_a_broker(client: InstanceClient, _settle: float) -> None:
    """Name a cluster and no node."""
    api_versions(client, body={"clusterId": "of-another-demo"})


def ignore_the_rebootstrap(client: InstanceClient, settle: float) -> None:
    """Go on after being told to bootstrap anew."""
    api_versions(client, version=OLDER, body={"clusterId": "of-another-demo", "nodeId": 1})
    time.sleep(settle)
    find_coordinator(client, version=OLDER)


def null_member_id(client: InstanceClient, _settle: float) -> None:
    """Send null for a member ID, which must not be null."""
    api_versions(client, version=OLDER)
    member_id = new_member_id()
    body = {"groupId": GROUP, "memberId": member_id, "memberEpoch": LEAVE}
    frame = client.frame("ConsumerGroupHeartbeat", 1, body)
    # A compact string is its length plus one and its bytes; a null one is a single zero.
    text = bytes([len(member_id) + 1]) + member_id.encode()
    client.exchange(frame.replace(text, b"\0"), "ConsumerGroupHeartbeat", 1)


def share_its_instance_id(client: InstanceClient, _settle: float) -> None:
    """Present an ID that another software, which is connected all the while, presents, too."""
    with client.beside() as other:
        api_versions(other, body={"clientSoftwareName": "kipwatch-other"})
        api_versions(client)
        find_coordinator(other)


def share_its_member_id(client: InstanceClient, _settle: float) -> None:
    """Heartbeat for a member in turns with another connection."""
    with client.beside() as other:
        member_id = member_id_of(client)
        for connection in (other, client):
            api_versions(connection)
            epoch = join(connection, member_id)["memberEpoch"]
        for _ in range(2):
            heartbeat(other, member_id, epoch)


def negotiate(client: InstanceClient, _settle: float) -> None:
    """Do nothing wrong."""
    api_versions(client)


def join_and_leave(client: InstanceClient, _settle: float) -> None:
    """Do nothing wrong."""
    api_versions(client)
    member_id = member_id_of(client)
    for epoch in (JOIN, LEAVE):
        heartbeat(client, member_id, epoch, group=f"{GROUP}-renamed")
