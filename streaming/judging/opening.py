"""The opening of a connection, taken apart: its form, and the values in it that are the connection's own.

An opening is what a new connection says until it says nothing new, and the responses to that. Most clients
open a connection with the same dozen statements, in which IDs, times and sequences differ. The form is what
openings have in common: the symbols of the statements, which of their IDs are equal, which request each
response belongs to, and which frames were captured at the same moment. All other order is fixed: an opening
has neither folded frames nor any whose sequences or times do not ascend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from expectations.conversation.identifier import identifier_text
from expectations.conversation.occurrence import Occurrence
from expectations.conversation.window import ConnectionKey, Window
from streaming.judging.opening_symbol import NO_SYMBOL, OpeningSymbol
from streaming.judging.symbols import Symbols

LONGEST: Final = 64
"""Observations of the longest opening."""
CONNECTION, CLIENT, HOST, CLUSTER, SERVER, LISTENER, RUN = range(7)
"""The first slots of the values of an opening."""
FIRST_OBSERVATION: Final = 7
"""The slot where the values of the observations begin."""
SEQUENCE, AT, CORRELATION, EVIDENCE = range(4)
"""The slots of one observation."""
FIELDS: Final = 4
"""How many slots one observation has."""


Said = list[tuple[OpeningSymbol, Occurrence]]
"""The symbols and the occurrences of observations."""


class Begun(NamedTuple):
    """What a connection said of its opening in earlier batches.

    `said` are the same observations of another connection, with its own IDs `clients` and `identifiers`.
    `values` are those of this connection, by slot, observation by observation. Those that its stored state
    does not depend on are made up.
    """

    said: Said
    clients: list[str]
    identifiers: list[bytes]
    values: list[Any]

    def told(self, clients: Sequence[str], identifiers: Sequence[bytes]) -> Said:
        """Return the observations with the IDs and the values of this connection."""
        client_of = dict(zip(self.clients, clients, strict=False))
        identifier_of = dict(zip(self.identifiers, identifiers, strict=False))
        sequences, told = {0: 0}, Said()
        for place, (symbol, given) in enumerate(self.said):
            sequence, at, correlation, evidence = self.values[FIELDS * place : FIELDS * (place + 1)]
            sequences[given.first_sequence] = sequence
            statement = symbol.renamed(
                None if symbol.client_id is None else client_of[symbol.client_id],
                tuple(identifier_of[identifier] for identifier in symbol.identifiers),
            )
            paired = sequences[given.paired_sequence]
            occurrence = Occurrence(
                sequence, sequence, at, at, evidence, correlation_id=correlation, paired_sequence=paired
            )
            told.append((symbol.of(statement), occurrence))
        return told


class Opening(NamedTuple):
    """One opening: `said` are the symbols and the occurrences of its observations.

    `clients` are the client IDs and `identifiers` the UUIDs in the order in which they first appear.
    `listener` names the server. `ends` counts the observations up to the end of each window, if that matters.
    `begun` is what was said in earlier batches; `said` is what follows, and the form is that of all.
    """

    key: ConnectionKey
    form: tuple[int, ...]
    said: Said
    clients: list[str]
    identifiers: list[bytes]
    listener: str
    ends: tuple[int, ...] = ()
    begun: Begun | None = None

    @property
    def captured_at(self) -> int:
        """The latest capture time."""
        return self.said[-1][1].last_captured_at

    @property
    def collides(self) -> bool:
        """Whether a UUID stands as text in a client ID, or in what forms hold by value, such as a group."""
        if not self.identifiers:
            return False
        said = [*self.begun.said, *self.said] if self.begun else self.said
        held = b"\0".join([*(symbol.code for symbol, _ in said), *map(str.encode, self.clients)])
        return any(identifier_text(identifier).encode() in held for identifier in self.identifiers)

    @property
    def before(self) -> int:
        """How many observations were made in earlier batches."""
        return len(self.begun.said) if self.begun else 0

    def whole(self) -> Opening:
        """Return the opening with all observations, as if they were made in one batch."""
        if self.begun is None:
            return self
        told = self.begun.told(self.clients, self.identifiers)
        return self._replace(said=[*told, *self.said], begun=None)

    def values(self) -> list[object]:
        """Return the values that are the connection's own, by slot.

        Those of the connection come first, then those of each observation, then the client IDs, and last each
        UUID as bytes, in Kafka's form and in hex.
        """
        key = self.key
        host = key.client.rpartition(":")[0]
        values: list[object] = [key.id, key.client, host, key.cluster, key.server, self.listener, key.run]
        if self.begun is not None:
            values += self.begun.values
        for _, occurrence in self.said:
            values += (
                occurrence.first_sequence,
                occurrence.first_captured_at,
                occurrence.correlation_id,
                occurrence.evidence,
            )
        values += self.clients
        for identifier in self.identifiers:
            values += identifier, identifier_text(identifier), identifier.hex()
        return values


def read_opening(windows: Sequence[Window], symbols: Symbols[OpeningSymbol], listener: str) -> Opening | None:
    """Read the opening of a new connection from its windows, in their order. `listener` names its server.

    Returns None if it is unusual: a statement has no symbol, or something new follows a frame that no opening
    has. Repetitions at the end of the windows do not belong to the opening.
    """
    return OpeningReader().read(windows, symbols, listener)


class OpeningReader:
    """The reading of one opening, observation by observation.

    `_form` and `_said` go on to the latest observation, `_ends` are their lengths after the latest one that
    said something new, or responded to one that did. `_news` are the sequences of those. `_places` counts the
    observations from 1, by their sequences.
    """

    def __init__(self) -> None:
        self._form: list[int] = []
        self._said: Said = []
        self._ends = 0, 0
        self._known: set[tuple[int, ...]] = set()
        self._news: set[int] = set()
        self._places: dict[int, int] = {0: 0}
        self._clients: dict[str, int] = {}
        self._identifiers: dict[bytes, int] = {}
        self._sequence = self._at = 0
        self._is_over = self._has_end = False
        self._begun: Begun | None = None

    @classmethod
    def of(cls, opening: Opening) -> Self:
        """Return a reader that has read an opening."""
        reader = cls()
        for symbol, occurrence in opening.whole().said:
            reader.add(symbol, occurrence)
        return reader

    def going_on(
        self, begun: Begun, clients: Sequence[str], identifiers: Sequence[bytes], known: Mapping[int, int]
    ) -> Self:
        """Return a reader of what another connection goes on to say, that said the same with other values.

        `known` are the sequences of its observations by place, as far as they are not made up.
        """
        reader = type(self)()
        reader._form, reader._known, reader._begun = list(self._form), set(self._known), begun
        reader._ends = len(reader._form), 0
        places = {place: sequence for sequence, place in self._places.items()}
        for place, sequence in known.items():
            reader._places[sequence] = place
            if places[place] in self._news:
                reader._news.add(sequence)
        reader._clients = {client: number for number, client in enumerate(clients)}
        reader._identifiers = {each: number for number, each in enumerate(identifiers)}
        reader._sequence, reader._at, *_ = begun.values[-FIELDS:]
        return reader

    def read(
        self, windows: Sequence[Window], symbols: Symbols[OpeningSymbol], listener: str
    ) -> Opening | None:
        """Read windows, in their order. Returns None if they do not begin with an opening."""
        for window in windows:
            table = symbols.of(window)
            for number, occurrence in zip(window.numbers, window.occurrences, strict=True):
                if not self.add(table[number], occurrence):
                    return None
        return self._opening(windows[0].connection, listener)

    def add(self, symbol: OpeningSymbol, occurrence: Occurrence) -> bool:
        """Add an observation. Returns whether the windows may still begin with an opening."""
        if symbol.number == NO_SYMBOL or self._has_end:
            return False
        content = self._content(symbol)
        self._has_end = symbol.has_end
        sequence, at, paired = (
            occurrence.first_sequence,
            occurrence.first_captured_at,
            occurrence.paired_sequence,
        )
        is_new = symbol.negotiates or content not in self._known or paired in self._news
        self._known.add(content)
        if is_new:
            self._news.add(sequence)
        is_in_turn = occurrence.count == 1 and sequence > self._sequence and at >= self._at
        count = len(self._said) + (len(self._begun.said) if self._begun else 0)
        if not is_in_turn or paired not in self._places or count == LONGEST:
            self._is_over = True
        if self._is_over:
            return not is_new
        self._form += content
        self._form += self._places[paired], at > self._at
        self._said.append((symbol, occurrence))
        self._places[sequence] = count + 1
        self._sequence, self._at = sequence, at
        if is_new:
            self._ends = len(self._form), len(self._said)
        return True

    def _opening(self, key: ConnectionKey, listener: str) -> Opening | None:
        """Return what was read, None if it is empty or collides."""
        length, count = self._ends
        form = tuple(self._form[:length])
        ids = list(self._clients), list(self._identifiers)
        opening = Opening(key, form, self._said[:count], *ids, listener, begun=self._begun)
        return opening if count and not opening.collides else None

    def _content(self, symbol: OpeningSymbol) -> tuple[int, ...]:
        """Return the symbol's number and the places of its IDs, counted in the order of appearance."""
        if symbol.client_id is None and not symbol.identifiers:
            return (symbol.number,)
        content = [symbol.number]
        if symbol.client_id is not None:
            content.append(self._clients.setdefault(symbol.client_id, len(self._clients)))
        for identifier in symbol.identifiers:
            content.append(self._identifiers.setdefault(identifier, len(self._identifiers)))
        return tuple(content)


def split(windows: Sequence[Window], count: int) -> tuple[list[Window], list[Window]]:
    """Divide windows after `count` observations."""
    before: list[Window] = []
    for at, window in enumerate(windows):
        size = len(window.numbers)
        if count < size:
            rest = _slice(window, count, size)
            return [*before, *([_slice(window, 0, count)] if count else [])], [rest, *windows[at + 1 :]]
        before.append(window)
        count -= size
    return before, []


def _slice(window: Window, begin: int, end: int) -> Window:
    return window._replace(numbers=window.numbers[begin:end], occurrences=window.occurrences[begin:end])
