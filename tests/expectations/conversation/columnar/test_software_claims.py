"""What columns tell of ApiVersions requests is what the scalar code reads of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.request import write_request
from decoders.frame.record import Direction, Kind, Record
from decoders.protocol import API_VERSIONS
from decoders.schema.registry import Schemas, default_schemas
from expectations.conversation.bodies import SoftwareClaim
from expectations.conversation.columnar.reading import ObservationReader
from expectations.conversation.columnar.statement_cache import StatementCache
from expectations.conversation.observe import observe
from expectations.conversation.occurrence import NO_EVIDENCE, Evidence
from tests.decoders.frame.columnar.batches import opened, record_of
from tests.examples import examples

SCHEMAS = default_schemas()
READER = ObservationReader(SCHEMAS)
API = next(api for api in SCHEMAS.apis if api.key == API_VERSIONS)
VERSIONS = range(API.versions.lowest, API.versions.highest + 1)
FIRST_WITH_SOFTWARE, FIRST_WITH_INSTANCE_ID = 3, 6
TEXTS = st.text(max_size=6) | st.text("ab", min_size=250, max_size=300)
SAID = st.fixed_dictionaries(
    {
        "clientSoftwareName": TEXTS,
        "clientSoftwareVersion": TEXTS,
        "clusterId": st.none() | TEXTS,
        "nodeId": st.integers(-(2**31), 2**31 - 1),
    }
)


def request(sequence: int, version: int, said: dict[str, Any], client_id: str | None = "app") -> Record:
    known = {field.name for field in API.request.struct.fields if version in field.versions}
    body = {name: said[name] for name in said if name in known}
    instance = b"instance" + bytes([sequence]) * 8 if version >= FIRST_WITH_INSTANCE_ID else None
    frame = write_request(SCHEMAS, API.name, version, sequence, client_id, body, instance)
    whole = {"frame": frame, "true_length": len(frame), "direction": Direction.TO_BROKER}
    return record_of(Kind.REQUEST, sequence, connection=bytes(16), **whole)


@examples(100)
@given(st.lists(st.tuples(st.sampled_from(VERSIONS), SAID, st.none() | TEXTS), max_size=6))
def test_columns_tell_what_is_read(requests: list[tuple[int, dict[str, Any], str | None]]) -> None:
    records = [request(sequence, *said) for sequence, said in enumerate(requests, 1)]
    batch = opened(records).batch
    read = READER.read(batch)
    observed = [observe(SCHEMAS, record, NO_EVIDENCE).statement for record in records]
    numbers = np.flatnonzero(read.with_body)
    assert read.bodies(numbers) == [observed[number].body for number in numbers.tolist()]
    known = StatementCache(SCHEMAS).of_frames(batch, read, np.arange(len(records)))
    assert [each.statement for each in known] == observed


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_that_names_software_is_read_by_columns(version: int) -> None:
    said = {"clientSoftwareName": "a", "clientSoftwareVersion": "1", "clusterId": "c", "nodeId": 4}
    read = READER.read(opened([request(1, version, said)]).batch)
    (body,) = read.bodies(np.arange(1))
    assert isinstance(body, SoftwareClaim) is (version >= FIRST_WITH_SOFTWARE)


def test_software_is_learnt_without_reading_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        request(number, VERSIONS[-1], {"clientSoftwareName": f"s-{number}", "clientSoftwareVersion": "1"})
        for number in range(1, 9)
    ]
    seen: list[Record] = []

    def noted(schemas: Schemas, record: Record, evidence: Evidence) -> Any:
        seen.append(record)
        return observe(schemas, record, evidence)

    monkeypatch.setattr("expectations.conversation.columnar.statement_cache.observe", noted)
    batch = opened(records).batch
    known = StatementCache(SCHEMAS).of_frames(batch, READER.read(batch), np.arange(len(records)))
    assert len(seen) == 1
    assert [each.statement.body.name for each in known] == [f"s-{number}" for number in range(1, 9)]  # type: ignore[union-attr]
