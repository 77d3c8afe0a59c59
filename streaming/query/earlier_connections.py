"""The connections of a bucket as version 3 kept them: what moves with each frame stood among the rest."""

from __future__ import annotations

import msgspec
import numpy as np

from expectations.catalogue import RULE_STATES
from expectations.conversation.conversation import Advertised, Conversation
from expectations.conversation.observation import SoftwareClaim
from expectations.identity.sightings import Sightings
from expectations.judge import ConnectionState, OpenFinding
from streaming.query.shared_facts import Table
from streaming.query.stored_connection import NOWHERE, Ranges, Server, facts_fields

_ID_BYTES = 16
_INDEX = np.dtype(
    [
        ("latest", "<i8"),
        ("heard", "<i8"),
        ("end", "<u4"),
        ("server", "<i4"),
        ("software", "<i4"),
        ("stirred", "u1"),
    ]
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


_FIELDS = facts_fields()
_Facts = msgspec.defstruct(
    "FactsOfVersion3",
    [*_FIELDS[:_REQUESTS_SEEN_AT], ("requests_seen", int, 0), *_FIELDS[_REQUESTS_SEEN_AT:]],
    array_like=True,
)


class _Content(msgspec.Struct, array_like=True):
    facts: _Facts  # type: ignore[valid-type]  # made from the conversation's fields at run time
    advertised: tuple[int, int] | None
    rules: RULE_STATES  # type: ignore[valid-type]  # made from the catalogue at run time
    findings: dict[str, OpenFinding]
    sightings: Sightings


_CONTENT = msgspec.msgpack.Decoder(_Content)


def read_connections(stored: ConnectionsOfVersion3) -> dict[bytes, ConnectionState]:
    """Read all connections, by their ids."""
    servers: Table[Server] = Table(Server, stored.servers)
    software: Table[SoftwareClaim] = Table(SoftwareClaim, stored.software)
    ranges: Table[Ranges] = Table(Ranges, stored.ranges)
    found, begin = {}, 0
    for number, row in enumerate(np.frombuffer(stored.index, _INDEX)):
        connection = stored.ids[number * _ID_BYTES : (number + 1) * _ID_BYTES]
        content = _CONTENT.decode(stored.contents[begin : row["end"]])
        begin = row["end"]
        facts = list(msgspec.structs.astuple(content.facts))
        del facts[_REQUESTS_SEEN_AT]
        said = Conversation(*facts)
        said.connection = connection
        said.cluster, said.server, said.run = servers.value(int(row["server"]))
        said.software = None if row["software"] == NOWHERE else software.value(int(row["software"]))
        if content.advertised is not None:
            sequence, place = content.advertised
            said.advertised = Advertised(sequence, ranges.value(place))
        found[connection] = ConnectionState(said, content.rules, content.findings, content.sightings)
    return found
