"""The offences that the demo plants: each on a connection of its own, to be found there and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from expectations.conversation.identifier import identifier_text
from streaming.demo.instance_client import SOFTWARE, ConnectionClosedError, InstanceClient, new_instance_id
from streaming.demo.scenario import (
    GROUP,
    JOIN,
    LEAVE,
    api_versions,
    find_coordinator,
    heartbeat,
    member_id_of,
    new_member_id,
)

ZERO_ID, ONE_ID = bytes(16), bytes(15) + b"\1"
OLDER = 5
"""The newest version of ApiVersions on header 2: what begins with it is bound to no instance ID."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One connection's offences: the rules that must be found there, no others, and how it is played.

    `play` is given the client and `settle`: how long to wait, in seconds, until an answer has surely
    been read. `expects_close` tells that the broker ends the connection instead of answering.
    """

    name: str
    rules: frozenset[str]
    play: Callable[[InstanceClient, float], None]
    expects_close: bool = False


def _change_instance_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client)
    _leave_under(client, new_instance_id())


def _drop_instance_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client)
    _leave_under(client, ZERO_ID)


def _leave_under(client: InstanceClient, instance_id: bytes) -> None:
    """Send a heartbeat, whose answer can carry the refusal of another instance ID."""
    heartbeat(client, member_id_of(client), LEAVE, instance_id=instance_id)


def _begin_with_zero(client: InstanceClient, _settle: float) -> None:
    api_versions(client, instance_id=ZERO_ID)
    find_coordinator(client, instance_id=ZERO_ID)


def _be_number_one(client: InstanceClient, _settle: float) -> None:
    api_versions(client, instance_id=ONE_ID)
    find_coordinator(client, instance_id=ONE_ID)


def _repeat_client_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client)
    find_coordinator(client, client_id="repeated")


def _hide_client_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client, client_id=None)
    find_coordinator(client, client_id=None)


def _drop_client_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client, version=OLDER)
    find_coordinator(client)
    find_coordinator(client, version=client.newest("FindCoordinator") - 1, client_id=None)


def _change_client_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client, version=OLDER)
    find_coordinator(client)
    find_coordinator(client, version=client.newest("FindCoordinator") - 1, client_id="another")


def _push_under_another_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client, version=OLDER)
    client.ask("GetTelemetrySubscriptions", {}, version=0)
    other = {"clientInstanceId": identifier_text(client.instance_id), "metrics": ""}
    client.ask("PushTelemetry", other, version=0)


def _send_trailing_bytes(client: InstanceClient, _settle: float) -> None:
    api_versions(client, version=OLDER)
    frame = client.frame("FindCoordinator", OLDER, {"keyType": 0, "coordinatorKeys": [GROUP]})
    client.exchange(frame + b"\0", "FindCoordinator", OLDER)


def _use_an_unknown_api(client: InstanceClient, _settle: float) -> None:
    api_versions(client, version=OLDER)
    frame = client.frame("Metadata", 0, {})
    client.exchange(b"\x03\xe7" + frame[2:], "Metadata", 0)


def _use_a_controllers_api(client: InstanceClient, settle: float) -> None:
    api_versions(client, version=OLDER)
    time.sleep(settle)
    client.ask("Vote", {}, version=0)


def _empty_member_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client)
    heartbeat(client, "", JOIN)


def _change_member_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client, version=OLDER)
    for _ in range(2):
        member_id = new_member_id()
        for epoch in (JOIN, LEAVE):
            heartbeat(client, member_id, epoch, group=f"{GROUP}-changed", version=1)


def _leave_as(member_id: Callable[[InstanceClient], str]) -> Callable[[InstanceClient, float], None]:
    def leave(client: InstanceClient, _settle: float) -> None:
        api_versions(client)
        heartbeat(client, member_id(client), LEAVE)

    return leave


def _share_as_a_long_member(client: InstanceClient, _settle: float) -> None:
    api_versions(client, version=OLDER)
    long = {"groupId": GROUP, "memberId": "x" * 37, "memberEpoch": LEAVE}
    client.ask("ShareGroupHeartbeat", long, version=1)


def _join_without_member_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client, version=OLDER)
    heartbeat(client, "", JOIN, group=f"{GROUP}-late", version=0)


def _leave_range(client: InstanceClient, settle: float) -> None:
    api_versions(client)
    time.sleep(settle)
    # Its newest released version is unstable, so the broker does not advertise it.
    client.ask("InitProducerId", {"transactionalId": None, "transactionTimeoutMs": 1000})


def _fall_back_wrongly(client: InstanceClient, settle: float) -> None:
    unknown = client.newest("ApiVersions") + 1
    for pause in (0.0, settle):
        time.sleep(pause)
        frame = client.frame("ApiVersions", OLDER, SOFTWARE)
        client.exchange(frame[:2] + unknown.to_bytes(2) + frame[4:], "ApiVersions", unknown)


def _malform_software_name(client: InstanceClient, _settle: float) -> None:
    api_versions(client, body={"clientSoftwareName": "kipwatch demo!"})


def _malform_software_version(client: InstanceClient, _settle: float) -> None:
    api_versions(client, body={"clientSoftwareVersion": "1.0 (demo)"})


def _keep_the_connection(client: InstanceClient, settle: float) -> None:
    api_versions(client, version=OLDER, body={"clientSoftwareName": "kipwatch demo!"})
    time.sleep(settle)
    find_coordinator(client, version=OLDER)


def _name_half_a_broker(client: InstanceClient, _settle: float) -> None:
    api_versions(client, body={"clusterId": "of-another-demo"})


def _ignore_the_rebootstrap(client: InstanceClient, settle: float) -> None:
    api_versions(client, version=OLDER, body={"clusterId": "of-another-demo", "nodeId": 1})
    time.sleep(settle)
    find_coordinator(client, version=OLDER)


def _null_member_id(client: InstanceClient, _settle: float) -> None:
    api_versions(client, version=OLDER)
    member_id = new_member_id()
    body = {"groupId": GROUP, "memberId": member_id, "memberEpoch": LEAVE}
    frame = client.frame("ConsumerGroupHeartbeat", 1, body)
    # A compact string is its length plus one and its bytes; a null one is a single zero.
    text = bytes([len(member_id) + 1]) + member_id.encode()
    client.exchange(frame.replace(text, b"\0"), "ConsumerGroupHeartbeat", 1)


def _planted(
    name: str, play: Callable[[InstanceClient, float], None], *rules: str, expects_close: bool = False
) -> Planted:
    return Planted(name, frozenset(rules), play, expects_close)


_DIFFERS = "kip1313/member-id-differs"
PLANTED = (
    _planted("instance ID changed", _change_instance_id, "kip1313/instance-id-changed", _DIFFERS),
    _planted("instance ID missing", _drop_instance_id, "kip1313/instance-id-missing"),
    _planted("instance ID zero", _begin_with_zero, "kip1313/instance-id-zero"),
    _planted("instance ID reserved", _be_number_one, "kip1313/instance-id-reserved"),
    _planted("client ID repeated", _repeat_client_id, "kip1313/client-id-repeated"),
    _planted("client ID never given", _hide_client_id, "kip1313/client-id-missing-first"),
    _planted("client ID dropped", _drop_client_id, "kip1313/client-id-dropped"),
    _planted("client ID changed", _change_client_id, "kip1313/client-id-changed"),
    _planted("telemetry under another ID", _push_under_another_id, "kip1313/telemetry-id-mismatch"),
    _planted("member ID of its own", _leave_as(lambda _: new_member_id()), _DIFFERS),
    _planted("empty member ID", _empty_member_id, "kip1082/member-id-empty"),
    _planted("member ID changed", _change_member_id, "kip1082/member-id-changed"),
    _planted(
        "member ID in hex",
        _leave_as(lambda client: client.instance_id.hex()),
        "kip1082/member-id-not-base64url",
    ),
    _planted("member ID that is a name", _leave_as(lambda _: "orders-1"), "kip1082/member-id-not-uuid"),
    _planted(
        "member ID reserved",
        _leave_as(lambda _: identifier_text(ONE_ID)),
        "kip1082/member-id-reserved",
        _DIFFERS,
    ),
    _planted(
        "member ID too long",
        _share_as_a_long_member,
        "kip1082/member-id-too-long",
        "kip1082/member-id-not-uuid",
    ),
    _planted("member ID left to the broker", _join_without_member_id, "kip1082/member-id-assigned-late"),
    _planted("software name malformed", _malform_software_name, "kip511/software-name-malformed"),
    _planted("software version malformed", _malform_software_version, "kip511/software-version-malformed"),
    _planted(
        "connection kept after a refusal",
        _keep_the_connection,
        "kip511/software-name-malformed",
        "kip511/connection-kept",
    ),
    _planted(
        "the refused version again",
        _fall_back_wrongly,
        "kip511/fallback-version-wrong",
        "wire/unknown-api",
    ),
    _planted("version out of range", _leave_range, "kip35/version-out-of-range", expects_close=True),
    _planted("API not advertised", _use_a_controllers_api, "kip35/api-not-advertised", expects_close=True),
    _planted("half a broker named", _name_half_a_broker, "kip1242/half-identified"),
    _planted(
        "rebootstrap ignored",
        _ignore_the_rebootstrap,
        "kip1242/misrouted",
        "kip1242/rebootstrap-ignored",
    ),
    _planted("bytes left over", _send_trailing_bytes, "wire/trailing-bytes"),
    _planted("API unknown", _use_an_unknown_api, "wire/unknown-api", expects_close=True),
    _planted(
        "null member ID",
        _null_member_id,
        "wire/malformed-request",
        "kip1082/member-id-empty",
        expects_close=True,
    ),
)
"""What the demo plants, each on a connection of its own."""


def play(planted: Planted, client: InstanceClient, settle: float) -> None:
    """Play one planted offence. Raises ConnectionClosedError when the broker should have answered."""
    try:
        planted.play(client, settle)
    except ConnectionClosedError:
        if not planted.expects_close:
            raise
