"""The columnar path from batches of frames to windows, equal to `record_windows.windows_of` of their records.

Of frames that are equal but for their correlation IDs, the scalar code decodes one; the rest are compared and
counted as columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import DecodedFrames
from decoders.frame.record import Record
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch
from expectations.conversation.columnar import traits
from expectations.conversation.columnar.arrival import Arrival
from expectations.conversation.columnar.folding import Folded, Rows, fold_rows
from expectations.conversation.columnar.reading import ObservationReader
from expectations.conversation.columnar.said_before import SaidBefore
from expectations.conversation.columnar.statement_cache import Known, StatementCache
from expectations.conversation.columnar.window_columns import MISSING, WindowColumns
from expectations.conversation.observation import Observation
from expectations.conversation.observe import observe
from expectations.conversation.occurrence import NO_EVIDENCE
from expectations.conversation.statement import Statement
from expectations.conversation.window import Window

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Observed:
    """The statements of the records of an arrival: that of record i is `known[places[i]]`.

    `correlation_ids` are those of the records, MISSING where there is none.
    """

    known: list[Known]
    places: _Integers
    correlation_ids: _Integers


class ColumnarWindows:
    """Observes and folds batches. Not thread-safe."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._reader = ObservationReader(schemas)
        self._statements = StatementCache(schemas)
        self._said_before = SaidBefore.new()

    def windows_of(self, arrival: Arrival) -> list[Window]:
        """Fold the records of a batch to one window per connection, in order of arrival.

        The feeder's own heartbeats belong to no connection and are dropped.
        """
        return [window for part in self._slices(arrival, len(arrival.order)) for window in part.windows()]

    def columns_of(self, arrival: Arrival) -> WindowColumns:
        """Do the same, and return the windows as columns."""
        return next(self._slices(arrival, len(arrival.order)), None) or WindowColumns.of([])

    def slices_of(self, arrival: Arrival, size: int) -> Iterator[list[Window]]:
        """Fold the records of a batch as if they had arrived in batches of `size` records."""
        for columns in self._slices(arrival, size):
            yield columns.windows()

    def _slices(self, arrival: Arrival, size: int) -> Iterator[WindowColumns]:
        if self._statements.clear_if_full() or self._said_before.is_full:
            self._said_before.clear()
        observed, order = self._observe(arrival.batch), arrival.without_heartbeats()
        statements = dict(enumerate(known.statement for known in observed.known))
        for begin in range(0, len(order), size or 1):
            yield self._fold(arrival, observed, statements, order[begin : begin + size])

    def _fold(
        self, arrival: Arrival, observed: _Observed, statements: dict[int, Statement], order: _Integers
    ) -> WindowColumns:
        connections, openings = _connections(arrival, order)
        rows = _rows(arrival, observed, order, connections)
        ids = b"".join([opening.connection for opening in openings])
        halves = np.frombuffer(ids, np.int64).reshape(len(openings), 2)
        folded = fold_rows(rows, halves, self._said_before)
        servers: dict[tuple[str, str, int], int] = {}
        of_server = [
            servers.setdefault((opening.cluster, opening.server, opening.run), len(servers))
            for opening in openings
        ]
        first, places = order[folded.first], arrival.places(order[folded.first])
        return WindowColumns(
            ids,
            [str(opening.client) for opening in openings],
            [(cluster, str(server), run) for cluster, server, run in servers],
            np.array(of_server, np.int64),
            np.searchsorted(connections[folded.first], np.arange(len(openings) + 1)),
            observed.places[first],
            np.concatenate((_occurrences(arrival, observed, order, folded), places.values)),
            places.sources,
            *arrival.beginnings(first),
            statements,
        )

    def _observe(self, batch: FrameBatch) -> _Observed:
        read = self._reader.read(batch)
        groups = traits.group(read.decoded, read.traits, read.member_places, read.plain)
        (others,) = np.nonzero(groups.members < 0)
        known = self._statements.of_groups(batch, read, groups.first)
        known += self._statements.of_frames(batch, read, others)
        events = [observe(self._schemas, event, NO_EVIDENCE) for event in batch.events]
        said = {event.statement: self._statements.of_statement(event.statement) for event in events}
        known += [said[event.statement] for event in events]
        further = np.arange(len(groups.first), len(known))
        places = np.concatenate((groups.members, further[len(others) :]))
        places[others] = further[: len(others)]
        distinct, numbers = _distinct(known)
        return _Observed(distinct, numbers[places], _correlation_ids(read.decoded, events))


def _distinct(known: list[Known]) -> tuple[list[Known], _Integers]:
    """Return each object once, and the number of each in that list. Most equal statements are one object."""
    distinct = {id(each): each for each in known}
    numbers = {identity: number for number, identity in enumerate(distinct)}
    return list(distinct.values()), np.array([numbers[id(each)] for each in known], np.int64)


def _correlation_ids(decoded: DecodedFrames, events: list[Observation]) -> _Integers:
    """Return the correlation IDs of all frames, then those of the batch's other records."""
    heads = decoded.heads
    of_frames = np.where(heads["has_correlation_id"], heads["correlation_id"].astype(np.int64), MISSING)
    of_events = [MISSING if event.correlation_id is None else event.correlation_id for event in events]
    return np.concatenate((of_frames, np.array(of_events, np.int64)))


def _connections(arrival: Arrival, order: _Integers) -> tuple[_Integers, list[Record]]:
    """Number the connections of ordered records by arrival. Returns the numbers, and a record of each."""
    batch = arrival.batch
    numbers = {record.connection: number for number, record in enumerate(batch.openings)}
    of_events = [numbers.setdefault(event.connection, len(numbers)) for event in batch.events]
    given = np.concatenate((batch.frames.connections, np.array(of_events, np.int64)))[order]
    first = np.full(len(numbers), len(given), np.int64)
    first[given[::-1]] = np.arange(len(given))[::-1]
    came = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(given))]
    ranks = np.empty(len(numbers), np.int64)
    ranks[came] = np.arange(len(came))
    return ranks[given], [_identity(batch, number) for number in order[first[came]].tolist()]


def _identity(batch: FrameBatch, number: int) -> Record:
    """Return a record with the connection fields of the record with a number."""
    frames = len(batch.frames.connections)
    if number >= frames:
        return batch.events[number - frames]
    return batch.openings[int(batch.frames.connections[number])]


def _rows(arrival: Arrival, observed: _Observed, order: _Integers, connections: _Integers) -> Rows:
    frames, places = arrival.batch.frames, observed.places[order]
    expects = np.array([each.statement.expects_response for each in observed.known], np.bool_)
    numbers = np.array([each.number for each in observed.known], np.int64)
    described = np.array([each.described for each in observed.known], np.int64)
    heartbeats = np.array([each.heartbeat for each in observed.known], np.int64)
    return Rows(
        connections,
        arrival.column(frames.sequences, "sequence")[order],
        arrival.column(frames.paired_sequences, "paired_sequence")[order],
        arrival.column(frames.kinds, "kind")[order],
        arrival.column(frames.pairings, "pairing")[order],
        expects[places],
        numbers[places],
        described[places],
        heartbeats[places],
        arrival.column(frames.true_lengths, "true_length")[order],
    )


def _occurrences(arrival: Arrival, observed: _Observed, order: _Integers, folded: Folded) -> _Integers:
    """Return the occurrences of folded rows of an order: a row for each of OF_OCCURRENCE."""
    first, last, previous = order[folded.first], order[folded.last], order[folded.previous]
    sequences = arrival.column(arrival.batch.frames.sequences, "sequence")
    captured_at = arrival.column(arrival.batch.frames.captured_at, "captured_at")
    return np.array(
        [
            sequences[first],
            sequences[last],
            captured_at[first],
            captured_at[last],
            np.where(folded.previous < 0, 0, captured_at[previous]),
            folded.counts,
            observed.correlation_ids[first],
            folded.paired_sequences,
            folded.sizes,
        ],
        np.int64,
    )
