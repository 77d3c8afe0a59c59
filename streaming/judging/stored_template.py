"""The template of a stored connection: its row and its content after an opening, with gaps."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from expectations.judging.fingerprint import only_member
from expectations.judging.id_numbers import NO_ID, client_number, instance_number, member_number
from expectations.judging.judge import ConnectionState
from streaming.judging.gaps import Gaps, Slot
from streaming.judging.opening import CLUSTER, CONNECTION, RUN, SERVER
from streaming.state.connection_layout import NOWHERE, ConnectionLayout, Row, content_of
from streaming.state.connections import LaidOut

PLACES: Final = ("ranges", "header offer")
"""What the content names by its place in a bucket. These places have the slots behind the own values."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder()


class Places(NamedTuple):
    """Where a bucket has what connections share. `advertised` are the places of PLACES."""

    software: int
    in_flight: int
    fingerprint: int
    member_fingerprint: int
    advertised: tuple[int, ...]


StoredKind = tuple[bytes | bool | None, ...]
"""What a stored connection shares with others: whether it has news, client software, requests in flight, and
both fingerprints."""


def kind_of(row: Row, layout: ConnectionLayout) -> StoredKind:
    """Return the kind of a stored connection, by which templates that may fit it are found."""
    stored = layout.stored
    return (
        row.has_news,
        None if row.software == NOWHERE else stored.software[row.software],
        stored.in_flight[row.in_flight],
        None if row.fingerprint == NOWHERE else stored.fingerprints[row.fingerprint],
        None if row.member_fingerprint == NOWHERE else stored.member_fingerprints[row.member_fingerprint],
    )


class StoredTemplate:
    """How a connection is stored after an opening of one form. `kind` is that of such connections."""

    def __init__(self, state: ConnectionState, gaps: Gaps, slots: int) -> None:
        """`slots` is the number of slots before those of values that are made, PLACES included."""
        layout, conversation, member = ConnectionLayout(), state.conversation, only_member(state)
        row = layout.row(state, end=0)
        advertised = conversation.advertised
        self._software = conversation.software
        self._in_flight = dict(conversation.progress.in_flight.counts)
        self._fingerprint = _shared(layout.fingerprints.value, row.fingerprint)
        self._member_fingerprint = _shared(layout.member_fingerprints.value, row.member_fingerprint)
        self._advertised = advertised
        self._has_news = row.has_news
        self.kind = kind_of(row, layout)
        self._progress_slots = tuple(map(gaps.slot, row.progress))
        self._progress = itemgetter(*self._progress_slots)
        self._client = gaps.slot(conversation.client_id) if row.client != NO_ID else None
        self._instance = gaps.slot(conversation.instance_id) if row.instance != NO_ID else None
        self._member = gaps.slot(member[1]) if member is not None else None
        tree: list[Any] = _DECODER.decode(_ENCODER.encode(content_of(state, None)))
        if advertised is not None:
            tree[1] = [advertised.sequence, *(Slot(slots - len(PLACES) + at) for at in range(len(PLACES)))]
        self._content = gaps.gapped(tree)

    def places(self, layout: ConnectionLayout) -> Places:
        """Return where a bucket has what connections of this form share."""
        advertised = layout.advertised_places(self._advertised)
        return Places(
            layout.software_place(self._software),
            layout.in_flight_place(self._in_flight),
            NOWHERE if self._fingerprint is None else layout.fingerprints.place(self._fingerprint),
            NOWHERE
            if self._member_fingerprint is None
            else layout.member_fingerprints.place(self._member_fingerprint),
            (0,) * len(PLACES) if advertised is None else advertised[1:],
        )

    def laid_out(self, values: list[Any], places: Places, layout: ConnectionLayout) -> LaidOut:
        """Lay out a connection. `values` are those of its opening, by slot."""
        return LaidOut(values[CONNECTION], self._row(values, places, layout), self._content.filled(values))

    def known(self, row: Row, content: bytes) -> dict[int, Any] | None:
        """Return the values by slot that a stored connection depends on, None if it has another content."""
        known = self._content.read(content)
        if known is not None:
            for slot, number in zip(self._progress_slots, row.progress, strict=True):
                if known.setdefault(slot, number) != number:
                    return None
        return known

    def is_row(self, row: Row, values: list[Any], places: Places, layout: ConnectionLayout) -> bool:
        """Whether a row is that of a connection with these values."""
        return self._row(values, places, layout)._replace(end=row.end) == row

    def _row(self, values: list[Any], places: Places, layout: ConnectionLayout) -> Row:
        return Row(
            self._progress(values),
            NO_ID if self._client is None else client_number(values[self._client]),
            NO_ID if self._instance is None else instance_number(values[self._instance]),
            NO_ID if self._member is None else member_number(values[self._member]),
            0,
            layout.servers.place((values[CLUSTER], values[SERVER], values[RUN])),
            places.software,
            places.in_flight,
            places.fingerprint,
            places.member_fingerprint,
            self._has_news,
        )

    def fits(self, state: ConnectionState, values: list[Any]) -> bool:
        """Whether a connection is stored in this way. `values` are those of its opening, by slot."""
        layout, other = ConnectionLayout(), ConnectionLayout()
        content = layout.content(state)
        expected = LaidOut(state.conversation.connection, layout.row(state, end=0), content)
        return self.laid_out(values, self.places(other), other) == expected and other.stored == layout.stored


def _shared(value: Callable[[int], bytes], place: int) -> bytes | None:
    return None if place == NOWHERE else value(place)
