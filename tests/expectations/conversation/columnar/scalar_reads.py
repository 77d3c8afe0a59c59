"""Requests to read as columns, and which of them the scalar code reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from decoders.codec.request import write_request
from decoders.frame.record import Direction, Kind, Record
from decoders.keyed_hash import HashKeys
from decoders.schema.registry import Api, Schemas, default_schemas
from expectations.conversation.columnar import statement_cache
from expectations.conversation.columnar.reading import ObservationReader
from expectations.conversation.columnar.statement_cache import BatchStatements, StatementCache
from expectations.conversation.observation import Statement
from expectations.conversation.statement_reader import read_statement
from tests.decoders.frame.columnar.batches import opened, record_of

SCHEMAS = default_schemas()
READER = ObservationReader(SCHEMAS)
HASH_KEYS = HashKeys.of(b"")


def request(
    sequence: int,
    api: Api,
    version: int,
    said: Mapping[str, Any],
    *,
    client_id: str | None = "app",
    instance_id: bytes | None = None,
) -> Record:
    """A request of a version with those of the fields said that the version has."""
    known = {field.name for field in api.request.struct.fields if version in field.versions}
    body = {name: said[name] for name in said if name in known}
    frame = write_request(SCHEMAS, api.key, version, sequence, client_id, body, instance_id)
    whole = {"frame": frame, "true_length": len(frame), "direction": Direction.TO_BROKER}
    return record_of(Kind.REQUEST, sequence, connection=bytes(16), **whole)


def said(records: Sequence[Record], cache: StatementCache | None = None) -> BatchStatements:
    """What records say, read as columns with a cache, or with a new one."""
    batch = opened(records).batch
    return (cache or StatementCache(SCHEMAS, b"")).of_batch(batch, READER.read(batch))


def learnt(records: Sequence[Record]) -> list[Statement]:
    """The statements of records, read as columns."""
    found = said(records)
    return [found.statements[number] for number in found.places.tolist()]


def observed(records: Sequence[Record]) -> list[Statement]:
    """The statements of records, read by the scalar code."""
    return [read_statement(SCHEMAS, record) for record in records]


def is_complete(records: Sequence[Record]) -> list[bool]:
    """Which records have all of their statement in columns."""
    complete: list[bool] = READER.read(opened(records).batch).complete.tolist()
    return complete


def scalar_reads(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Collect the records that statement caches let the scalar code read from now on."""
    read: list[Record] = []

    def noted(schemas: Schemas, record: Record) -> Statement:
        read.append(record)
        return read_statement(schemas, record)

    monkeypatch.setattr(statement_cache, "read_statement", noted)
    return read
