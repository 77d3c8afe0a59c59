"""Divides a statement into a template and its own values: its IDs and its epoch.

Clients that behave alike make statements of one template. Five values of a statement may be its own: client
ID, client instance ID, member ID, group ID (or the name that a record has for the client), and member epoch.
A value that some rule treats specially stays in the template: a blank client ID, a reserved UUID, a member ID
that is no UUID, an epoch that joins or leaves.
"""

from __future__ import annotations

import enum
from typing import Any, Final, NamedTuple

import msgspec

from expectations.conversation.bodies import (
    ClassicGroup,
    Heartbeat,
    HeartbeatResponse,
    MemberRequest,
    Placement,
    Principal,
    TelemetryIdentity,
)
from expectations.conversation.observation import Statement
from expectations.conversation.texts import UuidForm, is_own_uuid, own_uuid, written


def is_own_text(text: str | None) -> bool:
    """Whether an ID or a name is an own value: neither blank nor with a zero byte."""
    return text is not None and "\0" not in text and not text.isspace() and text != ""


class OwnValues(enum.IntFlag):
    """The own values that a statement has."""

    NONE = 0
    CLIENT = 1
    INSTANCE = 2
    MEMBER = 4
    GROUP = 8
    """A group ID, a principal or a placement: no statement has two of them."""
    EPOCH = 16


_CLIENT, _INSTANCE, _MEMBER, _GROUP, _EPOCH = map(int, OwnValues)
_OWN_VALUES: Final = [OwnValues(number) for number in range(sum(OwnValues) + 1)]
"""By their numbers: operations on members of an enumeration take longer than all else here."""


class Values(NamedTuple):
    """The own values of a statement; those that it lacks are empty."""

    client_id: str = ""
    instance_id: bytes = b""
    member_id: bytes = b""
    group_id: str = ""
    epoch: int = 0


class StatementTemplate(msgspec.Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """A statement without the values that `own` lists, and the form in which it writes its member ID."""

    statement: Statement
    own: OwnValues = OwnValues.NONE
    form: UuidForm = UuidForm.KAFKA

    def filled(self, values: Values) -> Statement:
        own, statement, body = int(self.own), self.statement, self.statement.body
        if not own:
            return statement
        given: dict[str, Any] = {}
        if own & _MEMBER:
            given[_member_field(body)] = written(values.member_id, self.form)
        if own & _GROUP:
            given[_group_field(body)] = values.group_id
        if own & _EPOCH:
            given["member_epoch"] = values.epoch
        return msgspec.structs.replace(
            statement,
            client_id=values.client_id if own & _CLIENT else statement.client_id,
            client_instance_id=values.instance_id if own & _INSTANCE else statement.client_instance_id,
            body=msgspec.structs.replace(body, **given) if body is not None and given else body,
        )


def split(statement: Statement) -> tuple[StatementTemplate, Values]:
    """Divide a statement into its template and its own values."""
    body, own, given, form = statement.body, 0, dict[str, Any](), UuidForm.KAFKA
    client_id, instance_id, member_id, group_id, epoch = Values()
    if is_own_text(statement.client_id):
        own, client_id = own | _CLIENT, statement.client_id or ""
    if is_own_uuid(statement.client_instance_id):
        own, instance_id = own | _INSTANCE, statement.client_instance_id or b""
    if (name := _member_field(body)) and (member := own_uuid(getattr(body, name))) is not None:
        own, given[name] = own | _MEMBER, ""
        member_id, form = member
    if (name := _group_field(body)) and is_own_text(group := getattr(body, name)):
        own, given[name], group_id = own | _GROUP, "", group
    if isinstance(body, Heartbeat) and body.member_epoch is not None and body.member_epoch > 0:
        own, given["member_epoch"] = own | _EPOCH, 0
        epoch = body.member_epoch
    if own:
        statement = msgspec.structs.replace(
            statement,
            client_id=None if own & _CLIENT else statement.client_id,
            client_instance_id=None if own & _INSTANCE else statement.client_instance_id,
            body=msgspec.structs.replace(body, **given) if body is not None and given else body,
        )
    values = Values(client_id, instance_id, member_id, group_id, epoch)
    return StatementTemplate(statement, _OWN_VALUES[own], form), values


def _group_field(body: object) -> str:
    """Return the name of the field that holds a body's group ID or name, empty if it has none."""
    if isinstance(body, Heartbeat | MemberRequest | ClassicGroup):
        return "group_id"
    return "name" if isinstance(body, Principal | Placement) else ""


def _member_field(body: object) -> str:
    """Return the name of the field that holds a body's member ID or instance ID, empty if it has none."""
    if isinstance(body, Heartbeat | HeartbeatResponse | MemberRequest):
        return "member_id"
    return "instance_id" if isinstance(body, TelemetryIdentity) else ""
