"""From a batch of frames to the folded windows of its connections, as columns.

1. An `Arrival` is a batch in its order of arrival, and knows where each record is stored.
2. `ObservationReader` (`reading.py`) reads frames as columns, and marks those left to the scalar code.
3. `StatementCache` (`statement_cache.py`) numbers what frames and events say.
4. `fold_rows` (`folding.py`) folds equal statements of a connection.
5. `WindowColumns` (`window_columns.py`) is the result: windows whose occurrences name statements by number.

Windows equal those that the scalar code makes record by record (`tests/expectations/conversation`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.columnar.block_reading import BlockBatch
from decoders.frame.record import Kind, Record
from decoders.keyed_hash import HashKeys
from decoders.memory import gathered
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch
from expectations.conversation.columnar.folding import Folded, Rows, SaidBefore, fold_rows
from expectations.conversation.columnar.reading import ObservationReader
from expectations.conversation.columnar.statement_cache import BatchStatements, StatementCache
from expectations.conversation.columnar.window_columns import MISSING, OF_EVIDENCE, WindowColumns
from expectations.conversation.observation import EVIDENCE_BYTES, beginning_of

_Integers = NDArray[np.int64]
_SOURCE: Final = OF_EVIDENCE.index("source")
_POSITION: Final = OF_EVIDENCE.index("position")


class RecordPlaces(NamedTuple):
    """Where records are stored. `values` (int64) has a column per record and a row for each of OF_EVIDENCE.

    MISSING stands for None. `sources` names what the row `source` numbers.
    """

    sources: Sequence[str]
    values: _Integers


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch of one source. Its records are numbered: the frames of the batch first, then its events.

    `order` (int64) lists these numbers in order of arrival. `places` returns where records are stored, by
    their numbers.
    """

    batch: FrameBatch
    order: _Integers
    places: Callable[[_Integers], RecordPlaces]

    @classmethod
    def of_file(cls, batch: FrameBatch, name: str) -> Arrival:
        """Wrap a batch of one capture file, whose sequences are in order of arrival."""
        of_events = [MISSING if event.position is None else event.position for event in batch.events]
        positions = np.concatenate((batch.frames.positions, np.array(of_events, np.int64)))

        def places(numbers: _Integers) -> RecordPlaces:
            values = np.full((len(OF_EVIDENCE), len(numbers)), MISSING, np.int64)
            values[_SOURCE], values[_POSITION] = 0, positions[numbers]
            return RecordPlaces([name], values)

        return cls(batch, batch.order(), places)

    @classmethod
    def of_topic(
        cls, opened: BlockBatch, topics: pa.Array, partitions: pa.Array, offsets: pa.Array
    ) -> Arrival:
        """Wrap a batch of blocks, given the topic, partition and offset of each."""
        named = topics.dictionary_encode()
        names, blocks, rows = named.dictionary.to_pylist(), opened.blocks, opened.rows
        of_blocks = [each.to_numpy() for each in (named.indices, partitions, offsets)]

        def places(numbers: _Integers) -> RecordPlaces:
            inside = blocks[numbers]
            missing = np.full(len(numbers), MISSING, np.int64)
            topic, partition, offset = (values[inside] for values in of_blocks)
            return RecordPlaces(names, np.array([topic, missing, partition, offset, rows[numbers]], np.int64))

        return cls(opened.batch, np.lexsort((rows, blocks)), places)

    def column(self, of_frames: NDArray[Any], of_events: str) -> NDArray[Any]:
        """Return one value per record, by number: a column of the frames, then an attribute of the events."""
        events = [getattr(event, of_events) for event in self.batch.events]
        return np.concatenate((of_frames, np.array(events, of_frames.dtype)))

    def without_heartbeats(self) -> _Integers:
        """Return the order without the feeder's own heartbeats, which belong to no connection."""
        kinds = self.column(self.batch.frames.kinds, "kind")[self.order]
        without: _Integers = self.order[kinds != Kind.HEARTBEAT]
        return without

    def beginnings(self, numbers: _Integers) -> tuple[NDArray[np.uint8], _Integers]:
        """Return the first bytes of records, one after the other, and their bounds."""
        batch, events = self.batch, [beginning_of(event) for event in self.batch.events]
        begins = len(batch.data) + np.cumsum([0, *map(len, events)])[:-1]
        starts = np.concatenate((batch.frames.starts, begins))[numbers]
        lengths = np.concatenate((batch.frames.lengths, [len(each) for each in events])).astype(np.int64)
        data = batch.data
        if any(events):
            data = np.concatenate((data, np.frombuffer(b"".join(events), np.uint8)))
        return gathered(data, starts, np.minimum(lengths[numbers], EVIDENCE_BYTES))


class ColumnarWindows:
    """Observes and folds batches. Remembers statements from one batch to the next. Not thread-safe."""

    def __init__(self, schemas: Schemas, secret: bytes) -> None:
        """`secret` keeps strangers from choosing texts that are slow to look up."""
        keys = HashKeys.of(secret)
        self._reader = _reader(schemas)
        self._statements = StatementCache(schemas, keys)
        self._said_before = SaidBefore.new(keys)

    def columns_of(self, arrival: Arrival) -> WindowColumns:
        """Fold the records of a batch to one window per connection, in order of arrival.

        The feeder's own heartbeats belong to no connection and are dropped.
        """
        return next(self.slices_of(arrival, len(arrival.order)), None) or WindowColumns.of([])

    def slices_of(self, arrival: Arrival, size: int) -> Iterator[WindowColumns]:
        """Fold the records of a batch as if they had arrived in batches of `size` records."""
        if self._statements.clear_if_full() or self._said_before.is_full:
            self._said_before.clear()
        said = self._statements.of_batch(arrival.batch, self._reader.read(arrival.batch))
        order = arrival.without_heartbeats()
        for begin in range(0, len(order), size or 1):
            yield self._fold(arrival, said, order[begin : begin + size])

    def _fold(self, arrival: Arrival, said: BatchStatements, order: _Integers) -> WindowColumns:
        connections, openings = _connections(arrival, order)
        rows = _rows(arrival, said, order, connections)
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
            said.places[first],
            np.concatenate((_occurrences(arrival, said, order, folded), places.values)),
            places.sources,
            *arrival.beginnings(first),
            said.statements,
        )


@functools.lru_cache(maxsize=1)
def _reader(schemas: Schemas) -> ObservationReader:
    """Build a reader once: that takes longer than reading a small capture."""
    return ObservationReader(schemas)


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


def _rows(arrival: Arrival, said: BatchStatements, order: _Integers, connections: _Integers) -> Rows:
    frames, places, compared = arrival.batch.frames, said.places[order], said.compared
    return Rows(
        connections,
        arrival.column(frames.sequences, "sequence")[order],
        arrival.column(frames.paired_sequences, "paired_sequence")[order],
        arrival.column(frames.kinds, "kind")[order],
        arrival.column(frames.pairings, "pairing")[order],
        compared.expects_response[places],
        compared.numbers[places],
        compared.described[places],
        compared.heartbeats[places],
        arrival.column(frames.true_lengths, "true_length")[order],
    )


def _occurrences(arrival: Arrival, said: BatchStatements, order: _Integers, folded: Folded) -> _Integers:
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
            said.correlation_ids[first],
            folded.paired_sequences,
            folded.sizes,
        ],
        np.int64,
    )
