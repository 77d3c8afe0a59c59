"""The layout of one connection in a bucket: a row of fixed width, shared values, and its content as bytes.

The row holds what every frame moves, and what must be known of all connections without reading them. The
content holds what only news changes, so a connection that repeats itself is neither read nor written.
"""

from __future__ import annotations

import struct
import types
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from expectations.conversation.bodies import SoftwareClaim
from expectations.conversation.conversation import Advertised, Conversation
from expectations.conversation.header_offer import HeaderOffer
from expectations.conversation.in_flight import ApiVersion, InFlight
from expectations.conversation.progress import PROGRESS_NUMBERS, MemberProgress, Progress
from expectations.identity.shown import ShownIdentities
from expectations.judging.fingerprint import fingerprint_of, member_fingerprint_of, only_member
from expectations.judging.id_numbers import NO_ID, client_number, instance_number, member_number
from expectations.judging.judge import ConnectionState, OpenFinding
from expectations.rules.catalogue import RULE_STATES, changed_states
from streaming.state.shared_values import SharedValues

NOWHERE: Final = -1
"""The place of a value that a connection does not have."""
PROGRESS_BYTES: Final = 8 * len(PROGRESS_NUMBERS)
"""The bytes with which a row begins."""


class Row(NamedTuple):
    """A connection's entry in the index.

    `progress` are the PROGRESS_NUMBERS. `client`, `instance` and `member` are the numbers of its own IDs.
    `end` is the offset behind its content. The next five are places of shared values, NOWHERE for what it
    does not have. `has_news` means that it may have findings or identities to publish again.
    """

    progress: tuple[int, ...]
    client: int
    instance: int
    member: int
    end: int
    server: int
    software: int
    in_flight: int
    fingerprint: int
    member_fingerprint: int
    has_news: bool


_WIDTHS: Final = {
    **dict.fromkeys(PROGRESS_NUMBERS, "<i8"),
    **dict.fromkeys(("client", "instance", "member"), "<i8"),
    "end": "<u4",
    **dict.fromkeys(("server", "software", "in_flight", "fingerprint", "member_fingerprint"), "<i4"),
    "has_news": "u1",
}
INDEX: Final = np.dtype(list(_WIDTHS.items()))
"""The dtype of a row in the index."""
_CODES: Final = {"<i8": "q", "<u4": "I", "<i4": "i", "u1": "?"}
_ROW: Final = struct.Struct("<" + "".join(_CODES[width] for width in _WIDTHS.values()))
"""The same layout, for one row at a time."""
_MOVED: Final = struct.Struct(f"<{len(PROGRESS_NUMBERS)}q")
_IN_FLIGHT: Final = struct.Struct(_CODES[_WIDTHS["in_flight"]])
_HAS_NEWS: Final = struct.Struct(_CODES[_WIDTHS["has_news"]])
_OFFSETS: Final = INDEX.fields or types.MappingProxyType({})
_IN_FLIGHT_AT, _HAS_NEWS_AT = _OFFSETS["in_flight"][1], _OFFSETS["has_news"][1]


def read_row(index: Any, at: int) -> Row:
    """Read row `at` of an INDEX array."""
    values = _ROW.unpack_from(index, at * _ROW.size)
    return Row(values[: len(PROGRESS_NUMBERS)], *values[len(PROGRESS_NUMBERS) :])


def write_row(index: Any, at: int, row: Row) -> None:
    """Write row `at` of an INDEX array."""
    _ROW.pack_into(index, at * _ROW.size, *row.progress, *row[1:])


def write_progress(index: Any, at: int, progress: tuple[int, ...], in_flight: int) -> None:
    """Write what frames move of row `at` of an INDEX array; the row then has news."""
    begin = at * _ROW.size
    _MOVED.pack_into(index, begin, *progress)
    _IN_FLIGHT.pack_into(index, begin + _IN_FLIGHT_AT, in_flight)
    _HAS_NEWS.pack_into(index, begin + _HAS_NEWS_AT, True)


Server = tuple[str, str, int]
"""A cluster, a server's address, and a run of the feeder."""
Ranges = dict[int, tuple[int, int]]
Counts = tuple[tuple[ApiVersion, int], ...]
"""How many requests of each API version are in flight, in order."""

_STORED_APART: Final = (
    "connection",
    "cluster",
    "client",
    "server",
    "run",
    "progress",
    "software",
    "advertised",
)
"""The first fields of a conversation, which the content does not repeat."""
assert Conversation.__struct_fields__[: len(_STORED_APART)] == _STORED_APART


def _default(field: msgspec.structs.FieldInfo) -> Any:
    default: Any = {"default": field.default, "default_factory": field.default_factory}
    return msgspec.field(**default)


_Facts = msgspec.defstruct(
    "Facts",
    [
        (field.name, field.type, _default(field))
        for field in msgspec.structs.fields(Conversation)[len(_STORED_APART) :]
    ],
    array_like=True,
)
"""The other fields of a conversation, without their names."""


class Content(msgspec.Struct, array_like=True):
    """What is stored of one connection beside its row.

    `advertised` is the sequence, the place of the ranges and that of the header offer. `rules` holds the
    states that have changed. `members` is the progress of the members, unless there is exactly one: the row
    has that.
    """

    client: str
    advertised: tuple[int, int, int] | None
    facts: _Facts  # type: ignore[valid-type]  # made from the conversation's fields at run time
    rules: RULE_STATES  # type: ignore[valid-type]  # made from the catalogue at run time
    findings: dict[str, OpenFinding]
    identities: ShownIdentities
    members: dict[str, MemberProgress]


_ENCODER = msgspec.msgpack.Encoder()
_CONTENT = msgspec.msgpack.Decoder(Content)


class StoredValues(msgspec.Struct, array_like=True):
    """What the connections of a bucket share, each value as msgpack."""

    servers: list[bytes] = []
    software: list[bytes] = []
    ranges: list[bytes] = []
    in_flight: list[bytes] = []
    fingerprints: list[bytes] = []
    member_fingerprints: list[bytes] = []
    header_offers: list[bytes] = []


class ConnectionLayout:
    """Reads and writes connections, with tables of what they share."""

    def __init__(self, stored: StoredValues | None = None) -> None:
        self.stored = stored or StoredValues()
        self.servers: SharedValues[Server] = SharedValues(Server, self.stored.servers)
        self.fingerprints: SharedValues[bytes] = SharedValues(bytes, self.stored.fingerprints)
        self.member_fingerprints: SharedValues[bytes] = SharedValues(bytes, self.stored.member_fingerprints)
        self._software: SharedValues[SoftwareClaim] = SharedValues(SoftwareClaim, self.stored.software)
        self._in_flight: SharedValues[Counts] = SharedValues(Counts, self.stored.in_flight)
        self._ranges: SharedValues[Ranges] = SharedValues(Ranges, self.stored.ranges)
        self._header_offers: SharedValues[HeaderOffer] = SharedValues(HeaderOffer, self.stored.header_offers)

    def __len__(self) -> int:
        """Count the shared values."""
        return sum(map(len, msgspec.structs.astuple(self.stored)))

    def software_place(self, software: SoftwareClaim | None) -> int:
        """Return the place of a client software, NOWHERE for None."""
        return NOWHERE if software is None else self._software.place(software)

    def software(self, place: int) -> SoftwareClaim | None:
        """Return the client software at a place, None for NOWHERE."""
        return None if place == NOWHERE else self._software.value(place)

    def progress(self, row: Row, member_name: str = "") -> Progress:
        """Return the progress of a row, with the only member, if there is one, under the name given."""
        return Progress.of_numbers(row.progress, member_name, self.in_flight(row.in_flight))

    def in_flight(self, place: int) -> InFlight:
        """Return the requests in flight at a place."""
        return InFlight(dict(self._in_flight.value(place)))

    def in_flight_place(self, counts: Mapping[ApiVersion, int]) -> int:
        """Return the place of the requests in flight."""
        return self._in_flight.place(tuple(sorted(counts.items())))

    def in_flight_after(self, place: int, added: Mapping[ApiVersion, int]) -> int:
        """Return the place of the requests in flight after those at a place and what is added to them."""
        counted = self.in_flight(place)
        for version, count in added.items():
            counted.add(version, count)
        return self.in_flight_place(counted.counts)

    def read(self, connection: bytes, row: Row, stored: memoryview) -> ConnectionState:
        """Build a connection from its row and its content."""
        content = _CONTENT.decode(stored)
        cluster, server, run = self.servers.value(row.server)
        advertised = None
        if content.advertised is not None:
            sequence, ranges, offer = content.advertised
            advertised = Advertised(sequence, self._ranges.value(ranges), self._header_offers.value(offer))
        known = content.facts.members.known  # type: ignore[attr-defined]
        progress = self.progress(row, next(iter(known), ""))
        if len(known) != 1:
            progress.members = content.members
        software, facts = self.software(row.software), msgspec.structs.astuple(content.facts)
        conversation = Conversation(
            connection, cluster, content.client, server, run, progress, software, advertised, *facts
        )
        return ConnectionState(conversation, content.rules, content.findings, content.identities)

    def content(self, state: ConnectionState) -> bytes:
        """Lay out what only news changes."""
        return _ENCODER.encode(content_of(state, self.advertised_places(state.conversation.advertised)))

    def advertised_places(self, advertised: Advertised | None) -> tuple[int, int, int] | None:
        """Return the sequence of an advertisement, and the places of its ranges and of its header offer."""
        if advertised is None:
            return None
        offer = self._header_offers.place(advertised.header_offer)
        return advertised.sequence, self._ranges.place(advertised.ranges), offer

    def row(self, state: ConnectionState, end: int) -> Row:
        """Lay out what frames move, and what must be known of all connections."""
        conversation, member = state.conversation, only_member(state)
        fingerprint = fingerprint_of(state)
        member_fingerprint = None if member is None else member_fingerprint_of(state, *member)
        return Row(
            progress=conversation.progress.numbers(),
            client=client_number(conversation.client_id),
            instance=instance_number(conversation.instance_id),
            member=member_number(member[1]) if member is not None else NO_ID,
            end=end,
            server=self.servers.place((conversation.cluster, conversation.server, conversation.run)),
            software=self.software_place(conversation.software),
            in_flight=self.in_flight_place(conversation.progress.in_flight.counts),
            fingerprint=NOWHERE if fingerprint is None else self.fingerprints.place(fingerprint),
            member_fingerprint=NOWHERE
            if member_fingerprint is None
            else self.member_fingerprints.place(member_fingerprint),
            has_news=bool(state.findings) or state.identities.are_behind(conversation.progress),
        )


def content_of(state: ConnectionState, advertised: object) -> tuple[object, ...]:
    """Return the fields of a `Content`. `advertised` are the places of the advertisement."""
    conversation = state.conversation
    progress = conversation.progress
    return (
        conversation.client,
        advertised,
        msgspec.structs.astuple(conversation)[len(_STORED_APART) :],
        changed_states(state.rules),
        state.findings,
        state.identities,
        {} if progress.only_member is not None else progress.members,
    )
