"""The columns of heartbeats, member requests and ApiVersions hold what the scalar code reads of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.response import write_response
from decoders.frame.record import Direction, Kind, Pairing, Record
from decoders.protocol import API_VERSIONS, HEARTBEAT_APIS
from decoders.schema.registry import Api
from expectations.conversation.bodies import HeartbeatResponse, SoftwareClaim
from expectations.conversation.body_reader import MEMBER_REQUESTS
from tests.decoders.frame.columnar.batches import record_of
from tests.examples import examples
from tests.expectations.conversation.columnar.scalar_reads import (
    SCHEMAS,
    is_complete,
    learnt,
    observed,
    request,
    said,
    scalar_reads,
)
from tests.expectations.conversation.columnar.test_windows import at_once

HEARTBEATS = [api for key in HEARTBEAT_APIS if (api := SCHEMAS.api(key)) is not None]
IDS = st.text(max_size=6)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
EPOCHS = st.sampled_from([-2, -1, 0, 1]) | NUMBERS
OWNED = {"topicId": "vBxYyYy0QmO1n3Vd2mXkZQ", "partitions": [0]}
REQUESTS = st.fixed_dictionaries(
    {
        "groupId": IDS,
        "memberId": IDS,
        "memberEpoch": EPOCHS,
        "instanceId": st.none() | IDS,
        "rackId": st.none() | IDS,
        "subscribedTopicNames": st.none() | st.lists(IDS, max_size=2),
        "subscribedTopicRegex": st.none() | IDS,
        "topicPartitions": st.none() | st.lists(st.just(OWNED), max_size=2),
        "rebalanceTimeoutMs": st.sampled_from([-1, 0, 300_000]),
    }
)
RESPONSES = st.fixed_dictionaries(
    {
        "errorCode": st.sampled_from([0, 25, 110]),
        "memberId": IDS,
        "heartbeatIntervalMs": NUMBERS,
        "assignment": st.none(),
    }
)
MEMBER_APIS = [SCHEMAS.by_key[key] for key in (*MEMBER_REQUESTS, 3)]
MEMBER_IDS = st.sampled_from(["", "m", "n", "x" * 36, "x" * 37, "ä" * 18, "ä" * 19, "y" * 300])
ASKING = next(api for api in SCHEMAS.apis if api.key == API_VERSIONS)
ASKING_VERSIONS = range(ASKING.versions.lowest, ASKING.versions.highest + 1)
FIRST_WITH_SOFTWARE, FIRST_WITH_INSTANCE_ID = 3, 6
SOFTWARE = st.text(max_size=6) | st.text("ab", min_size=250, max_size=300)
CLAIMS = st.fixed_dictionaries(
    {
        "clientSoftwareName": SOFTWARE,
        "clientSoftwareVersion": SOFTWARE,
        "clusterId": st.none() | SOFTWARE,
        "nodeId": st.integers(-(2**31), 2**31 - 1),
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


@pytest.mark.parametrize("api", HEARTBEATS, ids=lambda api: api.name)
@examples(50)
@given(
    said=st.lists(
        st.one_of(st.tuples(st.just(heartbeat), REQUESTS), st.tuples(st.just(response), RESPONSES)),
        max_size=6,
    )
)
def test_columns_hold_what_is_read_of_heartbeats(api: Api, said: list[tuple[Any, Mapping[str, Any]]]) -> None:
    records = [write(sequence, api, body) for sequence, (write, body) in enumerate(said, 1)]
    assert all(is_complete(records))
    assert learnt(records) == observed(records)


def test_a_heartbeat_response_may_name_nobody() -> None:
    (consumer, *_) = HEARTBEATS
    said = {"memberId": None, "errorCode": 25, "heartbeatIntervalMs": 0, "assignment": None}
    (statement,) = learnt([response(1, consumer, said)])
    assert statement.body == HeartbeatResponse(25, None, 0)


def test_members_are_learnt_without_reading_each(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        heartbeat(number, HEARTBEATS[0], {"groupId": "g", "memberId": f"m-{number}", "memberEpoch": 1})
        for number in range(1, 9)
    ]
    read = scalar_reads(monkeypatch)
    found = said(records)
    assert len(read) == 1
    bodies = [found.statements[number].body for number in found.places.tolist()]
    assert [body.member_id for body in bodies] == [f"m-{number}" for number in range(1, 9)]  # type: ignore[union-attr]
    assert len({*found.compared.numbers}) == len({*found.compared.heartbeats}) == len(records)


def test_bodies_are_equal_whatever_the_header_says() -> None:
    body: dict[str, Any] = {"groupId": "g", "memberId": "AQEBAQEBAQEBAQEBAQEBAQ", "memberEpoch": 7}
    version = HEARTBEATS[0].versions.highest
    clients = [
        request(sequence, HEARTBEATS[0], version, body, client_id=name)
        for sequence, name in enumerate("ab", 1)
    ]
    others = [
        heartbeat(sequence, HEARTBEATS[0], {**body, name: value})
        for sequence, (name, value) in enumerate(
            (("memberEpoch", 8), ("memberId", "AgICAgICAgICAgICAgICAg")), 3
        )
    ]
    found = said([*clients, *others])
    first, second, *different = found.compared.heartbeats[found.places].tolist()
    assert first == second
    assert len({first, *different}) == 3
    assert len({*found.compared.numbers.tolist()}) == 4


@st.composite
def member_requests(draw: st.DrawFn) -> tuple[Api, int, dict[str, Any]]:
    api = draw(st.sampled_from(MEMBER_APIS))
    versions = api.release_versions
    assert versions is not None
    version = draw(st.integers(versions.lowest, versions.highest))
    return api, version, {"groupId": draw(st.sampled_from(["", "g", "h"])), "memberId": draw(MEMBER_IDS)}


@examples(80)
@given(st.lists(member_requests(), max_size=8))
def test_columns_hold_which_member_sends(said: list[tuple[Api, int, dict[str, Any]]]) -> None:
    records = [request(sequence, *one) for sequence, one in enumerate(said, 1)]
    assert all(is_complete(records))
    assert learnt(records) == observed(records)


def test_requests_of_two_members_are_two_statements() -> None:
    def fetch(sequence: int, group: str, member: str) -> Record:
        return request(sequence, MEMBER_APIS[0], 1, {"groupId": group, "memberId": member})

    said = [("g", "m"), ("g", "n"), ("h", "m"), ("g", "m"), ("gm", ""), ("", "gm")]
    records = [fetch(sequence, *who) for sequence, who in enumerate(said, 1)]
    (window,) = at_once(records)
    assert len({seen.statement for seen in window.observations}) == 5


def claim(sequence: int, version: int, said: Mapping[str, Any], client_id: str | None = "app") -> Record:
    instance_id = b"instance" + bytes([sequence]) * 8 if version >= FIRST_WITH_INSTANCE_ID else None
    return request(sequence, ASKING, version, said, client_id=client_id, instance_id=instance_id)


@examples(100)
@given(st.lists(st.tuples(st.sampled_from(ASKING_VERSIONS), CLAIMS, st.none() | SOFTWARE), max_size=6))
def test_columns_hold_what_is_read_of_apiversions(
    requests: list[tuple[int, dict[str, Any], str | None]],
) -> None:
    records = [claim(sequence, *said) for sequence, said in enumerate(requests, 1)]
    assert learnt(records) == observed(records)


@pytest.mark.parametrize("version", ASKING_VERSIONS)
def test_each_version_that_names_software_is_read_by_columns(version: int) -> None:
    said = {"clientSoftwareName": "a", "clientSoftwareVersion": "1", "clusterId": "c", "nodeId": 4}
    records = [claim(1, version, said)]
    assert is_complete(records) == [True]
    (statement,) = learnt(records)
    assert isinstance(statement.body, SoftwareClaim) is (version >= FIRST_WITH_SOFTWARE)


def test_software_is_learnt_without_reading_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        claim(
            number, ASKING_VERSIONS[-1], {"clientSoftwareName": f"s-{number}", "clientSoftwareVersion": "1"}
        )
        for number in range(1, 9)
    ]
    read = scalar_reads(monkeypatch)
    known = learnt(records)
    assert len(read) == 1
    assert [each.body.name for each in known] == [f"s-{number}" for number in range(1, 9)]  # type: ignore[union-attr]
