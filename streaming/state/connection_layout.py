"""How one connection is laid out in a bucket: a row of fixed width, shared facts, and the rest as bytes.

The row holds what every frame moves, and what must be known of all connections. The bytes hold what
only news changes, so that a connection which repeats itself is neither read nor written.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from expectations.conversation.conversation import Advertised, Conversation
from expectations.conversation.observation import SoftwareClaim
from expectations.conversation.unanswered import ApiVersion, Unanswered
from expectations.identity.shown import Sighting, Sightings
from expectations.judging.fingerprint import standing_of
from expectations.judging.judge import ConnectionState, OpenFinding
from expectations.judging.membership import NO_MEMBER, member_number, membership_of, sole_member
from expectations.judging.own_ids import client_number, instance_number
from expectations.rules.catalogue import RULE_STATES, changed_states
from streaming.state.shared_values import Table

NOWHERE = -1


class Row(NamedTuple):
    """What stands of a connection in the index. Times are in nanoseconds; places are those of shared facts.

    `latest` is its latest capture time, `heard` its latest sequence, `loss` that of its latest loss. The
    next six tell when its client, its instance ID and its sole member were shown last, and when before,
    NOWHERE if they never were. `beat` and `beat_at` are the sequence and time of that member's latest
    heartbeat, `client`, `instance` and `member` the numbers of their IDs, `membership` is where the member
    stands, NOWHERE where there is no sole one.
    `end` tells where the content ends, `stirred` whether there may be something to tell again.
    """

    latest: int
    heard: int
    loss: int
    client_until: int
    client_before: int
    instance_until: int
    instance_before: int
    member_until: int
    member_before: int
    beat: int
    beat_at: int
    client: int
    instance: int
    member: int
    end: int
    server: int
    software: int
    unanswered: int
    standing: int
    membership: int
    stirred: bool


_PLACES = ("server", "software", "unanswered", "standing", "membership")
_WIDTHS = {"end": "<u4"} | dict.fromkeys(_PLACES, "<i4")
_CODES = {"<i8": "q", "<u4": "I", "<i4": "i", "|u1": "?"}
INDEX = np.dtype([(name, _WIDTHS.get(name, "<i8")) for name in Row._fields[:-1]] + [("stirred", "u1")])
"""A Row's place in an array."""
ROW = struct.Struct("<" + "".join(_CODES[INDEX[name].str] for name in Row._fields))
"""The same, for one row at a time."""

Server = tuple[str, str, int]
"""A cluster, a server's address, and a run of the feeder."""
Ranges = dict[int, tuple[int, int]]
Waiting = tuple[tuple[ApiVersion, int], ...]
"""How many requests of each API version wait for an answer."""


def _default(field: msgspec.structs.FieldInfo) -> Any:
    given = {"default": field.default, "default_factory": field.default_factory}
    return msgspec.field(**given)


def facts_fields() -> list[tuple[str, Any, Any]]:
    """List the facts of a conversation, as fields of a structure."""
    return [(field.name, field.type, _default(field)) for field in msgspec.structs.fields(Conversation)]


_Facts = msgspec.defstruct("Facts", facts_fields(), array_like=True)
"""A conversation without the names of its fields, to which others may be added at the end."""


class Content(msgspec.Struct, array_like=True):
    """What is stored of one connection beyond its row. `rules` holds the states that are not new."""

    facts: _Facts  # type: ignore[valid-type]  # made from the conversation's fields at run time
    advertised: tuple[int, int] | None
    rules: RULE_STATES  # type: ignore[valid-type]  # made from the catalogue at run time
    findings: dict[str, OpenFinding]
    sightings: Sightings


_ENCODER = msgspec.msgpack.Encoder()
_CONTENT = msgspec.msgpack.Decoder(Content)


class SharedFacts(msgspec.Struct, array_like=True):
    """What many connections share, each value as msgpack."""

    servers: list[bytes] = []
    software: list[bytes] = []
    ranges: list[bytes] = []
    waiting: list[bytes] = []
    standings: list[bytes] = []
    memberships: list[bytes] = []


class ConnectionLayout:
    """Reads and writes connections. What they share is kept once, in tables."""

    def __init__(self, shared: SharedFacts | None = None) -> None:
        self.shared = shared or SharedFacts()
        self.servers: Table[Server] = Table(Server, self.shared.servers)
        self.software: Table[SoftwareClaim] = Table(SoftwareClaim, self.shared.software)
        self.waiting: Table[Waiting] = Table(Waiting, self.shared.waiting)
        self.standings: Table[bytes] = Table(bytes, self.shared.standings)
        self.memberships: Table[bytes] = Table(bytes, self.shared.memberships)
        self._ranges: Table[Ranges] = Table(Ranges, self.shared.ranges)

    def __len__(self) -> int:
        """Count the shared values."""
        return sum(map(len, msgspec.structs.astuple(self.shared)))

    def software_at(self, place: int) -> SoftwareClaim | None:
        """Give the client software at a place, None for NOWHERE."""
        return None if place == NOWHERE else self.software.value(place)

    def read(self, connection: bytes, row: Row, stored: memoryview) -> ConnectionState:
        """Put a connection together from its row and its bytes."""
        return self.assemble(connection, row, _CONTENT.decode(stored))

    def assemble(self, connection: bytes, row: Row, content: Content) -> ConnectionState:
        """Put a connection together."""
        conversation = Conversation(*msgspec.structs.astuple(content.facts))
        conversation.connection = connection
        conversation.cluster, conversation.server, conversation.run = self.servers.value(row.server)
        conversation.software = self.software_at(row.software)
        if content.advertised is not None:
            sequence, ranges = content.advertised
            conversation.advertised = Advertised(sequence, self._ranges.value(ranges))
        state = ConnectionState(conversation, content.rules, content.findings, content.sightings)
        self.move(state, row)
        return state

    def move(self, state: ConnectionState, row: Row) -> None:
        """Let what every frame moves be as a row has it."""
        said, sightings = state.conversation, state.sightings
        said.latest_captured_at, said.latest_sequence, said.latest_loss = row.latest, row.heard, row.loss
        said.unanswered = Unanswered(dict(self.waiting.value(row.unanswered)))
        _shown(sightings.client, row.client_until, row.client_before)
        _shown(sightings.instance, row.instance_until, row.instance_before)
        member = None if row.membership == NOWHERE else sole_member(state)
        if member is not None:
            _shown(member.sighting, row.member_until, row.member_before)
            member.kept.latest_sequence, member.kept.latest_captured_at = row.beat, row.beat_at

    def content(self, state: ConnectionState) -> bytes:
        """Lay out what only news changes."""
        advertised, sightings, member = state.conversation.advertised, state.sightings, sole_member(state)
        facts = msgspec.structs.replace(
            state.conversation,
            connection=b"",
            cluster="",
            server="",
            run=0,
            software=None,
            advertised=None,
            latest_captured_at=0,
            latest_sequence=0,
            latest_loss=0,
            unanswered=Unanswered(),
        )
        still = msgspec.structs.replace(
            sightings, client=_still(sightings.client), instance=_still(sightings.instance)
        )
        rules = changed_states(state.rules)
        if member is not None:
            still.members = {name: _still(sighting) for name, sighting in sightings.members.items()}
            rules |= member.silent_states()
        return _ENCODER.encode(
            (
                msgspec.structs.astuple(facts),
                (advertised.sequence, self._ranges.place(advertised.ranges)) if advertised else None,
                rules,
                state.findings,
                still,
            )
        )

    def row(self, state: ConnectionState, end: int) -> Row:
        """Lay out what frames move, and what must be known of all connections."""
        said, client, instance = state.conversation, state.sightings.client, state.sightings.instance
        member = sole_member(state)
        return Row(
            latest=said.latest_captured_at,
            heard=said.latest_sequence,
            loss=said.latest_loss,
            client_until=client.until if client else NOWHERE,
            client_before=client.before_until if client else NOWHERE,
            instance_until=instance.until if instance else NOWHERE,
            instance_before=instance.before_until if instance else NOWHERE,
            member_until=member.sighting.until if member else NOWHERE,
            member_before=member.sighting.before_until if member else NOWHERE,
            beat=member.kept.latest_sequence if member else NOWHERE,
            beat_at=member.kept.latest_captured_at if member else NOWHERE,
            client=client_number(said.client_id),
            instance=instance_number(said.instance_id),
            member=member_number(member.member_id) if member else NO_MEMBER,
            end=end,
            server=self.servers.place((said.cluster, said.server, said.run)),
            software=NOWHERE if said.software is None else self.software.place(said.software),
            unanswered=self.waiting.place(waiting_of(said.unanswered.counts)),
            standing=self.standings.place(standing_of(state)),
            membership=self.memberships.place(membership_of(state, member)) if member else NOWHERE,
            stirred=bool(state.findings) or state.sightings.are_behind,
        )


def waiting_of(counts: Mapping[ApiVersion, int]) -> Waiting:
    """Name the requests that wait, in one order."""
    return tuple(sorted((asked, count) for asked, count in counts.items() if count))


def _shown(sighting: Sighting | None, until: int, before_until: int) -> None:
    if sighting is not None:
        sighting.until, sighting.before_until = until, before_until


def _still(sighting: Sighting | None) -> Any:
    return sighting and msgspec.structs.replace(sighting, until=0, before_until=0)
