"""The connections of a bucket: laid out in bytes, and read one by one when they are asked for.

A batch names few of the connections that a bucket holds. The others pass from one stored state to the
next as they are: what must be known of all of them (who is open, who was silent for long, who has news)
stands in an index of fixed width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, MutableMapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from expectations.catalogue import RULE_STATES
from expectations.conversation.conversation import Advertised, Conversation
from expectations.conversation.observation import SoftwareClaim
from expectations.identity.sightings import Sightings
from expectations.judge import ConnectionState, OpenFinding
from streaming.query.shared_facts import Table

ID_BYTES = 16
NOWHERE = -1
LEAST_SHARED = 64
"""Shared facts that are kept whether or not connections have them."""
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
"""Latest capture time and sequence, where the connection's content ends, places of shared facts, and
whether there may be something to tell again."""

Server = tuple[str, str, int]
"""A cluster, a server's address, and a run of the feeder."""
Ranges = dict[int, tuple[int, int]]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    given = {"default": field.default, "default_factory": field.default_factory}
    return msgspec.field(**given)


_Facts = msgspec.defstruct(
    "Facts",
    [(field.name, field.type, _default(field)) for field in msgspec.structs.fields(Conversation)],
    array_like=True,
)
"""A conversation without the names of its fields, to which others may be added at the end."""


class StoredConnections(msgspec.Struct, array_like=True):
    """The layout: `index` holds an _INDEX a connection, `ids` its id, `contents` what is read one by one."""

    ids: bytes = b""
    index: bytes = b""
    contents: bytes = b""
    servers: list[bytes] = []
    software: list[bytes] = []
    ranges: list[bytes] = []


class _Content(msgspec.Struct, array_like=True):
    """What is stored of one connection beyond the index. `rules` holds the states that are not new."""

    facts: _Facts  # type: ignore[valid-type]  # made from the conversation's fields at run time
    advertised: tuple[int, int] | None
    rules: RULE_STATES  # type: ignore[valid-type]  # made from the catalogue at run time
    findings: dict[str, OpenFinding]
    sightings: Sightings


_ENCODER = msgspec.msgpack.Encoder()
_CONTENT = msgspec.msgpack.Decoder(_Content)
_RULE_NAMES = RULE_STATES.__struct_fields__
_NEW_RULES = msgspec.structs.astuple(RULE_STATES())


class Connections(MutableMapping[bytes, ConnectionState]):
    """The states of connections by their ids. Those that were asked for may be changed in place."""

    def __init__(self, stored: StoredConnections | None = None) -> None:
        stored = stored or StoredConnections()
        self._ids = stored.ids
        self._index: npt.NDArray[Any] = np.frombuffer(stored.index, _INDEX)
        self._contents = memoryview(stored.contents)
        self._servers: Table[Server] = Table(Server, stored.servers)
        self._software: Table[SoftwareClaim] = Table(SoftwareClaim, stored.software)
        self._ranges: Table[Ranges] = Table(Ranges, stored.ranges)
        self._read: dict[bytes, ConnectionState] = {}
        self._is_stored = np.ones(len(self._index), np.bool_)

    def __getitem__(self, connection: bytes) -> ConnectionState:
        state = self._read.get(connection)
        if state is None:
            place = self._place(connection)
            if place == NOWHERE:
                raise KeyError(connection)
            state = self._read[connection] = self._decode(connection, place)
            self._is_stored[place] = False
        return state

    def __setitem__(self, connection: bytes, state: ConnectionState) -> None:
        self._forget(connection)
        self._read[connection] = state

    def __delitem__(self, connection: bytes) -> None:
        if not self._forget(connection) and connection not in self._read:
            raise KeyError(connection)
        self._read.pop(connection, None)

    def __iter__(self) -> Iterator[bytes]:
        yield from [self._id(place) for place in np.flatnonzero(self._is_stored).tolist()]
        yield from list(self._read)

    def __len__(self) -> int:
        return len(self._read) + int(self._is_stored.sum())

    def heard(self, connection: bytes) -> int:
        """Tell the latest sequence heard on a connection, 0 if it is not known, without reading it."""
        state = self._read.get(connection)
        if state is not None:
            return state.conversation.latest_sequence
        place = self._place(connection)
        return 0 if place == NOWHERE else int(self._index["heard"][place])

    def with_news(self) -> list[ConnectionState]:
        """Read the connections that may have something to tell again: findings, or identities."""
        stirred = np.flatnonzero(self._is_stored & (self._index["stirred"] != 0)).tolist()
        return [self[connection] for connection in [*self._read, *map(self._id, stirred)]]

    def drop_silent(self, since: int) -> None:
        """Forget the connections whose latest record was captured before `since`, in nanoseconds."""
        self._is_stored &= self._index["latest"] >= since
        for connection, state in list(self._read.items()):
            if state.conversation.latest_captured_at < since:
                del self._read[connection]

    def by_software(self) -> Counter[tuple[SoftwareClaim | None, str]]:
        """Count the open connections by client software, None if it did not say, and server."""
        kept = self._index[self._is_stored]
        both = kept["software"].astype(np.int64) << 32 | kept["server"]
        places, counts = np.unique(both, return_counts=True)
        found: Counter[tuple[SoftwareClaim | None, str]] = Counter()
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            found[self._software_at(place >> 32), self._servers.value(place & 0xFFFFFFFF)[1]] = count
        for state in self._read.values():
            found[state.conversation.software, state.conversation.server] += 1
        return found

    def stored(self) -> StoredConnections:
        """Lay the connections out: those not asked for as they were, in their order, then the others."""
        if sum(len(table) for table in self._tables) > LEAST_SHARED + 2 * len(self._tables) * len(self):
            self._share_anew()
        kept, runs = np.flatnonzero(self._is_stored), list(self._kept_runs())
        encoded = [self._encode(state) for state in self._read.values()]
        index = np.empty(len(kept) + len(encoded), _INDEX)
        index[: len(kept)] = self._index[kept]
        index[len(kept) :] = [self._entry(state) for state in self._read.values()]
        lengths = np.diff(self._index["end"], prepend=np.uint32(0))[kept]
        index["end"] = np.cumsum(np.append(lengths, [len(content) for content in encoded]))
        ids = [self._ids[begin * ID_BYTES : end * ID_BYTES] for begin, end in runs]
        contents = [self._contents[self._begin(begin) : self._begin(end)] for begin, end in runs]
        tables = (table.stored for table in self._tables)
        return StoredConnections(
            b"".join([*ids, *self._read]), index.tobytes(), b"".join([*contents, *encoded]), *tables
        )

    @property
    def _tables(self) -> tuple[Table[Server], Table[SoftwareClaim], Table[Ranges]]:
        return self._servers, self._software, self._ranges

    def _share_anew(self) -> None:
        """Begin new tables: most of what the old ones hold is shared by nobody any more."""
        for connection in self:
            self[connection]
        self._servers, self._software, self._ranges = (
            Table(Server, []),
            Table(SoftwareClaim, []),
            Table(Ranges, []),
        )

    def _kept_runs(self) -> Iterator[tuple[int, int]]:
        """Give begin and end of each run of places that stay as they are."""
        edges = np.flatnonzero(np.diff(self._is_stored.astype(np.int8), prepend=0, append=0)).tolist()
        yield from zip(edges[::2], edges[1::2], strict=True)

    def _begin(self, place: int) -> int:
        return int(self._index["end"][place - 1]) if place else 0

    def _id(self, place: int) -> bytes:
        return self._ids[place * ID_BYTES : (place + 1) * ID_BYTES]

    def _place(self, connection: bytes) -> int:
        """Find a connection that is stored and was not asked for yet."""
        at = self._ids.find(connection)
        while at % ID_BYTES and at != NOWHERE:
            at = self._ids.find(connection, at + 1)
        return at // ID_BYTES if at != NOWHERE and self._is_stored[at // ID_BYTES] else NOWHERE

    def _forget(self, connection: bytes) -> bool:
        place = self._place(connection)
        if place != NOWHERE:
            self._is_stored[place] = False
        return place != NOWHERE

    def _decode(self, connection: bytes, place: int) -> ConnectionState:
        content = _CONTENT.decode(self._contents[self._begin(place) : self._begin(place + 1)])
        conversation = Conversation(*msgspec.structs.astuple(content.facts))
        conversation.connection = connection
        server = self._servers.value(int(self._index["server"][place]))
        conversation.cluster, conversation.server, conversation.run = server
        conversation.software = self._software_at(int(self._index["software"][place]))
        if content.advertised is not None:
            sequence, ranges = content.advertised
            conversation.advertised = Advertised(sequence, self._ranges.value(ranges))
        return ConnectionState(conversation, content.rules, content.findings, content.sightings)

    def _software_at(self, place: int) -> SoftwareClaim | None:
        return None if place == NOWHERE else self._software.value(place)

    def _encode(self, state: ConnectionState) -> bytes:
        said, advertised = state.conversation, state.conversation.advertised
        facts = msgspec.structs.replace(
            said, connection=b"", cluster="", server="", run=0, software=None, advertised=None
        )
        return _ENCODER.encode(
            (
                msgspec.structs.astuple(facts),
                (advertised.sequence, self._ranges.place(advertised.ranges)) if advertised else None,
                _changed(state.rules),
                state.findings,
                state.sightings,
            )
        )

    def _entry(self, state: ConnectionState) -> tuple[int, int, int, int, int, bool]:
        said = state.conversation
        server = self._servers.place((said.cluster, said.server, said.run))
        software = NOWHERE if said.software is None else self._software.place(said.software)
        stirred = bool(state.findings) or state.sightings.are_behind
        return said.latest_captured_at, said.latest_sequence, 0, server, software, stirred


def _changed(rules: Any) -> dict[str, Any]:
    """Pick the states of rules that are not as they were when the connection began."""
    states = zip(_RULE_NAMES, msgspec.structs.astuple(rules), _NEW_RULES, strict=True)
    return {name: state for name, state, new in states if state != new}
