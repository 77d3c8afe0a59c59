"""The connections of a bucket as versions 3 to 5 kept them, contents and index in one piece.

In version 3 what moves with each frame stood among the rest, in version 4 only what heartbeats move.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from expectations.conversation.conversation import Advertised, Conversation
from expectations.conversation.observation import SoftwareClaim
from expectations.identity.sightings import Sightings
from expectations.judge import ConnectionState, OpenFinding
from expectations.membership import NO_MEMBER
from expectations.own_ids import NO_ID
from streaming.query.connections import ID_BYTES
from streaming.query.earlier_members import EARLIER_RULE_STATES, rule_states
from streaming.query.shared_facts import Table
from streaming.query.stored_connection import (
    INDEX,
    NOWHERE,
    ConnectionLayout,
    Content,
    Ranges,
    Row,
    Server,
    SharedFacts,
    facts_fields,
)

_INDEX_OF_VERSION_3 = np.dtype(
    [
        ("latest", "<i8"),
        ("heard", "<i8"),
        ("end", "<u4"),
        ("server", "<i4"),
        ("software", "<i4"),
        ("stirred", "u1"),
    ]
)
_OF_MEMBERS = {
    "member_until": NOWHERE,
    "member_before": NOWHERE,
    "beat": NOWHERE,
    "beat_at": NOWHERE,
    "member": NO_MEMBER,
    "membership": NOWHERE,
}
"""What version 4 did not have in its index."""
_OF_IDS = {"client": NO_ID, "instance": NO_ID}
"""What version 5 did not have in it."""
_INDEX_OF_VERSION_5 = np.dtype([(name, INDEX[name]) for name in Row._fields if name not in _OF_IDS])
_INDEX_OF_VERSION_4 = np.dtype(
    [(name, INDEX[name]) for name in Row._fields if name not in _OF_MEMBERS | _OF_IDS]
)
_REQUESTS_SEEN_AT = 6
"""The place of a number that nothing read."""


class ConnectionsOfVersion3(msgspec.Struct, array_like=True):
    """The layout: `index` holds a row a connection, `ids` its id, `contents` what was read one by one."""

    ids: bytes
    index: bytes
    contents: bytes
    servers: list[bytes]
    software: list[bytes]
    ranges: list[bytes]


class ConnectionsOfVersion4(msgspec.Struct, array_like=True):
    """The layout of version 4, and of version 5 but for the width of its index."""

    ids: bytes
    index: bytes
    contents: bytes
    shared: SharedFacts


_FIELDS = facts_fields()
_Facts = msgspec.defstruct(
    "FactsOfVersion3",
    [*_FIELDS[:_REQUESTS_SEEN_AT], ("requests_seen", int, 0), *_FIELDS[_REQUESTS_SEEN_AT:]],
    array_like=True,
)


class _ContentOfVersion3(msgspec.Struct, array_like=True):
    facts: _Facts  # type: ignore[valid-type]  # made from the conversation's fields at run time
    advertised: tuple[int, int] | None
    rules: EARLIER_RULE_STATES  # type: ignore[valid-type]  # made from the catalogue at run time
    findings: dict[str, OpenFinding]
    sightings: Sightings


class _ContentOfVersion4(Content, array_like=True):
    rules: EARLIER_RULE_STATES  # type: ignore[valid-type]  # likewise


_CONTENT_OF_VERSION_3 = msgspec.msgpack.Decoder(_ContentOfVersion3)
_CONTENT_OF_VERSION_4 = msgspec.msgpack.Decoder(_ContentOfVersion4)
_CONTENT_OF_VERSION_5 = msgspec.msgpack.Decoder(Content)


def connections_of_version_3(stored: ConnectionsOfVersion3) -> dict[bytes, ConnectionState]:
    """Read all connections, by their ids."""
    servers: Table[Server] = Table(Server, stored.servers)
    software: Table[SoftwareClaim] = Table(SoftwareClaim, stored.software)
    ranges: Table[Ranges] = Table(Ranges, stored.ranges)
    found = {}
    for connection, row, packed in _rows(stored, _INDEX_OF_VERSION_3):
        content = _CONTENT_OF_VERSION_3.decode(packed)
        facts = list(msgspec.structs.astuple(content.facts))
        del facts[_REQUESTS_SEEN_AT]
        said = Conversation(*facts)
        said.connection = connection
        said.cluster, said.server, said.run = servers.value(row["server"])
        said.software = None if row["software"] == NOWHERE else software.value(row["software"])
        if content.advertised is not None:
            sequence, place = content.advertised
            said.advertised = Advertised(sequence, ranges.value(place))
        rules = rule_states(content.rules)
        found[connection] = ConnectionState(said, rules, content.findings, content.sightings)
    return found


def connections_of_version_4(stored: ConnectionsOfVersion4) -> dict[bytes, ConnectionState]:
    """Read all connections, by their ids."""
    layout, found = ConnectionLayout(stored.shared), {}
    for connection, row, packed in _rows(stored, _INDEX_OF_VERSION_4):
        content = _CONTENT_OF_VERSION_4.decode(packed)
        content.rules = rule_states(content.rules)
        found[connection] = layout.assemble(
            connection, Row._make((row | _OF_MEMBERS | _OF_IDS)[name] for name in Row._fields), content
        )
    return found


def connections_of_version_5(stored: ConnectionsOfVersion4) -> dict[bytes, ConnectionState]:
    """Read all connections, by their ids."""
    layout, found = ConnectionLayout(stored.shared), {}
    for connection, row, packed in _rows(stored, _INDEX_OF_VERSION_5):
        placed = Row._make((row | _OF_IDS)[name] for name in Row._fields)
        found[connection] = layout.assemble(connection, placed, _CONTENT_OF_VERSION_5.decode(packed))
    return found


def _rows(
    stored: ConnectionsOfVersion3 | ConnectionsOfVersion4, index: np.dtype[Any]
) -> Iterator[tuple[bytes, dict[str, int], bytes]]:
    """Give each connection: its id, what stands of it in the index, and its bytes."""
    begin = 0
    for number, row in enumerate(np.frombuffer(stored.index, index).tolist()):
        named = dict(zip(index.names or (), row, strict=True))
        yield (
            stored.ids[number * ID_BYTES : (number + 1) * ID_BYTES],
            named,
            stored.contents[begin : named["end"]],
        )
        begin = named["end"]
