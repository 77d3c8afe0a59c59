"""The fields of Kafka's messages that may be kept: a list of those known to be harmless.

Strings and bytes are classified by the field's name, which Kafka uses for the same thing in all messages, or
by its parent's and its own name where that differs. A field that is not listed is UNCLASSIFIED and treated as
a secret, so a schema that is loaded at run time cannot make kipwatch keep a field that nobody has classified.
Numbers, booleans and UUIDs are always kept.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, NamedTuple

from decoders.codec.program import UNKNOWN_TAGS
from decoders.protocol import SASL_HANDSHAKE
from decoders.schema.model import FIXED_SIZE_TYPES, Message, Struct
from decoders.schema.registry import Schemas


class Privacy(enum.Enum):
    """The class of a field's content."""

    KEPT = "kept"
    PAYLOAD = "payload"
    """Records: the frame is cut before the first."""
    SECRET = "secret"
    """Passwords, tokens, keys and configuration values: blanked, and hidden by `decode`."""
    PRIVATE = "private"
    """Content that applications exchange with each other: blanked."""
    UNCLASSIFIED = "unclassified"
    """Blanked and hidden, as a secret."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_IDENTITIES: Final = _names(
    """
    clientHost clientId coordinatorKeys entityName entityType groupId groupIds groupInstanceId groups
    groupsNames host hostFilter instanceId key leader match memberId ownerPrincipalName ownerPrincipalType
    principal principalFilter principalName principalType processId tokenId tokenRequesterPrincipalName
    tokenRequesterPrincipalType transactionalId transactionalIdPattern transactionalIds user
    v3AndBelowTransactionalId
    """
)
"""Names of strings that identify clients, users and hosts."""
_RESOURCES: Final = _names(
    """
    clusterId feature logDir name path rack rackId repartitionSinkTopics resourceName resourceNameFilter
    sinkTopic sourceTopicRegex sourceTopics stores subscribedTopicNames subscribedTopicRegex subtopologyId
    successors topic topicName topicNames
    """
)
"""Names of strings that name topics, brokers and other resources of a cluster."""
_TERMS: Final = _names(
    """
    acknowledgeErrorMessage assignorName batchIndexErrorMessage clientSoftwareName clientSoftwareVersion
    configurationKeys documentation errorMessage groupState groupType mechanism mechanisms protocolData
    protocolName protocolType reason requestedMetrics serverAssignor stateFilters statesFilter statusDetail
    transactionState typesFilter unknownStateFilters
    """
)
"""Names of strings that hold a term of the protocol, or a reason in words."""
_STRINGS: Final[Mapping[str, Privacy]] = {
    **dict.fromkeys(_IDENTITIES | _RESOURCES | _TERMS, Privacy.KEPT),
    "value": Privacy.SECRET,
    "clientTags.value": Privacy.PRIVATE,
    "committedMetadata": Privacy.PRIVATE,
    "metadata": Privacy.PRIVATE,
}
_BYTES: Final[Mapping[str, Privacy]] = {
    "clientHostAddress": Privacy.KEPT,
    **dict.fromkeys(("authBytes", "hmac", "salt", "saltedPassword"), Privacy.SECRET),
    # A forwarded request of any API, whoever sent it, and its response.
    **dict.fromkeys(("requestData", "requestPrincipal", "responseData"), Privacy.SECRET),
    **dict.fromkeys(("assignment", "memberAssignment", "memberMetadata", "metadata"), Privacy.PRIVATE),
    "metrics": Privacy.PRIVATE,
}


class FieldGuard(NamedTuple):
    """The fields of a message that may not be kept, as paths.

    The frame is cut before those in `cut`. Those in `blanked` are overwritten; `hidden` are the ones among
    them that `decode` does not print. `contents` are all fields, what is tagged and unknown, and the names in
    a header. `movable` are those that a wrong length in the body may move: all from the first length on.
    """

    cut: tuple[str, ...] = ()
    blanked: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    contents: tuple[str, ...] = ()
    movable: tuple[str, ...] = ()


_MEMBER: Final = frozenset({"groupId", "memberId"})
_IN_HEADER: Final = tuple(f"header.{name}" for name in ("clientId", "clientInstanceId", UNKNOWN_TAGS))
NO_GUARD: Final = FieldGuard()


@dataclass(frozen=True, slots=True)
class Guards:
    """The guards of requests and responses by API key; a message without one may be kept whole."""

    requests: Mapping[int, FieldGuard]
    responses: Mapping[int, FieldGuard]


@functools.cache
def guards_of(schemas: Schemas) -> Guards:
    """Return the guards of all messages of these schemas."""
    requests = {api.key: guard_of(api.request) for api in schemas.apis}
    responses = {api.key: guard_of(api.response) for api in schemas.apis}
    handshake = [api for api in schemas.apis if api.key == SASL_HANDSHAKE]
    # The password comes next: a length that is too large makes it trailing bytes, which are blanked.
    behind_it = {api.key: FieldGuard(contents=_contents(api.request)) for api in handshake}
    return Guards(behind_it | _needed(requests), _needed(responses))


def guard_of(message: Message) -> FieldGuard:
    """Return the fields of a message that may not be kept."""
    fields = list(classified(message))
    if all(privacy is Privacy.KEPT for _, privacy in fields):
        return NO_GUARD
    return FieldGuard(
        cut=tuple(path for path, privacy in fields if privacy is Privacy.PAYLOAD),
        blanked=tuple(path for path, privacy in fields if privacy in _BLANKED),
        hidden=tuple(path for path, privacy in fields if privacy in _HIDDEN),
        contents=_contents(message),
        movable=_movable(message),
    )


def _contents(message: Message) -> tuple[str, ...]:
    return *_IN_HEADER, *(path for path, _ in classified(message)), *_tags(message.struct)


def _movable(message: Message) -> tuple[str, ...]:
    """Return the paths of the body's contents, without the numbers before its first string, bytes or array.

    Rules read the group and the member with which a heartbeat begins, and its secrets are not near them.
    """
    fixed = takewhile(
        lambda field: field.type in FIXED_SIZE_TYPES or field.name in _MEMBER, message.struct.fields
    )
    stays = {*_IN_HEADER, *(field.name for field in fixed)}
    return tuple(path for path in _contents(message) if path not in stays)


_HIDDEN: Final = frozenset({Privacy.SECRET, Privacy.UNCLASSIFIED})
_BLANKED: Final = _HIDDEN | {Privacy.PRIVATE}


def classified(message: Message) -> Iterator[tuple[str, Privacy]]:
    """Yield the path of each field of a message that is not a struct, with its class."""
    yield from _classified(message.struct, ())


def _tags(struct: Struct, parent: str = "") -> Iterator[str]:
    """Yield the path of what is tagged and unknown, for each struct."""
    yield parent + UNKNOWN_TAGS
    for field in struct.fields:
        if field.struct is not None:
            yield from _tags(field.struct, f"{parent}{field.name}.")


def _classified(struct: Struct, parents: tuple[str, ...]) -> Iterator[tuple[str, Privacy]]:
    for field in struct.fields:
        path = (*parents, field.name)
        if field.struct is not None:
            yield from _classified(field.struct, path)
        else:
            yield ".".join(path), _privacy(field.type, path)


def _privacy(type_: str, path: tuple[str, ...]) -> Privacy:
    match type_:
        case "records":
            return Privacy.PAYLOAD
        case "string" | "bytes":
            names = _STRINGS if type_ == "string" else _BYTES
            return names.get(".".join(path[-2:])) or names.get(path[-1], Privacy.UNCLASSIFIED)
    return Privacy.KEPT


def _needed(guards: Mapping[int, FieldGuard]) -> dict[int, FieldGuard]:
    return {key: guard for key, guard in guards.items() if guard != NO_GUARD}
