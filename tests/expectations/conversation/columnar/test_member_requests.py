"""Which member sends a request is the same by columns as by the scalar code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.request import write_request
from decoders.frame.record import Direction, Kind, Record
from decoders.schema.registry import default_schemas
from expectations.conversation.body_reader import MEMBER_REQUESTS
from expectations.conversation.columnar.member_requests import member_requests
from expectations.conversation.columnar.reading import ObservationReader
from expectations.conversation.observe import observe
from expectations.conversation.occurrence import NO_EVIDENCE
from tests.decoders.frame.columnar.batches import opened, record_of
from tests.examples import examples
from tests.expectations.conversation.columnar.test_windows import at_once

SCHEMAS = default_schemas()
READER = ObservationReader(SCHEMAS)
APIS = [SCHEMAS.by_key[key] for key in (*MEMBER_REQUESTS, 3)]
IDS = st.sampled_from(["", "m", "n", "x" * 36, "x" * 37, "ä" * 18, "ä" * 19, "y" * 300])


def request(sequence: int, api: int, version: int, body: Mapping[str, Any]) -> Record:
    chosen = APIS[api]
    known = {field.name for field in chosen.request.struct.fields if version in field.versions}
    said = {name: body[name] for name in body if name in known}
    frame = write_request(SCHEMAS, chosen.key, version, sequence, "app", said)
    whole = {"frame": frame, "true_length": len(frame), "direction": Direction.TO_BROKER}
    return record_of(Kind.REQUEST, sequence, connection=bytes(16), **whole)


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, int, dict[str, Any]]:
    api = draw(st.integers(0, len(APIS) - 1))
    versions = APIS[api].release_versions
    assert versions is not None
    version = draw(st.integers(versions.lowest, versions.highest))
    return api, version, {"groupId": draw(st.sampled_from(["", "g", "h"])), "memberId": draw(IDS)}


@examples(80)
@given(st.lists(requests(), max_size=8))
def test_columns_tell_which_member_sends(said: list[tuple[int, int, dict[str, Any]]]) -> None:
    records = [request(sequence, *one) for sequence, one in enumerate(said, 1)]
    read = READER.read(opened(records).batch)
    assert read.plain.all()
    bodies = [observe(SCHEMAS, record, NO_EVIDENCE).body for record in records]
    assert member_requests(read.decoded, read.member_places, np.arange(len(records))) == bodies


def test_requests_of_two_members_are_two_statements() -> None:
    def fetch(sequence: int, group: str, member: str) -> Record:
        return request(sequence, 0, 1, {"groupId": group, "memberId": member})

    said = [("g", "m"), ("g", "n"), ("h", "m"), ("g", "m"), ("gm", ""), ("", "gm")]
    records = [fetch(sequence, *who) for sequence, who in enumerate(said, 1)]
    (window,) = at_once(records)
    assert len({seen.statement for seen in window.observations}) == 5
