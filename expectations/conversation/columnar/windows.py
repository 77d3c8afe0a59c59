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
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.columnar.block_reading import BlockBatch
from decoders.frame.record import Kind, Record
from decoders.keyed_hash import HashKeys
from decoders.memory import gathered
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch, FrameColumns
from expectations.conversation.columnar.folding import Folded, Rows, SaidBefore, fold_rows
from expectations.conversation.columnar.reading import ObservationReader
from expectations.conversation.columnar.statement_cache import BatchStatements, StatementCache
from expectations.conversation.columnar.window_columns import MISSING, OF_EVIDENCE, WindowColumns
from expectations.conversation.observation import EVIDENCE_BYTES

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

    `columns` has a row for each record, by number, as `FrameBatch.columns` makes them. `order` (int64) lists
    these numbers in order of arrival. `places` returns where records are stored, by their numbers.
    """

    batch: FrameBatch
    columns: FrameColumns
    order: _Integers
    places: Callable[[_Integers], RecordPlaces]

    @classmethod
    def of_file(cls, batch: FrameBatch, name: str) -> Arrival:
        """Wrap a batch of one capture file, whose sequences are in order of arrival."""
        columns = batch.columns()

        def places(numbers: _Integers) -> RecordPlaces:
            values = np.full((len(OF_EVIDENCE), len(numbers)), MISSING, np.int64)
            values[_SOURCE], values[_POSITION] = 0, columns.positions[numbers]
            return RecordPlaces([name], values)

        return cls(batch, columns, batch.order(), places)

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

        return cls(opened.batch, opened.batch.columns(), np.lexsort((rows, blocks)), places)

    def without_heartbeats(self) -> _Integers:
        """Return the order without the feeder's own heartbeats, which belong to no connection."""
        without: _Integers = self.order[self.columns.kinds[self.order] != Kind.HEARTBEAT]
        return without

    def beginnings(self, numbers: _Integers) -> tuple[NDArray[np.uint8], _Integers]:
        """Return the first bytes of records, one after the other, and their bounds."""
        columns, data = self.columns, self.batch.data
        of_events = b"".join(event.frame for event in self.batch.events.others)
        if of_events:
            data = np.concatenate((data, np.frombuffer(of_events, np.uint8)))
        return gathered(data, columns.starts[numbers], np.minimum(columns.lengths[numbers], EVIDENCE_BYTES))


class ColumnarWindows:
    """Observes and folds batches. Remembers statements from one batch to the next. Not thread-safe."""

    def __init__(self, schemas: Schemas, secret: bytes) -> None:
        """`secret` keeps strangers from choosing texts that are slow to look up."""
        self._reader = _reader(schemas)
        self._statements = StatementCache(schemas, secret)
        self._said_before = SaidBefore.new(HashKeys.of(secret))

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
    batch, given = arrival.batch, arrival.columns.connections.astype(np.int64)
    events, count = batch.events, len(batch.openings)
    others = {len(given) - len(events) + place: other for place, other in events.by_place.items()}
    if others:
        known = {opening.connection: number for number, opening in enumerate(batch.openings)}
        given[[*others]] = [known.setdefault(other.connection, len(known)) for other in others.values()]
        count = len(known)
    given = given[order]
    first = np.full(count, len(given), np.int64)
    first[given[::-1]] = np.arange(len(given))[::-1]
    came = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(given))]
    ranks = np.empty(count, np.int64)
    ranks[came] = np.arange(len(came))
    heads = zip(order[first[came]].tolist(), came.tolist(), strict=True)
    return ranks[given], [others.get(row) or batch.openings[number] for row, number in heads]


def _rows(arrival: Arrival, said: BatchStatements, order: _Integers, connections: _Integers) -> Rows:
    columns, places, compared = arrival.columns, said.places[order], said.compared
    return Rows(
        connections,
        columns.sequences[order],
        columns.paired_sequences[order],
        columns.kinds[order],
        columns.pairings[order],
        compared.expects_response[places],
        compared.numbers[places],
        compared.fingerprints[places],
        compared.described[places],
        compared.heartbeats[places],
        columns.true_lengths[order],
    )


def _occurrences(arrival: Arrival, said: BatchStatements, order: _Integers, folded: Folded) -> _Integers:
    """Return the occurrences of folded rows of an order: a row for each of OF_OCCURRENCE."""
    first, last, previous = order[folded.first], order[folded.last], order[folded.previous]
    sequences, captured_at = arrival.columns.sequences, arrival.columns.captured_at
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
