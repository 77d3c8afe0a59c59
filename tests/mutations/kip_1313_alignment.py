"""What breaks the rules of KIP-1313 on IDs that must agree, one thing at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tests.mutations.bodies import (
    HEARTBEAT_APIS,
    INSTANCE_ID,
    OTHER_ID,
    OTHER_MEMBER_ID,
    TELEMETRY_APIS,
    ZERO_TEXT,
)
from tests.mutations.clean import ask as asked
from tests.mutations.kip_1313 import is_bound, refuse, refused
from tests.mutations.mutator import breaks
from tests.mutations.script import FIRST, SECOND_ONE, Ask, Close, Script


@breaks("kip1313/sasl-handshake-refused")
def refuse_a_handshake(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.api == "SaslHandshake" and any(earlier.header == 3 for earlier in script.before(place)):
            for version in (0, 1):
                handshake = dataclasses.replace(ask, version=version, response=refused(ask))
                yield script.put(place, handshake).broken_off(place)


@breaks("kip1313/telemetry-id-mismatch")
def push_under_another_id(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        is_given = ask.body.get("clientInstanceId", ZERO_TEXT) != ZERO_TEXT
        if ask.api in TELEMETRY_APIS and ask.version == 0 and is_given:
            yield _with_identity(script, place, ask, OTHER_MEMBER_ID)


@breaks("kip1313/telemetry-id-mismatch")
def push_under_another_id_than_the_headers(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.api in TELEMETRY_APIS and ask.header == 3 and is_bound(script, place):
            older = asked(ask.api, 0, clientInstanceId=OTHER_MEMBER_ID)
            yield refuse(script.put(place, older), place)


@breaks("kip1313/telemetry-id-mismatch")
def change_the_id_of_telemetry(script: Script) -> Iterator[Script]:
    """The broker assigns none on the connection."""
    steps = tuple(
        step
        for step in script.steps
        if not isinstance(step, Ask) or step.api not in TELEMETRY_APIS or "clientInstanceId" in step.body
    )
    unassigned = dataclasses.replace(script, steps=steps)
    pushed = [
        (place, ask) for place, ask in unassigned.asks() if ask.api in TELEMETRY_APIS and ask.header < 3
    ]
    for place, ask in pushed[1:] if script.focus is None else ():
        yield _with_identity(unassigned, place, ask, OTHER_MEMBER_ID)


@breaks("kip1313/telemetry-id-mismatch")
def ask_for_an_id_in_spite_of_the_headers(script: Script) -> Iterator[Script]:
    for place, ask in script.targets():
        if ask.api == "GetTelemetrySubscriptions" and ask.header == 3 and is_bound(script, place):
            yield refuse(script.put(place, asked(ask.api, 0)), place)


@breaks("kip1313/telemetry-id-not-assigned")
def assign_nothing(script: Script) -> Iterator[Script]:
    for place, ask in _subscriptions(script):
        if "clientInstanceId" not in ask.body:
            yield script.changed(place, response={**(ask.response or {}), "clientInstanceId": ZERO_TEXT})


@breaks("kip1313/telemetry-id-not-echoed")
def respond_with_another_id(script: Script) -> Iterator[Script]:
    for place, ask in _subscriptions(script):
        if "clientInstanceId" in ask.body:
            yield script.read_as("kip1313=text")
            for returned in (ZERO_TEXT, OTHER_MEMBER_ID):
                yield script.changed(place, response={**(ask.response or {}), "clientInstanceId": returned})


def _subscriptions(script: Script) -> Iterator[tuple[int, Ask]]:
    return (
        (place, ask)
        for place, ask in script.targets()
        if ask.api == "GetTelemetrySubscriptions" and ask.version == 0
    )


def _with_identity(script: Script, place: int, ask: Ask, given: str) -> Script:
    response = dict(ask.response or {})
    if "clientInstanceId" in response:
        response["clientInstanceId"] = given
    return script.changed(place, body={**ask.body, "clientInstanceId": given}, response=response)


@breaks("kip1313/member-id-differs")
def name_the_member_otherwise(script: Script) -> Iterator[Script]:
    beats = [ask for _, ask in script.asks() if ask.api in HEARTBEAT_APIS and ask.header == 3]
    if beats:
        yield script.each(lambda ask: with_member_id(ask, OTHER_MEMBER_ID))


def with_member_id(ask: Ask, member_id: str) -> Ask:
    """A heartbeat, or a Share request, of another member; the broker takes it as it is."""
    if "memberId" not in ask.body:
        return ask
    response = dict(ask.response or {})
    if "memberId" in response:
        response["memberId"] = member_id
    return dataclasses.replace(ask, body={**ask.body, "memberId": member_id}, response=response)


@breaks("kip1313/instance-id-shared")
def share_the_id(script: Script) -> Iterator[Script]:
    """Two client instances that are connected at once: they differ in one thing, but not in the ID."""
    if not _is_beside(script) or any(ask.header < 3 for _, ask in script.asks()):
        return
    one = script.each(lambda ask: dataclasses.replace(ask, instance_id=INSTANCE_ID))
    yield dataclasses.replace(one, hosts={SECOND_ONE: 2})
    for place, ask in one.asks(SECOND_ONE):
        if ask.api == "ApiVersions":
            yield one.changed(place, client_id="another")
            for field in ("clientSoftwareName", "clientSoftwareVersion"):
                differing = one.changed(place, body={**ask.body, field: "another"})
                yield differing
                yield dataclasses.replace(differing, servers={SECOND_ONE: 201})


def _is_beside(script: Script) -> bool:
    """Whether the second connection begins before the first one is closed."""
    names = [step.on for step in script.steps if not isinstance(step, Close)]
    return SECOND_ONE in names and FIRST in names[names.index(SECOND_ONE) :]


@breaks("kip1313/instance-id-not-kept")
def come_back_with_another_id(script: Script) -> Iterator[Script]:
    apis = {ask.api for _, ask in script.asks(SECOND_ONE)}
    if not _is_beside(script) and not apis.isdisjoint(HEARTBEAT_APIS):
        yield script.each(
            lambda ask: dataclasses.replace(ask, instance_id=OTHER_ID) if ask.on == SECOND_ONE else ask
        )


@breaks("kip1313/instance-id-not-lifelong")
def take_an_id_per_connection(script: Script) -> Iterator[Script]:
    """Connections one after another, each with an instance ID of its own."""
    negotiation = next(
        (ask for _, ask in script.asks() if ask.api == "ApiVersions" and ask.header == 3), None
    )
    if negotiation is not None and script.focus is None and not script.before(0):
        steps = [
            step
            for number in range(1, 6)
            for step in (
                dataclasses.replace(
                    negotiation, client_id="app", on=str(number), instance_id=bytes([number]) * 16
                ),
                Close(on=str(number)),
            )
        ]
        yield dataclasses.replace(script, steps=tuple(steps))


@breaks("kip1313/instance-id-not-lifelong")
def go_on_under_another_id(script: Script) -> Iterator[Script]:
    """A member that has not left goes on, on another connection, under another instance ID."""
    apis = {ask.api for _, ask in script.asks(SECOND_ONE)}
    if _is_beside(script) or apis.isdisjoint(HEARTBEAT_APIS):
        return
    steps = [
        dataclasses.replace(step, instance_id=OTHER_ID)
        if isinstance(step, Ask) and step.on == SECOND_ONE
        else step
        for step in script.steps
        if not isinstance(step, Ask) or _stays(step)
    ]
    yield dataclasses.replace(script, steps=tuple(steps)).each(lambda ask: with_member_id(ask, "orders-1"))


def _stays(ask: Ask) -> bool:
    """Whether it is no heartbeat, or one of a member that is in its group."""
    epoch: int = ask.body.get("memberEpoch", 1)
    return epoch > 0
