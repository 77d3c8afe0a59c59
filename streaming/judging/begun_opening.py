"""What a stored connection said of its opening, read back from how it is stored.

A batch cuts through the openings of connections that speak while it begins. What such a connection said
before is not stored, but its state is, and that is what the template of a form lays out. So the values of the
opening are found in the gaps of the template. Values that are in no gap change nothing of what comes: the
state is all that the rules know. They are made up, in the order that the form demands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from expectations.conversation.identifier import identifier_bytes
from expectations.conversation.occurrence import Evidence
from expectations.conversation.window import ConnectionKey
from streaming.judging.gaps import Text
from streaming.judging.opening import (
    AT,
    CORRELATION,
    EVIDENCE,
    FIELDS,
    FIRST_OBSERVATION,
    SEQUENCE,
    Begun,
    Opening,
    OpeningReader,
)
from streaming.judging.opening_template import OpeningTemplate
from streaming.state.connection_layout import ConnectionLayout, Row

_FORMS: Final = 3
"""A UUID as bytes, in Kafka's form and in hex."""


class GoingOn(NamedTuple):
    """An opening that was begun, and the reader of what follows."""

    begun: Begun
    reader: OpeningReader


class BegunTemplate:
    """Finds openings of one form in stored connections."""

    def __init__(self, template: OpeningTemplate, opening: Opening) -> None:
        """`opening` is the one that the form was learned from."""
        assert template.stored is not None
        self._template, self._stored, self._opening = template, template.stored, opening.whole()
        self._reader = OpeningReader.of(self._opening)

    def going_on(
        self, key: ConnectionKey, listener: str, row: Row, content: bytes, layout: ConnectionLayout
    ) -> GoingOn | None:
        """Return the opening of a stored connection, None if it is not of this form, or has gone on."""
        known = self._stored.known(row, content)
        if known is None:
            return None
        ids, values = self._ids(known), self._values(known)
        if ids is None or values is None:
            return None
        begun = Begun(self._opening.said, self._opening.clients, self._opening.identifiers, values)
        clients, identifiers = ids
        places = self._stored.places(layout)
        opening = Opening(key, self._opening.form, [], clients, identifiers, listener, begun=begun)
        found = self._template.values(opening, places.advertised)
        is_such = all(_is_equal(found[slot], value) for slot, value in known.items())
        if not is_such or not self._stored.is_row(row, found, places, layout):
            return None
        sequences = {
            place + 1: known[slot]
            for place in range(len(self._opening.said))
            if (slot := FIRST_OBSERVATION + FIELDS * place + SEQUENCE) in known
        }
        return GoingOn(begun, self._reader.going_on(begun, clients, identifiers, sequences))

    def _values(self, known: Mapping[int, Any]) -> list[Any] | None:
        """Return the values of the observations. None if those that are known are not in order."""
        values: list[Any] = []
        sequence = at = given_at = 0
        for place, (_, given) in enumerate(self._opening.said):
            begin = FIRST_OBSERVATION + FIELDS * place
            later = known.get(begin + SEQUENCE, sequence + 1)
            if given.first_captured_at > given_at:
                moment = self._moment(place, known)
                if moment is None:
                    moment = at + 1
                if moment <= at:
                    return None
                at, given_at = moment, given.first_captured_at
            if later <= sequence:
                return None
            sequence = later
            evidence = known.get(begin + EVIDENCE)
            correlation = known.get(begin + CORRELATION, given.correlation_id)
            values += sequence, at, correlation, Evidence(*evidence) if evidence else given.evidence
        return values

    def _moment(self, first: int, known: Mapping[int, Any]) -> int | None:
        """Return when the observation at a place, the first of its moment, was captured, if it is known."""
        said = self._opening.said
        given_at, place = said[first][1].first_captured_at, first
        while place < len(said) and said[place][1].first_captured_at == given_at:
            at: int | None = known.get(FIRST_OBSERVATION + FIELDS * place + AT)
            if at is not None:
                return at
            place += 1
        return None

    def _ids(self, known: Mapping[int, Any]) -> tuple[list[str], list[bytes]] | None:
        """Return the client IDs and UUIDs, None if one of them is nowhere in the state."""
        opening, found = self._opening, {**self._in_texts(known), **known}
        begin = FIRST_OBSERVATION + FIELDS * len(opening.said)
        end = begin + len(opening.clients)
        clients = [found[slot] for slot in range(begin, end) if slot in found]
        identifiers = []
        for place in range(len(opening.identifiers)):
            slots = range(end + _FORMS * place, end + _FORMS * (place + 1))
            identifiers += [_identifier(found[slot]) for slot in slots if slot in found][:1]
        is_whole = len(clients) == len(opening.clients) and len(identifiers) == len(opening.identifiers)
        return (clients, identifiers) if is_whole else None

    def _in_texts(self, known: Mapping[int, Any]) -> dict[int, str]:
        """Find the values in texts that are made of them."""
        found: dict[int, str] = {}
        for slot, made in self._template.made_at:
            if isinstance(made, Text) and slot in known:
                pattern = "".join(re.escape(part) if isinstance(part, str) else "(.*)" for part in made.parts)
                match = re.fullmatch(pattern, known[slot], re.DOTALL)
                slots = [part for part in made.parts if not isinstance(part, str)]
                found.update(zip(slots, match.groups() if match else (), strict=False))
        return found


def _identifier(form: bytes | str) -> bytes:
    """Return a UUID that is given in any of its forms; none that is another text."""
    return form if isinstance(form, bytes) else identifier_bytes(form) or b""


def _is_equal(made: Any, known: Any) -> bool:
    """Whether a value is the one that is known. Evidence is stored as an array."""
    return bool(made == (Evidence(*known) if isinstance(made, Evidence) else known))
