"""Requests to read as columns, and which of them the scalar code reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from decoders.codec.request import write_request
from decoders.frame.record import Direction, Kind, Record
from decoders.schema.registry import Api, Schemas, default_schemas
from expectations.conversation.columnar import statement_cache
from expectations.conversation.columnar.reading import ObservationReader
from expectations.conversation.columnar.statement_cache import Known, StatementCache
from expectations.conversation.observation import Observation
from expectations.conversation.observe import observe
from expectations.conversation.occurrence import Evidence
from tests.decoders.frame.columnar.batches import opened, record_of

SCHEMAS = default_schemas()
READER = ObservationReader(SCHEMAS)


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


def learnt(records: Sequence[Record]) -> list[Known]:
    """What a new statement cache learns from records, read as columns."""
    batch = opened(records).batch
    return StatementCache(SCHEMAS).of_frames(batch, READER.read(batch), np.arange(len(records)))


def scalar_reads(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Collect the records that statement caches let the scalar code read from now on."""
    read: list[Record] = []

    def noted(schemas: Schemas, record: Record, evidence: Evidence) -> Observation:
        read.append(record)
        return observe(schemas, record, evidence)

    monkeypatch.setattr(statement_cache, "observe", noted)
    return read
