"""What columns tell of ApiVersions requests is what the scalar code reads of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Record
from decoders.protocol import API_VERSIONS
from expectations.conversation.bodies import SoftwareClaim
from expectations.conversation.observe import observe
from expectations.conversation.occurrence import NO_EVIDENCE
from tests.decoders.frame.columnar.batches import opened
from tests.examples import examples
from tests.expectations.conversation.columnar.scalar_reads import (
    READER,
    SCHEMAS,
    learnt,
    request,
    scalar_reads,
)

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


def claim(sequence: int, version: int, said: Mapping[str, Any], client_id: str | None = "app") -> Record:
    instance_id = b"instance" + bytes([sequence]) * 8 if version >= FIRST_WITH_INSTANCE_ID else None
    return request(sequence, API, version, said, client_id=client_id, instance_id=instance_id)


@examples(100)
@given(st.lists(st.tuples(st.sampled_from(VERSIONS), SAID, st.none() | TEXTS), max_size=6))
def test_columns_tell_what_is_read(requests: list[tuple[int, dict[str, Any], str | None]]) -> None:
    records = [claim(sequence, *said) for sequence, said in enumerate(requests, 1)]
    read = READER.read(opened(records).batch)
    observed = [observe(SCHEMAS, record, NO_EVIDENCE).statement for record in records]
    numbers = np.flatnonzero(read.with_body)
    assert read.bodies(numbers) == [observed[number].body for number in numbers.tolist()]
    assert [each.statement for each in learnt(records)] == observed


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_that_names_software_is_read_by_columns(version: int) -> None:
    said = {"clientSoftwareName": "a", "clientSoftwareVersion": "1", "clusterId": "c", "nodeId": 4}
    read = READER.read(opened([claim(1, version, said)]).batch)
    (body,) = read.bodies(np.arange(1))
    assert isinstance(body, SoftwareClaim) is (version >= FIRST_WITH_SOFTWARE)


def test_software_is_learnt_without_reading_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        claim(number, VERSIONS[-1], {"clientSoftwareName": f"s-{number}", "clientSoftwareVersion": "1"})
        for number in range(1, 9)
    ]
    read = scalar_reads(monkeypatch)
    known = learnt(records)
    assert len(read) == 1
    assert [each.statement.body.name for each in known] == [f"s-{number}" for number in range(1, 9)]  # type: ignore[union-attr]
