"""Which fields of Kafka's messages may be kept: a list of what is known to be harmless.

Strings and bytes are classified by the field's name, which Kafka uses for the same thing in all messages, or
by its parent's and its own name where that differs. A field that no line names is UNCLASSIFIED and treated
as a secret, so a schema that is loaded at run time cannot make kipwatch keep what nobody has looked at.
Numbers, booleans and UUIDs are always kept.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from decoders.schema.model import Message, Struct
from decoders.schema.registry import Schemas


class Privacy(enum.Enum):
    """What may be done with the content of a field."""

    KEPT = "kept"
    PAYLOAD = "payload"
    """Records: the frame is cut before the first."""
    SECRET = "secret"
    """Passwords, tokens, keys and configuration values: blanked, and hidden by `decode`."""
    PRIVATE = "private"
    """What applications tell each other: blanked."""
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


class Guard(NamedTuple):
    """The fields of a message that may not be kept, as paths.

    The frame is cut before those in `cut`. Those in `blanked` are overwritten; `hidden` are the ones among
    them that `decode` does not print.
    """

    cut: tuple[str, ...] = ()
    blanked: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


NO_GUARD: Final = Guard()


@dataclass(frozen=True, slots=True)
class Guards:
    """The guards of requests and responses by API key; a message without one may be kept whole."""

    requests: Mapping[int, Guard]
    responses: Mapping[int, Guard]


@functools.cache
def guards_of(schemas: Schemas) -> Guards:
    """Return the guards of all messages of these schemas."""
    requests = {api.key: guard_of(api.request) for api in schemas.apis}
    responses = {api.key: guard_of(api.response) for api in schemas.apis}
    return Guards(_needed(requests), _needed(responses))


def guard_of(message: Message) -> Guard:
    """Return which fields of a message may not be kept."""
    fields = list(classified(message))
    return Guard(
        cut=tuple(path for path, privacy in fields if privacy is Privacy.PAYLOAD),
        blanked=tuple(path for path, privacy in fields if privacy in _BLANKED),
        hidden=tuple(path for path, privacy in fields if privacy in _HIDDEN),
    )


_HIDDEN: Final = frozenset({Privacy.SECRET, Privacy.UNCLASSIFIED})
_BLANKED: Final = _HIDDEN | {Privacy.PRIVATE}


def classified(message: Message) -> Iterator[tuple[str, Privacy]]:
    """Yield the path of each field of a message that is not a struct, with its class."""
    yield from _classified(message.struct, ())


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


def _needed(guards: Mapping[int, Guard]) -> Mapping[int, Guard]:
    return {key: guard for key, guard in guards.items() if guard != NO_GUARD}
