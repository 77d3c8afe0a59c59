"""Cutting: secrets are blanked, record payloads cut, all else is kept unchanged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from decoders.codec.failure import Oddity
from decoders.codec.request import Request, other_header, read_request, write_request
from decoders.codec.response import Response, read_response, write_response
from decoders.frame.cutting import MAX_KEPT, blank, cut
from decoders.frame.record import Endpoint, Flag, Kind, Pairing, Record
from decoders.schema.registry import Api, default_schemas
from tests.decoders.frame.secret_content import CODED, SECRET, TEXT, without_secrets

SCHEMAS = default_schemas()


def record(kind: Kind, frame: bytes, **fields: Any) -> Record:
    return Record(
        kind=kind,
        connection=bytes(16),
        run=1,
        sequence=1,
        captured_at=0,
        client=Endpoint("10.0.0.1:1"),
        server=Endpoint("10.0.0.2:2"),
        true_length=len(frame),
        frame=frame,
        **fields,
    )


def kept_request(frame: bytes) -> bytes:
    return cut(SCHEMAS, record(Kind.REQUEST, frame)).frame


def kept_response(frame: bytes, api: str, version: int, pairing: Pairing = Pairing.MATCHED) -> bytes:
    found = SCHEMAS.api_named(api)
    assert found is not None
    fields = {"pairing": pairing, "paired_api_key": found.key, "paired_api_version": version}
    return cut(SCHEMAS, record(Kind.RESPONSE, frame, **fields)).frame


REQUESTS: list[tuple[str, int, dict[str, Any]]] = [
    ("SaslAuthenticate", 2, {"authBytes": CODED}),
    ("SaslAuthenticate", 0, {"authBytes": CODED}),
    ("RenewDelegationToken", 2, {"hmac": CODED}),
    ("ExpireDelegationToken", 2, {"hmac": CODED}),
    (
        "AlterUserScramCredentials",
        0,
        {"upsertions": [{"name": "alice", "mechanism": 1, "salt": CODED, "saltedPassword": CODED}]},
    ),
    ("AlterConfigs", 2, {"resources": [{"configs": [{"name": "a", "value": TEXT}]}]}),
    ("IncrementalAlterConfigs", 1, {"resources": [{"configs": [{"name": "a", "value": TEXT}]}]}),
    ("CreateTopics", 7, {"topics": [{"name": "t", "configs": [{"name": "a", "value": TEXT}]}]}),
    ("JoinGroup", 9, {"groupId": "g", "protocols": [{"name": "range", "metadata": CODED}]}),
    ("SyncGroup", 5, {"groupId": "g", "assignments": [{"memberId": "m", "assignment": CODED}]}),
    ("PushTelemetry", 0, {"metrics": CODED}),
    (
        "OffsetCommit",
        9,
        {"topics": [{"name": "t", "partitions": [{"committedMetadata": TEXT}]}]},
    ),
    ("StreamsGroupHeartbeat", 0, {"groupId": "g", "clientTags": [{"key": "k", "value": TEXT}]}),
    ("Envelope", 0, {"requestData": CODED, "requestPrincipal": CODED}),
]
RESPONSES: list[tuple[str, int, dict[str, Any]]] = [
    ("SaslAuthenticate", 2, {"authBytes": CODED}),
    ("CreateDelegationToken", 3, {"hmac": CODED}),
    ("DescribeDelegationToken", 3, {"tokens": [{"tokenId": "t", "hmac": CODED}]}),
    ("JoinGroup", 9, {"members": [{"memberId": "m", "metadata": CODED}]}),
    ("SyncGroup", 5, {"assignment": CODED}),
    ("DescribeGroups", 5, {"groups": [{"members": [{"memberMetadata": CODED, "memberAssignment": CODED}]}]}),
    ("Envelope", 0, {"responseData": CODED}),
]
SECRET_RESPONSES = [case for case in RESPONSES if case[0] not in {"JoinGroup", "SyncGroup", "DescribeGroups"}]
PRODUCED = {"acks": 1, "timeoutMs": 1, "topicData": [{"partitionData": [{"index": 5, "records": CODED}]}]}
FETCHED = {"responses": [{"partitions": [{"partitionIndex": 3, "records": CODED}]}]}


@pytest.mark.parametrize(("api", "version", "body"), REQUESTS)
def test_secrets_of_requests_are_blanked_and_nothing_else(
    api: str, version: int, body: dict[str, Any]
) -> None:
    frame = write_request(SCHEMAS, api, version, 7, "client", body)
    kept = kept_request(frame)
    assert SECRET in frame
    assert SECRET not in kept
    before, after = read_request(SCHEMAS, frame), read_request(SCHEMAS, kept)
    assert after.body == without_secrets(before.body)
    assert (after.client_id, after.correlation_id, after.failure) == ("client", 7, None)


@pytest.mark.parametrize(("api", "version", "body"), RESPONSES)
def test_secrets_of_responses_are_blanked_and_nothing_else(
    api: str, version: int, body: dict[str, Any]
) -> None:
    frame = write_response(SCHEMAS, api, version, 7, body)
    kept = kept_response(frame, api, version)
    assert SECRET not in kept
    found = SCHEMAS.api_named(api)
    assert found is not None
    before, after = (read_response(SCHEMAS, data, found.key, version) for data in (frame, kept))
    assert after.body == without_secrets(before.body)


@pytest.mark.parametrize(("api", "version", "body"), REQUESTS)
def test_no_shortened_or_unknown_frame_reveals_a_secret(api: str, version: int, body: dict[str, Any]) -> None:
    frame = write_request(SCHEMAS, api, version, 7, "client", body)
    for end in range(len(frame)):
        kept = kept_request(frame[:end])
        assert frame[:end].startswith(kept[:8])
        assert SECRET[:3] not in kept
    unknown = frame[:2] + b"\x00\x63" + frame[4:]
    assert kept_request(unknown) == unknown[:4]


def test_a_password_that_a_handshake_runs_over_is_blanked() -> None:
    """The length of SaslHandshake covers the frame behind it, too."""
    handshake = write_request(SCHEMAS, "SaslHandshake", 1, 7, "client", {"mechanism": "PLAIN"})
    kept = kept_request(handshake + SECRET)
    assert kept == handshake + bytes(len(SECRET))
    assert kept_request(handshake) == handshake


@pytest.mark.parametrize(("api", "version", "body"), REQUESTS)
def test_a_frame_that_cannot_be_decoded_fails_in_the_same_way_after_cutting(
    api: str, version: int, body: dict[str, Any]
) -> None:
    frame = write_request(SCHEMAS, api, version, 7, "client", body)
    for end in range(8, len(frame)):
        before, kept = read_request(SCHEMAS, frame[:end]), kept_request(frame[:end])
        assert before.failure is not None
        assert str(read_request(SCHEMAS, kept).failure) == str(before.failure)
        assert len(kept) == end


def all_versions(cases: list[tuple[str, int, dict[str, Any]]]) -> list[tuple[Api, int, dict[str, Any]]]:
    found = []
    for name, _, body in cases:
        api = SCHEMAS.api_named(name)
        assert api is not None
        found += [(api, version, body) for version in range(api.versions.lowest, api.versions.highest + 1)]
    return found


def damaged(frame: bytes, begin: int, end: int | None = None) -> Iterator[bytes]:
    """Flip single bits from a byte on, up to another one."""
    places = range(len(frame))[begin:end]
    for place, flip in itertools.product(places, (0x01, 0x04, 0x10, 0x80)):
        yield frame[:place] + bytes([frame[place] ^ flip]) + frame[place + 1 :]


OTHER_HEADERS = {1: b"", 2: b"\0"}
"""The bytes of request headers 1 and 2 behind the client ID."""


@pytest.mark.parametrize(("api", "version", "body"), REQUESTS)
def test_a_request_with_another_header_still_proves_it_after_cutting(
    api: str, version: int, body: dict[str, Any]
) -> None:
    known = SCHEMAS.api_named(api)
    assert known is not None
    frame = write_request(SCHEMAS, api, version, 7, "client", body)
    own = known.request_header_version(version)
    end = 8 + 2 + len("client")
    other = 3 - own
    misframed = frame[:end] + OTHER_HEADERS[other] + frame[end + len(OTHER_HEADERS[own]) :]
    found = other_header(SCHEMAS, known, version, misframed)
    kept = kept_request(misframed)
    assert SECRET not in kept
    # Where what they hold decides how their own header fails, the failure is kept and not the proof.
    is_lost = api in {"Envelope", "PushTelemetry"}
    assert other_header(SCHEMAS, known, version, kept) == (None if is_lost else found)
    assert str(read_request(SCHEMAS, kept).failure) == str(read_request(SCHEMAS, misframed).failure)
    assert found in {other, None}


@pytest.mark.parametrize(("api", "version", "body"), all_versions(REQUESTS))
def test_a_request_with_a_damaged_header_proves_no_other_after_cutting(
    api: Api, version: int, body: dict[str, Any]
) -> None:
    """A client is accused of the header behind which its blanked frame decodes."""
    end = 8 + 2 + len("c")
    frame = write_request(SCHEMAS, api.name, version, 7, "c", body)
    for header in OTHER_HEADERS.values():
        for each in damaged(frame[:end] + header + frame[end:], 8, end + 2):
            proven = other_header(SCHEMAS, api, version, each)
            assert other_header(SCHEMAS, api, version, kept_request(each)) in {proven, None}


MISLABELLED: list[bytes] = [
    write_request(SCHEMAS, "Produce", version, 7, "client", PRODUCED) for version in (3, 8, 9, 13)
]


def secret_parts(kept: bytes) -> set[bytes]:
    """Three bytes in a row of the secret that are in what is kept."""
    return {SECRET[at : at + 3] for at in range(len(SECRET) - 2)} & {
        kept[at : at + 3] for at in range(len(kept) - 2)
    }


@pytest.mark.parametrize(("api", "version", "_body"), REQUESTS)
def test_records_under_another_label_are_not_kept(api: str, version: int, _body: dict[str, Any]) -> None:
    label = write_request(SCHEMAS, api, version, 7, "client", {})[:4]
    for frame in MISLABELLED:
        found = read_request(SCHEMAS, label + frame[4:])
        kept = kept_request(label + frame[4:])
        assert found.failure is None or not secret_parts(kept)
        assert str(read_request(SCHEMAS, kept).failure) == str(found.failure)


def wrongs(found: Request | Response) -> tuple[str, list[tuple[str, int]]]:
    """What is wrong with a frame, but for what a failure hides and what blanking removes."""
    remarks = found.remarks if found.failure is None else ()
    shown = [(str(each.oddity), each.offset) for each in remarks if each.oddity is not Oddity.INVALID_UTF8]
    return str(found.failure), shown


@pytest.mark.parametrize(("api", "version", "body"), all_versions(REQUESTS))
def test_one_damaged_byte_reveals_no_secret(api: Api, version: int, body: dict[str, Any]) -> None:
    frame = write_request(SCHEMAS, api.name, version, 7, "c", body)
    for each in damaged(frame, 8):
        found, kept = read_request(SCHEMAS, each), kept_request(each)
        assert not secret_parts(kept)
        assert kept == each[:8] or wrongs(read_request(SCHEMAS, kept)) == wrongs(found)


@pytest.mark.parametrize(("api", "version", "body"), all_versions(SECRET_RESPONSES))
def test_one_damaged_byte_of_a_response_reveals_no_secret(
    api: Api, version: int, body: dict[str, Any]
) -> None:
    for each in damaged(write_response(SCHEMAS, api.name, version, 7, body), 4):
        kept = kept_response(each, api.name, version)
        assert not secret_parts(kept)
        before, after = (read_response(SCHEMAS, frame, api.key, version) for frame in (each, kept))
        assert wrongs(after) == wrongs(before)
        if before.body is not None and after.body is not None:
            assert after.body.get("errorCode") == before.body.get("errorCode")


def test_bytes_behind_a_guarded_body_are_blanked() -> None:
    frame = write_request(SCHEMAS, "SaslAuthenticate", 2, 7, "client", {"authBytes": ""})
    assert kept_request(frame + SECRET) == frame + bytes(len(SECRET))


@pytest.mark.parametrize("version", [3, 7, 13])
def test_produce_ends_at_the_first_byte_of_its_first_records(version: int) -> None:
    partitions = [
        {"index": 5, "records": None},
        {"index": 6, "records": CODED},
        {"index": 7, "records": CODED},
    ]
    body = {"acks": 1, "timeoutMs": 1, "topicData": [{"partitionData": partitions}]}
    frame = write_request(SCHEMAS, "Produce", version, 7, "client", body)
    shortened = cut(SCHEMAS, record(Kind.REQUEST, frame))
    assert shortened.frame == frame[: frame.index(SECRET)]
    assert (shortened.is_cut, shortened.true_length) == (True, len(frame))
    assert read_request(SCHEMAS, shortened.frame, cut=True).client_id == "client"


@pytest.mark.parametrize("version", [4, 12, 16])
def test_a_fetch_response_ends_at_the_first_byte_of_its_first_records(version: int) -> None:
    frame = write_response(SCHEMAS, "Fetch", version, 7, FETCHED)
    assert kept_response(frame, "Fetch", version) == frame[: frame.index(SECRET)]


def test_a_fetch_response_without_records_is_kept_whole() -> None:
    body = {"responses": [{"partitions": [{"partitionIndex": 3, "records": ""}]}]}
    frame = write_response(SCHEMAS, "Fetch", 12, 7, body)
    assert kept_response(frame, "Fetch", 12) == frame


def test_no_part_of_a_payload_survives_in_a_frame_that_was_captured_in_part() -> None:
    frame = write_response(SCHEMAS, "Fetch", 12, 7, FETCHED)
    for end in range(4, len(frame)):
        assert SECRET[:3] not in kept_response(frame[:end], "Fetch", 12)


@pytest.mark.parametrize("pairing", [Pairing.FOREIGN, Pairing.UNOWED, Pairing.UNKNOWN])
def test_only_the_correlation_id_is_kept_of_an_unmatched_response(pairing: Pairing) -> None:
    frame = write_response(SCHEMAS, "Fetch", 12, 7, FETCHED)
    assert kept_response(frame, "Metadata", 9, pairing) == frame[:4]


def test_of_an_unknown_api_only_what_proves_it_is_kept() -> None:
    """It may be a token of SASL/PLAIN: a user's name and password, each behind a zero byte."""
    assert kept_request(b"\0u\0hunter2") == b"\0u\0h"


@pytest.mark.parametrize("version", [14, 15, 300])
def test_of_an_unknown_version_only_the_lead_is_kept(version: int) -> None:
    """Its fields are not classified: in a later release, a Metadata request may hold a secret."""
    frame = write_request(SCHEMAS, "ListGroups", 5, 7, "client", {"statesFilter": ["secret"]})
    unknown = frame[:2] + version.to_bytes(2, signed=True) + frame[4:]
    assert kept_request(unknown) == unknown[:4]
    response = write_response(SCHEMAS, "ListGroups", 5, 7, {"groups": [{"groupId": "secret"}]})
    assert kept_response(response, "ListGroups", version) == response[:4]


def test_of_a_version_that_earlier_releases_had_only_the_header_is_kept() -> None:
    """The body of a Produce before version 3 is not classified: its records are."""
    header = bytes.fromhex("0000 0002 00000007 0006") + b"orders"
    assert kept_request(header + SECRET) == header
    assert kept_request(header[:-1]) == header[:4]
    null = bytes.fromhex("0000 0002 00000007 ffff")
    assert kept_request(null + SECRET) == null


def test_of_a_negative_version_only_the_header_is_kept() -> None:
    """It shows whether the rest of the header is sound, and the version is all that is wrong."""
    header = bytes.fromhex("0003 ffff 00000007 0006") + b"orders"
    assert kept_request(header + SECRET) == header
    assert kept_request(header[:-1]) == header[:4]


def test_api_versions_is_kept_at_any_version() -> None:
    software = {"clientSoftwareName": "a", "clientSoftwareVersion": "1"}
    request = write_request(SCHEMAS, "ApiVersions", 300, 7, "client", software)
    assert kept_request(request) == request
    response = write_response(SCHEMAS, "ApiVersions", 0, 7, {"errorCode": 35})
    assert kept_response(response, "ApiVersions", 300) == response


def test_sasl_tokens_are_blanked() -> None:
    token = cut(SCHEMAS, record(Kind.SASL_TOKEN, SECRET))
    assert (token.frame, token.true_length) == (bytes(len(SECRET)), len(SECRET))


def test_other_frames_pass_as_they_are_up_to_the_limit() -> None:
    topics = [{"name": "t" * 1000} for _ in range(300)]
    frame = write_request(SCHEMAS, "Metadata", 9, 7, "client", {"topics": topics})
    assert kept_request(frame) == frame[:MAX_KEPT]
    small = record(Kind.REQUEST, write_request(SCHEMAS, "Metadata", 9, 7, "client", {"topics": []}))
    assert cut(SCHEMAS, small) is small


def produce(version: int) -> Record:
    """Two partitions with records, and the bytes between and behind them."""
    partitions = [{"index": index, "records": CODED} for index in range(2)]
    body = {"acks": 1, "topicData": [{"name": "t", "partitionData": partitions}]}
    instance_id = bytes(range(16)) if version >= 14 else None
    return record(Kind.REQUEST, write_request(SCHEMAS, "Produce", version, 1, "app", body, instance_id))


@pytest.mark.parametrize("version", [3, 9, 13, 14])
def test_blanked_a_frame_keeps_its_length_and_none_of_what_is_cut(version: int) -> None:
    """And is cut like the frame it was, also at a version that only its last byte proves."""
    whole = produce(version)
    blanked = blank(SCHEMAS, whole)
    assert len(blanked.frame) == len(whole.frame)
    assert SECRET in whole.frame and SECRET not in blanked.frame
    assert cut(SCHEMAS, blanked) == cut(SCHEMAS, whole)
    assert read_request(SCHEMAS, blanked.frame).body is not None


@pytest.mark.parametrize(("api", "version", "body"), REQUESTS, ids=str)
def test_where_nothing_is_cut_blanked_is_what_is_kept(api: str, version: int, body: dict[str, Any]) -> None:
    whole = record(Kind.REQUEST, write_request(SCHEMAS, api, version, 1, "app", body))
    assert blank(SCHEMAS, whole) == cut(SCHEMAS, whole)


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_of_a_frame_that_is_cut_at_records_it_is_known_that_nothing_is_wrong(version: int) -> None:
    frame = write_request(SCHEMAS, "Produce", version, 7, "client", PRODUCED)
    assert cut(SCHEMAS, record(Kind.REQUEST, frame)).flags == Flag.READ_WHOLE
    captured_in_part = msgspec.structs.replace(record(Kind.REQUEST, frame), true_length=len(frame) + 1)
    assert cut(SCHEMAS, captured_in_part).flags == Flag.NONE


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_what_is_wrong_behind_records_is_kept_without_them(version: int) -> None:
    frame = write_request(SCHEMAS, "Produce", version, 7, "client", PRODUCED)
    for wrong in (frame + b"xx", frame[:-1], frame.replace(SECRET, SECRET[:-1])):
        found, kept = read_request(SCHEMAS, wrong), cut(SCHEMAS, record(Kind.REQUEST, wrong))
        again = read_request(SCHEMAS, kept.frame)
        assert (str(found.failure), found.remarks) == (str(again.failure), again.remarks)
        assert (len(kept.frame), kept.flags) == (len(wrong), Flag.NONE)
        assert not secret_parts(kept.frame)
