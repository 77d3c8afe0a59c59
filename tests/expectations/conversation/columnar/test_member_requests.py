"""Which member sends a request is the same by columns as by the scalar code."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Record
from decoders.schema.registry import Api
from expectations.conversation.body_reader import MEMBER_REQUESTS
from expectations.conversation.columnar.member_requests import member_requests
from expectations.conversation.observe import observe
from expectations.conversation.occurrence import NO_EVIDENCE
from tests.decoders.frame.columnar.batches import opened
from tests.examples import examples
from tests.expectations.conversation.columnar.scalar_reads import READER, SCHEMAS, request
from tests.expectations.conversation.columnar.test_windows import at_once

APIS = [SCHEMAS.by_key[key] for key in (*MEMBER_REQUESTS, 3)]
IDS = st.sampled_from(["", "m", "n", "x" * 36, "x" * 37, "ä" * 18, "ä" * 19, "y" * 300])


@st.composite
def requests(draw: st.DrawFn) -> tuple[Api, int, dict[str, Any]]:
    api = draw(st.sampled_from(APIS))
    versions = api.release_versions
    assert versions is not None
    version = draw(st.integers(versions.lowest, versions.highest))
    return api, version, {"groupId": draw(st.sampled_from(["", "g", "h"])), "memberId": draw(IDS)}


@examples(80)
@given(st.lists(requests(), max_size=8))
def test_columns_tell_which_member_sends(said: list[tuple[Api, int, dict[str, Any]]]) -> None:
    records = [request(sequence, *one) for sequence, one in enumerate(said, 1)]
    read = READER.read(opened(records).batch)
    assert read.plain.all()
    bodies = [observe(SCHEMAS, record, NO_EVIDENCE).body for record in records]
    assert member_requests(read.decoded, read.member_places, np.arange(len(records))) == bodies


def test_requests_of_two_members_are_two_statements() -> None:
    def fetch(sequence: int, group: str, member: str) -> Record:
        return request(sequence, APIS[0], 1, {"groupId": group, "memberId": member})

    said = [("g", "m"), ("g", "n"), ("h", "m"), ("g", "m"), ("gm", ""), ("", "gm")]
    records = [fetch(sequence, *who) for sequence, who in enumerate(said, 1)]
    (window,) = at_once(records)
    assert len({seen.statement for seen in window.observations}) == 5
