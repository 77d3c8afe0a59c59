"""What columns tell of heartbeats is what the scalar code reads of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.response import write_response
from decoders.frame.record import Direction, Kind, Pairing, Record
from decoders.protocol import HEARTBEAT_APIS
from decoders.schema.registry import Api
from expectations.conversation.observe import observe
from expectations.conversation.occurrence import NO_EVIDENCE
from tests.decoders.frame.columnar.batches import opened, record_of
from tests.examples import examples
from tests.expectations.conversation.columnar.scalar_reads import (
    READER,
    SCHEMAS,
    learnt,
    request,
    scalar_reads,
)

APIS = [api for key in HEARTBEAT_APIS if (api := SCHEMAS.api(key)) is not None]
TEXTS = st.text(max_size=6)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
EPOCHS = st.sampled_from([-2, -1, 0, 1]) | NUMBERS
OWNED = {"topicId": "vBxYyYy0QmO1n3Vd2mXkZQ", "partitions": [0]}
REQUESTS = st.fixed_dictionaries(
    {
        "groupId": TEXTS,
        "memberId": TEXTS,
        "memberEpoch": EPOCHS,
        "instanceId": st.none() | TEXTS,
        "rackId": st.none() | TEXTS,
        "subscribedTopicNames": st.none() | st.lists(TEXTS, max_size=2),
        "subscribedTopicRegex": st.none() | TEXTS,
        "topicPartitions": st.none() | st.lists(st.just(OWNED), max_size=2),
        "rebalanceTimeoutMs": st.sampled_from([-1, 0, 300_000]),
    }
)
RESPONSES = st.fixed_dictionaries(
    {
        "errorCode": st.sampled_from([0, 25, 110]),
        "memberId": TEXTS,
        "heartbeatIntervalMs": NUMBERS,
        "assignment": st.none(),
    }
)


def heartbeat(sequence: int, api: Api, said: Mapping[str, Any]) -> Record:
    return request(sequence, api, api.versions.highest, said)


def response(sequence: int, api: Api, said: Mapping[str, Any]) -> Record:
    version = api.versions.highest
    known = {field.name for field in api.response.struct.fields}
    frame = write_response(
        SCHEMAS, api.name, version, sequence, {name: said[name] for name in said if name in known}
    )
    whole = {"frame": frame, "true_length": len(frame), "direction": Direction.TO_CLIENT}
    asked = {"pairing": Pairing.MATCHED, "paired_api_key": api.key, "paired_api_version": version}
    return record_of(Kind.RESPONSE, sequence, connection=bytes(16), **whole, **asked)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@examples(50)
@given(
    said=st.lists(
        st.one_of(st.tuples(st.just(heartbeat), REQUESTS), st.tuples(st.just(response), RESPONSES)),
        max_size=6,
    )
)
def test_columns_tell_what_is_read(api: Api, said: list[tuple[Any, Mapping[str, Any]]]) -> None:
    records = [write(sequence, api, body) for sequence, (write, body) in enumerate(said, 1)]
    read = READER.read(opened(records).batch)
    assert read.with_body.all()
    assert not read.plain.any()
    bodies = [observe(SCHEMAS, record, NO_EVIDENCE).body for record in records]
    assert read.bodies(np.arange(len(records))) == bodies


def test_a_response_may_name_nobody() -> None:
    (consumer, *_) = APIS
    said = {"memberId": None, "errorCode": 25, "heartbeatIntervalMs": 0, "assignment": None}
    read = READER.read(opened([response(1, consumer, said)]).batch)
    (body,) = read.bodies(np.arange(1))
    assert (body.member_id, body.error_code, body.heartbeat_interval) == (None, 25, 0)  # type: ignore[union-attr]


def test_members_are_learnt_without_reading_each(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        heartbeat(number, APIS[0], {"groupId": "g", "memberId": f"m-{number}", "memberEpoch": 1})
        for number in range(1, 9)
    ]
    read = scalar_reads(monkeypatch)
    known = learnt(records)
    assert len(read) == 1
    assert [each.statement.body.member_id for each in known] == [f"m-{number}" for number in range(1, 9)]  # type: ignore[union-attr]
    assert len({each.number for each in known}) == len({each.heartbeat for each in known}) == len(records)
