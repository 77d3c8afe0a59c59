"""The stages of the query without Spark: this process passes rows between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo

from decoders.frame.columnar.block_writing import write_block
from decoders.frame.record import Record
from decoders.retention import REPUBLISH_AFTER
from decoders.schema.registry import default_schemas
from expectations.judging.finding import Finding
from expectations.judging.terms import Terms
from streaming.judging.report import unpack_report
from streaming.query.stages import BucketProcessor, IdentityProcessor, decode_stage
from streaming.query.worker import TICK_INTERVAL

NOW = 1_800_000_000_000
BUCKETS = 4
BLOCK_ROWS = 100


class Value:
    """A value of the state of the current key."""

    def __init__(self, name: str, values: Callable[[], dict[str, tuple[bytes]]]) -> None:
        self._name, self._values = name, values

    def get(self) -> tuple[bytes] | None:
        return self._values().get(self._name)

    def update(self, value: tuple[bytes]) -> None:
        self._values()[self._name] = value

    def clear(self) -> None:
        self._values().pop(self._name, None)


class Map:
    """A map of the state of the current key."""

    def __init__(self, values: Callable[[], dict[tuple[int], tuple[bytes]]]) -> None:
        self._values = values

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:  # noqa: N802 - Spark's name
        return self._values().get(key)

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:  # noqa: N802
        self._values()[key] = value

    def removeKey(self, key: tuple[int]) -> None:  # noqa: N802
        self._values().pop(key, None)

    def clear(self) -> None:
        self._values().clear()


class Keyed:
    """A stateful stage: Spark's handle, state and clock, for every key."""

    def __init__(self, processor: Any) -> None:
        self._processor, self._key = processor, 0
        self._values: dict[int, dict[str, tuple[bytes]]] = {}
        self._maps: dict[int, dict[tuple[int], tuple[bytes]]] = {}
        self._timers: set[tuple[int, int]] = set()
        self.now = NOW
        processor.init(self)

    def process(self, rows: Iterable[Row]) -> list[Row]:
        """Group rows by their first column and process each group; then run the timers, as a task does."""
        by_key: dict[int, list[Row]] = {}
        for row in rows:
            by_key.setdefault(row[0], []).append(row)
        stepped = [row for key, group in by_key.items() for row in self._step(key, iter(group))]
        return [*stepped, *self.expire()]

    def expire(self) -> list[Row]:
        """Run the timers that are due, the earliest first."""
        due = sorted((at, key) for at, key in self._timers if at <= self.now)
        expired = [row for at, key in due for row in self._expire(at, key)]
        self._processor.close()
        self._processor.init(self)
        return expired

    def _step(self, key: int, rows: Iterable[Row]) -> list[Row]:
        self._key = key
        return list(self._processor.handleInputRows((key,), rows, self))

    def _expire(self, at: int, key: int) -> list[Row]:
        self._key = key
        self._timers.remove((at, key))
        return list(self._processor.handleExpiredTimer((key,), self, ExpiredTimerInfo(at)))

    def getValueState(self, name: str, _schema: str) -> Value:  # noqa: N802 - Spark's name
        return Value(name, lambda: self._values.setdefault(self._key, {}))

    def getMapState(self, _name: str, _key_schema: str, _schema: str) -> Map:  # noqa: N802
        return Map(lambda: self._maps.setdefault(self._key, {}))

    def registerTimer(self, due: int) -> None:  # noqa: N802
        self._timers.add((due, self._key))

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802
        return self.now


class StandIn:
    """The whole query. `findings` are those last published, by id, `checks` counts by rule and verdict.

    `inputs` are the packed `BucketInput`s that left the decode stage.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._connections = Keyed(BucketProcessor(BUCKETS, terms))
        self._identities = Keyed(IdentityProcessor(terms))
        self.inputs: list[bytes] = []
        self.findings: dict[str, Finding] = {}
        self.checks: dict[tuple[str, str], int] = {}

    def process(self, records: Sequence[Record], arrow_size: int) -> None:
        """Process a micro-batch in Arrow batches of a size."""
        parts = [records[at : at + arrow_size] for at in range(0, len(records), arrow_size)]
        self.process_blocks([[*_blocks(part)] for part in parts])

    def process_blocks(self, parts: Iterable[Sequence[bytes]]) -> None:
        """Process a micro-batch: the values of the topic's records, an Arrow batch each."""
        rows = [
            Row(bucket=bucket, input=packed)
            for blocks in parts
            for batch in self._decoded(blocks)
            for bucket, packed in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
        self._pass_on(self._connections.process(rows))

    def _decoded(self, blocks: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        decoded = list(decode_stage(BUCKETS, terms=self._terms)(iter([_batch(blocks)])))
        for batch in decoded:
            self.inputs += batch.column("input").to_pylist()
        yield from decoded

    def settle(self) -> None:
        """Advance the clock until everything is published."""
        for wait in (REPUBLISH_AFTER, *[2 * TICK_INTERVAL] * 3):
            self._connections.now = self._identities.now = self._connections.now + wait
            self._pass_on(self._connections.expire())
            self._add(self._identities.expire())

    def _pass_on(self, stepped: list[Row]) -> None:
        self._add(self._identities.process(stepped))

    def _add(self, rows: list[Row]) -> None:
        for row in rows:
            report = unpack_report(row.report)
            self.findings.update({finding.id: finding for finding in report.findings})
            for rule, verdicts in report.checks.items():
                for verdict, count in verdicts.items():
                    self.checks[rule, verdict] = self.checks.get((rule, verdict), 0) + count


def _blocks(records: Sequence[Record]) -> Iterator[bytes]:
    for at in range(0, len(records), BLOCK_ROWS):
        yield write_block(records[at : at + BLOCK_ROWS], default_schemas().digest)


def _batch(blocks: Sequence[bytes]) -> pa.RecordBatch:
    columns = [
        pa.array(blocks, pa.binary()),
        pa.array(["kipwatch.frames"] * len(blocks)),
        pa.array([0] * len(blocks), pa.int32()),
        pa.array(range(len(blocks)), pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["value", "topic", "partition", "offset"])
