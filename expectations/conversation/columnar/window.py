"""Batches of frames, observed and folded to one window per connection: equal to `windows_of` of the records.

Like frames are read by the scalar code once, and what it said is remembered from batch to batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.decoded import DecodedFrames
from decoders.frame.record import Record
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch
from expectations.conversation.columnar import likeness
from expectations.conversation.columnar.acquaintance import Acquaintance
from expectations.conversation.columnar.arrival import Arrival
from expectations.conversation.columnar.folding import Folded, Rows, fold_rows
from expectations.conversation.columnar.reading import ObservationReader
from expectations.conversation.columnar.recollection import Known, Recollection
from expectations.conversation.connection_window import BriefWindow, ConnectionWindow, Moment, speakers_of
from expectations.conversation.observation import Observation

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Observed:
    """What is known of the records of an arrival: of the one with number i, `known[places[i]]`.

    `correlation_ids` (objects) are their own, None for those that have none.
    """

    known: list[Known]
    places: _Integers
    correlation_ids: NDArray[np.object_]


class Told(NamedTuple):
    """Windows told briefly, in the order in which the connections came; `sayings` is what they say."""

    sayings: list[Observation]
    windows: list[BriefWindow]


class ColumnarWindows:
    """Observes and folds batches. One thread may do so at a time."""

    def __init__(self, schemas: Schemas) -> None:
        self._reader = ObservationReader(schemas)
        self._recollection = Recollection(schemas)
        self._acquaintance = Acquaintance.new()

    def told_of(self, arrival: Arrival) -> Told:
        """Fold the records of a batch to one window per connection, in the order in which these came.

        The feeder's own heartbeats belong to no connection and are left out.
        """
        return next(self._told_in_slices(arrival, len(arrival.order)), Told([], []))

    def slices_of(self, arrival: Arrival, size: int) -> Iterator[list[ConnectionWindow]]:
        """Fold the records of a batch so many at a time, as if they had come in batches of that size."""
        for sayings, windows in self._told_in_slices(arrival, size):
            yield [window.observed(sayings) for window in windows]

    def _told_in_slices(self, arrival: Arrival, size: int) -> Iterator[Told]:
        if self._recollection.tidy() or self._acquaintance.is_full:
            self._acquaintance.forget()
        observed, order = self._observe(arrival.batch), arrival.without_heartbeats()
        sayings = [each.observation for each in observed.known]
        for begin in range(0, len(order), size or 1):
            yield Told(sayings, self._fold(arrival, observed, order[begin : begin + size]))

    def _fold(self, arrival: Arrival, observed: _Observed, order: _Integers) -> list[BriefWindow]:
        connections, openings = _connections(arrival, order)
        rows = _rows(arrival, observed, order, connections)
        folded = fold_rows(rows, _halves(openings), self._acquaintance)
        ends = np.searchsorted(connections[folded.first], np.arange(len(openings) + 1)).tolist()
        moments = _moments(arrival, observed, order, folded)
        return [
            BriefWindow(speakers_of(opening), moments[begin:end])
            for opening, (begin, end) in zip(openings, pairwise(ends), strict=True)
        ]

    def _observe(self, batch: FrameBatch) -> _Observed:
        read = self._reader.read(batch)
        groups = likeness.group(read.decoded, read.traits, read.plain)
        (others,) = np.nonzero(groups.members < 0)
        known = self._recollection.of_groups(batch, read, groups.first)
        known += self._recollection.of_frames(batch, read, others)
        known += [self._recollection.of_record(event) for event in batch.events]
        further = np.arange(len(groups.first), len(known))
        places = np.concatenate((groups.members, further[len(others) :]))
        places[others] = further[: len(others)]
        return _Observed(
            known, places, _correlation_ids(read.decoded, known[len(known) - len(batch.events) :])
        )


def _correlation_ids(decoded: DecodedFrames, events: list[Known]) -> NDArray[np.object_]:
    given = np.full(len(decoded.frames) + len(events), None, np.object_)
    (there,) = np.nonzero(decoded.heads["has_correlation_id"])
    given[there] = decoded.heads["correlation_id"][there]
    given[len(decoded.frames) :] = [event.observation.correlation_id for event in events]
    return given


def _connections(arrival: Arrival, order: _Integers) -> tuple[_Integers, list[Record]]:
    """Number the connections of records, given in order, as they came; gives a record of each too."""
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
    """Give a record with the identity of the one with a number."""
    frames = len(batch.frames.connections)
    if number >= frames:
        return batch.events[number - frames]
    return batch.openings[int(batch.frames.connections[number])]


def _halves(openings: list[Record]) -> _Integers:
    """Give the ids of connections, each as two numbers."""
    ids = b"".join(opening.connection for opening in openings)
    return np.frombuffer(ids, np.int64).reshape(len(openings), 2)


def _rows(arrival: Arrival, observed: _Observed, order: _Integers, connections: _Integers) -> Rows:
    frames, places = arrival.batch.frames, observed.places[order]
    owes = np.array([each.observation.owes_answer for each in observed.known], np.bool_)
    likenesses = np.array([each.likeness for each in observed.known], np.int64)
    described = np.array([each.described for each in observed.known], np.int64)
    beats = np.array([each.beat for each in observed.known], np.int64)
    return Rows(
        connections,
        arrival.column(frames.sequences, "sequence")[order],
        arrival.column(frames.paired_sequences, "paired_sequence")[order],
        arrival.column(frames.kinds, "kind")[order],
        arrival.column(frames.pairings, "pairing")[order],
        owes[places],
        likenesses[places],
        described[places],
        beats[places],
    )


def _moments(arrival: Arrival, observed: _Observed, order: _Integers, folded: Folded) -> list[Moment]:
    """Tell the rows of an order that were folded by what is known of their likes."""
    first, last, previous = order[folded.first], order[folded.last], order[folded.previous]
    sequences = arrival.column(arrival.batch.frames.sequences, "sequence")
    captured_at = arrival.column(arrival.batch.frames.captured_at, "captured_at")
    columns = zip(
        observed.places[first].tolist(),
        sequences[first].tolist(),
        sequences[last].tolist(),
        captured_at[first].tolist(),
        captured_at[last].tolist(),
        np.where(folded.previous < 0, 0, captured_at[previous]).tolist(),
        arrival.evidence(first),
        folded.counts.tolist(),
        observed.correlation_ids[first].tolist(),
        folded.paired_sequences.tolist(),
        strict=True,
    )
    return list(starmap(Moment, columns))
