"""The offences that the demo plants: each on a connection of its own, with the rules it must violate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from expectations.conversation.identifier import identifier_text
from streaming.demo import offence_scripts as scripts
from streaming.demo.faults import INVERTING, RENAMING, UPGRADED
from streaming.demo.instance_client import ConnectionClosedError, InstanceClient
from streaming.demo.scenario import new_member_id

CLIENT_ID = "kipwatch-1313"


@dataclass(frozen=True, slots=True)
class PlantedOffence:
    """The offences of one connection: its findings must be exactly of these rules.

    `play` is called with the client and `settle`, the time in seconds after which a response has certainly
    been read. With `expects_close` the broker closes the connection instead of responding. Other client IDs
    than the usual one make the front simulate a fault of the broker.
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
    _planted("instance ID changed", scripts.change_instance_id, "kip1313/instance-id-changed", _DIFFERS),
    _planted("instance ID missing", scripts.drop_instance_id, "kip1313/instance-id-missing"),
    _planted("instance ID zero", scripts.begin_with_zero, "kip1313/instance-id-zero"),
    _planted("instance ID reserved", scripts.use_reserved_id, "kip1313/instance-id-reserved"),
    _planted("client ID repeated", scripts.repeat_client_id, "kip1313/client-id-repeated"),
    _planted("client ID never given", scripts.omit_client_id, "kip1313/client-id-missing-first"),
    _planted("client ID dropped", scripts.drop_client_id, "kip1313/client-id-dropped"),
    _planted("client ID changed", scripts.change_client_id, "kip1313/client-id-changed"),
    _planted("telemetry under another ID", scripts.push_with_another_id, "kip1313/telemetry-id-mismatch"),
    _planted("member ID of its own", scripts.leave_as(lambda _: new_member_id()), _DIFFERS),
    _planted("empty member ID", scripts.empty_member_id, "kip1082/member-id-empty"),
    _planted("member ID changed", scripts.change_member_id, "kip1082/member-id-changed"),
    _planted(
        "member ID in hex",
        scripts.leave_as(lambda client: client.instance_id.hex()),
        "kip1082/member-id-not-base64url",
    ),
    _planted(
        "member ID that is a name",
        scripts.leave_as(lambda _: "orders-1"),
        "kip1082/member-id-not-uuid",
    ),
    _planted(
        "member ID reserved",
        scripts.leave_as(lambda _: identifier_text(scripts.ONE_ID)),
        "kip1082/member-id-reserved",
        _DIFFERS,
    ),
    _planted(
        "member ID too long",
        scripts.send_long_member_id,
        "kip1082/member-id-too-long",
        "kip1082/member-id-not-uuid",
    ),
    _planted(
        "member ID left to the broker",
        scripts.join_without_member_id,
        "kip1082/member-id-assigned-late",
    ),
    _planted("software name malformed", scripts.malform_software_name, "kip511/software-name-malformed"),
    _planted(
        "software version malformed",
        scripts.malform_software_version,
        "kip511/software-version-malformed",
    ),
    _planted(
        "connection kept after a refusal",
        scripts.keep_connection,
        "kip511/software-name-malformed",
        "kip511/connection-kept",
    ),
    _planted(
        "the refused version again",
        scripts.repeat_refused_version,
        "kip511/fallback-version-wrong",
        "wire/unknown-api",
    ),
    _planted(
        "version out of range",
        scripts.use_removed_version,
        "kip35/version-out-of-range",
        "kip35/version-refused",
        expects_close=True,
        client_id=UPGRADED,
    ),
    _planted(
        "API not advertised",
        scripts.use_controller_api,
        "kip35/api-not-advertised",
        "kip35/version-refused",
        expects_close=True,
    ),
    _planted("half a broker named", scripts.name_cluster_only, "kip1242/half-identified"),
    _planted(
        "rebootstrap ignored",
        scripts.ignore_rebootstrap,
        "kip1242/misrouted",
        "kip1242/rebootstrap-ignored",
    ),
    _planted("bytes left over", scripts.send_trailing_bytes, "wire/trailing-bytes"),
    _planted(
        "API unknown",
        scripts.use_unknown_api,
        "wire/unknown-api",
        "kip35/api-not-advertised",
        "kip35/version-refused",
        expects_close=True,
    ),
    _planted(
        "null member ID",
        scripts.null_member_id,
        "wire/malformed-request",
        "kip1082/member-id-empty",
        expects_close=True,
    ),
    _planted("instance ID shared", scripts.share_instance_id, "kip1313/instance-id-shared"),
    _planted("member ID shared", scripts.share_member_id, "kip1082/member-id-shared"),
    _planted(
        "member renamed by the broker",
        scripts.join_and_leave,
        "kip1082/member-id-rewritten",
        client_id=RENAMING,
    ),
    _planted(
        "range upside down in the advertisement",
        scripts.negotiate,
        "kip35/range-inverted",
        client_id=INVERTING,
    ),
)
"""All planted offences."""


def play(planted: PlantedOffence, client: InstanceClient, settle: float) -> None:
    """Play one planted offence. Raises ConnectionClosedError if a response was expected."""
    try:
        planted.play(client, settle)
    except ConnectionClosedError:
        if not planted.expects_close:
            raise
