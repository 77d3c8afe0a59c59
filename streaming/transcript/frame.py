"""Decoded frames as objects: header, body, remarks, and why a frame could not be decoded.

`decode_frame` also keeps the client of each connection, since KIP-511's request log shows it on each line.
`hide_secrets` blanks passwords, tokens, keys and configuration values. `connections_of` finds the connections
that show a client instance or a group. A connection shows a client instance by its ID in a request header
(KIP-1313), in telemetry (KIP-714) or as a member ID (KIP-1082), and a group by a request or response that
names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from decoders.codec.request import Request, read_request
from decoders.codec.response import Response, read_response
from decoders.frame.privacy import NO_GUARD, guards_of
from decoders.frame.record import Direction, Kind, Pairing, Record
from decoders.protocol import API_VERSIONS
from decoders.schema.registry import Api, Schemas
from expectations.conversation.texts import identifier_bytes, identifier_text

NO_API: Final = -1
HIDDEN: Final = "(hidden)"
_GROUPS: Final = frozenset({"groupId", "groups", "groupIds", "groupsNames"})
_INSTANCES: Final = frozenset({"clientInstanceId", "memberId"})
_GROUP_COORDINATOR: Final = 0
"""The key type of a FindCoordinator request for a group."""


class Oddness(msgspec.Struct):
    """A remark or failure: the reason, the field ("" for the whole frame) and the byte, null if unknown."""

    reason: str
    path: str = ""
    offset: int | None = None


class DecodedFrame(msgspec.Struct):
    """One frame of a capture. `decode --jsonl` prints these fields in this order.

    `kind` is `request`, `response` or `sasl_token`; a token has no header and is secret, so its
    `body` holds only sender and length. `captured_at` is in nanoseconds since the epoch. API and version of
    a response are those of its request. A field of the header is null if it could not be read, or the header
    has no such field; `client_id` may also be null on the wire. `body` and `failure` are never both null:
    `failure` says why a body could not be read.
    """

    connection: str
    client: str
    server: str
    kind: str
    sequence: int
    captured_at: int
    api_key: int | None = None
    api: str | None = None
    api_version: int | None = None
    header_version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    client_instance_id: str | None = None
    body: dict[str, Any] | None = None
    remarks: list[Oddness] = []
    failure: Oddness | None = None
    client_software_name: str | None = None
    client_software_version: str | None = None


@dataclass(slots=True)
class ConnectedClient:
    """The latest client ID other than null, and the software of the latest ApiVersions request."""

    client_id: str | None = None
    software_name: str | None = None
    software_version: str | None = None

    def update(self, request: Request) -> None:
        if request.client_id is not None:
            self.client_id = request.client_id
        body: dict[str, Any] = request.body or {}
        if request.api_key == API_VERSIONS and "clientSoftwareName" in body:
            self.software_name = body["clientSoftwareName"]
            self.software_version = body["clientSoftwareVersion"]


class ConnectedClients:
    """The clients of the open connections."""

    def __init__(self) -> None:
        self._by_connection: dict[bytes, ConnectedClient] = {}

    def of(self, record: Record) -> ConnectedClient:
        """Return the client of a record's connection; it is forgotten when the connection closes."""
        if record.kind is Kind.CLOSED:
            return self._by_connection.pop(record.connection, ConnectedClient())
        return self._by_connection.setdefault(record.connection, ConnectedClient())


def decode_frame(schemas: Schemas, record: Record, client: ConnectedClient) -> DecodedFrame | None:
    """Decode the frame that a record holds, and update the client of its connection.

    None for a record that holds no frame: an event of the connection.
    """
    if record.kind is Kind.REQUEST:
        request = read_request(schemas, record.frame, cut=record.is_cut)
        client.update(request)
        fields = _of_request(request, record)
    elif record.kind is Kind.RESPONSE:
        key = NO_API if record.pairing is Pairing.UNKNOWN else record.paired_api_key
        version = record.paired_api_version
        fields = _read(read_response(schemas, record.frame, key, version, cut=record.is_cut), record)
    elif record.kind is Kind.SASL_TOKEN:
        sender = "broker" if record.direction is Direction.TO_CLIENT else "client"
        fields = {"body": {"sender": sender, "length": record.true_length}}
    else:
        return None
    return DecodedFrame(
        connection=record.connection.hex(),
        client=str(record.client),
        server=str(record.server),
        kind=record.kind.name.lower(),
        sequence=record.sequence,
        captured_at=record.captured_at,
        client_software_name=client.software_name,
        client_software_version=client.software_version,
        **fields,
    )


def _of_request(request: Request, record: Record) -> dict[str, Any]:
    found = request.client_instance_id
    return _read(request, record) | {
        "client_id": request.client_id,
        "client_instance_id": None if found is None else identifier_text(found),
    }


def _read(read: Request | Response, record: Record) -> dict[str, Any]:
    return {
        "api_key": None if read.api_key == NO_API else read.api_key,
        "api": read.api.name if read.api else None,
        "api_version": None if read.api_key == NO_API else read.api_version,
        "header_version": read.header_version,
        "correlation_id": read.correlation_id,
        "body": read.body,
        "remarks": [Oddness(each.oddity.value, each.path, each.offset) for each in read.remarks],
        "failure": _failure(read, record),
    }


def _failure(read: Request | Response, record: Record) -> Oddness | None:
    if failure := read.failure:
        return Oddness(failure.reason.value, failure.path, failure.offset)
    if not read.known:
        return Oddness(_why_unknown(read, read.api))
    return Oddness("cut", "", len(record.frame)) if read.body is None else None


def _why_unknown(read: Request | Response, api: Api | None) -> str:
    """Return why the API version of a frame is unknown: the schemas lack it, or its layout is unproven."""
    if read.api_key == NO_API:
        return "unpaired"
    if api is None:
        return "unknown-api"
    return "unproven" if read.api_version in api.versions else "unknown-version"


def hide_secrets(schemas: Schemas, frame: DecodedFrame) -> None:
    """Replace the secrets in a frame's body by HIDDEN, apart from empty ones.

    Data of applications, such as a member's metadata, is shown, although the feeder does not keep it.
    """
    if frame.body is None or frame.api_key is None:
        return
    guards = guards_of(schemas)
    by_key = guards.requests if frame.kind == "request" else guards.responses
    for path in by_key.get(frame.api_key, NO_GUARD).hidden:
        _hide(frame.body, path.split("."))


def _hide(value: Any, path: Sequence[str]) -> None:
    if isinstance(value, list):
        for element in value:
            _hide(element, path)
    elif isinstance(value, dict):
        name, *rest = path
        if rest:
            _hide(value.get(name), rest)
        elif isinstance(value.get(name), list):
            value[name] = [element and HIDDEN for element in value[name]]
        elif value.get(name):
            value[name] = HIDDEN


Shows = Callable[[DecodedFrame], bool]
"""Whether a frame shows what is followed."""


def shows_instance(identifier: bytes) -> Shows:
    """Return a test for a client instance ID of 16 bytes."""

    def shows(frame: DecodedFrame) -> bool:
        texts = [frame.client_instance_id, *_texts(frame.body, _INSTANCES)]
        return any(text is not None and identifier_bytes(text) == identifier for text in texts)

    return shows


def shows_group(group_id: str) -> Shows:
    """Return a test for a group."""
    return lambda frame: group_id in (*_texts(frame.body, _GROUPS), *_sought(frame.body or {}))


def connections_of(frames: Iterable[DecodedFrame], *followed: Shows) -> set[str]:
    """Return the connections, in hex, that show everything followed, in one frame or in several."""
    shown: list[set[str]] = [set() for _ in followed]
    for frame in frames:
        for shows, connections in zip(followed, shown, strict=True):
            if shows(frame):
                connections.add(frame.connection)
    return set.intersection(*shown) if shown else set()


def _texts(value: Any, names: frozenset[str], name: str = "") -> Iterator[str]:
    """Yield the texts of all fields with one of these names, at any depth of a body."""
    if isinstance(value, dict):
        for inner, content in value.items():
            yield from _texts(content, names, inner)
    elif isinstance(value, list):
        for content in value:
            yield from _texts(content, names, name)
    elif isinstance(value, str) and name in names:
        yield value


def _sought(body: dict[str, Any]) -> Iterator[str]:
    """Yield the groups whose coordinator a FindCoordinator request asks for."""
    if (
        body.get("keyType", _GROUP_COORDINATOR) == _GROUP_COORDINATOR
        and {"key", "coordinatorKeys"} & body.keys()
    ):
        yield from _texts(body, frozenset({"key", "coordinatorKeys"}))
