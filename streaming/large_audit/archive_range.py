"""The audit of an archive that is too large for one process, in Spark."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from decoders.schema.registry import schemas_of
from expectations.suites.chunks import rows_together
from expectations.suites.expectation import Suite
from expectations.suites.validation import SuiteResult
from streaming.archive.archive_audit import suites_at
from streaming.archive.audited_tables import (
    AUDITED,
    AuditedArchive,
    Days,
    opened,
    readable,
    rows_of_file,
    with_neighbours,
)
from streaming.large_audit.chunked_audit import (
    PART_SCHEMA,
    ChunkedTable,
    audit_session,
    chunks_of,
    parted,
    validated,
)
from streaming.settings.configuration import Configuration
from streaming.settings.release import table_text

MOST_TASKS: Final = 200
"""A task reads one file after the other: an archive of seconds has very many."""


class _File(NamedTuple):
    """A file of a table, the columns of all its files, and how its rows are spread over chunks."""

    table: str
    fragment: ds.Fragment
    schema: pa.Schema
    together: list[str]
    chunks: int

    def parts(self) -> Iterator[pa.RecordBatch]:
        for rows in rows_of_file(self.fragment, self.schema):
            yield from parted(self.table, rows, self.together, self.chunks)


def audit_large_archive(configuration: Configuration, folder: Path, days: Days) -> list[SuiteResult]:
    """Validate the tables of an archive in chunks. Raises UserError if it cannot be read, or Spark fails."""
    text, now = table_text(configuration.schemas), time.time_ns()
    with readable(folder):
        archive = opened(folder)
        files = list(_files(archive, days, suites_at(now, schemas_of(text))))
    with audit_session(configuration) as session:
        return _validated(session, files, archive, now, text)


def _validated(
    session: SparkSession, files: list[_File], archive: AuditedArchive, now: int, text: str | None
) -> list[SuiteResult]:
    def parts(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column("id").to_pylist():
                yield from files[number].parts()

    def tables() -> dict[str, ChunkedTable]:
        suites = suites_at(now, schemas_of(text))
        return {
            table.name: ChunkedTable(
                suites[table.name], functools.partial(with_neighbours, table, known=archive.known)
            )
            for table in AUDITED
        }

    numbers = session.range(len(files), numPartitions=max(1, min(len(files), MOST_TASKS)))
    return validated(numbers.mapInArrow(parts, PART_SCHEMA), tables)


def _files(archive: AuditedArchive, days: Days, suites: dict[str, Suite]) -> Iterator[_File]:
    for name, rows in archive.counts(days).items():
        dataset = archive.datasets[name]
        texts = [field.name for field in dataset.schema if pa.types.is_string(field.type)]
        together = rows_together(suites[name], texts)
        for fragment in dataset.get_fragments(filter=days.condition):
            yield _File(name, fragment, dataset.schema, together, chunks_of(rows))
