"""Removes record payloads and secrets from a frame before it is stored or judged.

The feeder does so before it publishes and `check` before it judges, so both judge the same bytes. Three
things happen to a frame:

- *cut*: it ends before the first byte of the first record payload, or after 256 KiB. Its true length stays
  in the envelope, and nothing after the cut can be judged.
- *blanked*: the content of a field is overwritten with zero bytes. The frame still decodes, and only that
  field has changed.
- *distrusted*: if a guarded field cannot be located, nothing after that place is kept. A frame of a guarded
  API that cannot be decoded is blanked from the failure on, so that it still fails in the same way and at the
  same place. If no schema has its API or version, only the beginning that all headers share is kept, and
  likewise of a response that is not matched to a request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

from decoders.codec.failure import DecodeFailure, Oddity
from decoders.codec.request import Request, read_request
from decoders.codec.response import Response, read_response
from decoders.frame.record import Kind, Pairing, Record
from decoders.schema.registry import Api, Schemas

MAX_KEPT = 256 * 1024
"""The most bytes of a frame that are kept."""
_REQUEST_LEAD = 8
"""API key, API version and correlation ID."""
_RESPONSE_LEAD = 4
"""The correlation ID."""
_LONGEST_LENGTH = 5
"""The most bytes of a length: an unsigned varint of 32 bits."""

_Read = Callable[[bytes], Request | Response]


class Guard(NamedTuple):
    """The fields of a message before which it is cut, and those that are blanked, as paths."""

    cut: tuple[str, ...] = ()
    blanked: tuple[str, ...] = ()


GUARDED_REQUESTS: Mapping[str, Guard] = {
    "Produce": Guard(cut=("topicData.partitionData.records",)),
    "JoinGroup": Guard(blanked=("protocols.metadata",)),
    "SyncGroup": Guard(blanked=("assignments.assignment",)),
    "CreateTopics": Guard(blanked=("topics.configs.value",)),
    "AlterConfigs": Guard(blanked=("resources.configs.value",)),
    "IncrementalAlterConfigs": Guard(blanked=("resources.configs.value",)),
    "OffsetCommit": Guard(blanked=("topics.partitions.committedMetadata",)),
    "TxnOffsetCommit": Guard(blanked=("topics.partitions.committedMetadata",)),
    "StreamsGroupHeartbeat": Guard(blanked=("clientTags.value",)),
    "SaslAuthenticate": Guard(blanked=("authBytes",)),
    "RenewDelegationToken": Guard(blanked=("hmac",)),
    "ExpireDelegationToken": Guard(blanked=("hmac",)),
    "AlterUserScramCredentials": Guard(blanked=("upsertions.salt", "upsertions.saltedPassword")),
    # A forwarded request of any API.
    "Envelope": Guard(blanked=("requestData", "requestPrincipal")),
    "PushTelemetry": Guard(blanked=("metrics",)),
}
GUARDED_RESPONSES: Mapping[str, Guard] = {
    "Fetch": Guard(cut=("responses.partitions.records",)),
    "ShareFetch": Guard(cut=("responses.partitions.records",)),
    "FetchSnapshot": Guard(cut=("topics.partitions.unalignedRecords",)),
    "JoinGroup": Guard(blanked=("members.metadata",)),
    "SyncGroup": Guard(blanked=("assignment",)),
    "DescribeGroups": Guard(blanked=("groups.members.memberMetadata", "groups.members.memberAssignment")),
    "CreateTopics": Guard(blanked=("topics.configs.value",)),
    "DescribeConfigs": Guard(blanked=("results.configs.value", "results.configs.synonyms.value")),
    "OffsetFetch": Guard(
        blanked=("topics.partitions.metadata", "groups.topics.partitions.metadata"),
    ),
    "StreamsGroupDescribe": Guard(blanked=("groups.members.clientTags.value",)),
    "SaslAuthenticate": Guard(blanked=("authBytes",)),
    "CreateDelegationToken": Guard(blanked=("hmac",)),
    "DescribeDelegationToken": Guard(blanked=("tokens.hmac",)),
    "Envelope": Guard(blanked=("responseData",)),
}


def cut(schemas: Schemas, record: Record) -> Record:
    """Return the record with only those bytes of its frame that may be kept."""
    kept = _kept(schemas, record)[:MAX_KEPT]
    return record if kept is record.frame else dataclasses.replace(record, frame=kept)


def blank(schemas: Schemas, record: Record) -> Record:
    """Return the record with the bytes that `cut` removes blanked, so that its frame keeps its length.

    If the last byte of a frame must prove its version, only such a frame can be cut again with equal results.
    """
    kept = _kept(schemas, record, _blanking)
    return record if kept is record.frame else dataclasses.replace(record, frame=kept)


def _blanking(guard: Guard) -> Guard:
    return Guard(blanked=guard.cut + guard.blanked)


def _as_it_is(guard: Guard) -> Guard:
    return guard


def _kept(schemas: Schemas, record: Record, change: Callable[[Guard], Guard] = _as_it_is) -> bytes:
    match record.kind:
        case Kind.REQUEST:
            return _kept_of_request(schemas, record.frame, change)
        case Kind.RESPONSE:
            return _kept_of_response(schemas, record, change)
        case Kind.SASL_TOKEN:
            return bytes(len(record.frame))
    return record.frame


def _kept_of_request(schemas: Schemas, frame: bytes, change: Callable[[Guard], Guard]) -> bytes:
    api = schemas.api(int.from_bytes(frame[:2], signed=True))
    if api is None:
        return frame[:_REQUEST_LEAD]
    guard = GUARDED_REQUESTS.get(api.name)
    if guard is None:
        return frame
    guard = change(guard)

    def read(frame: bytes) -> Request:
        return read_request(schemas, frame, spans=guard.cut + guard.blanked)

    return _guarded(guard, read, frame, _REQUEST_LEAD)


def _kept_of_response(schemas: Schemas, record: Record, change: Callable[[Guard], Guard]) -> bytes:
    frame, api = record.frame, _paired_api(schemas, record)
    if api is None:
        return frame[:_RESPONSE_LEAD]
    guard = GUARDED_RESPONSES.get(api.name)
    if guard is None:
        return frame
    guard = change(guard)
    key, version, spans = api.key, record.paired_api_version, guard.cut + guard.blanked

    def read(frame: bytes) -> Response:
        return read_response(schemas, frame, key, version, spans=spans)

    return _guarded(guard, read, frame, _RESPONSE_LEAD)


def _paired_api(schemas: Schemas, record: Record) -> Api | None:
    return schemas.api(record.paired_api_key) if record.pairing is Pairing.MATCHED else None


def _guarded(guard: Guard, read: _Read, frame: bytes, lead: int) -> bytes:
    """Cut and blank a frame. `read` reads it as a whole one and notes the spans of its guarded fields."""
    found = read(frame)
    if not found.known:
        return frame[:lead]
    if found.failure is not None:
        frame = _with_same_failure(read, frame, found.failure)
    payloads = [begin for path in guard.cut for begin, end in found.spans.get(path, ()) if begin < end]
    frame = frame[: min(payloads, default=len(frame))]
    blanked = [span for path in guard.blanked for span in found.spans.get(path, ())]
    behind = [
        (remark.offset, len(frame)) for remark in found.remarks if remark.oddity is Oddity.TRAILING_BYTES
    ]
    return _blanked(frame, blanked + behind)


def _with_same_failure(read: _Read, frame: bytes, failure: DecodeFailure) -> bytes:
    """Blank everything after a failure, except the bytes that cause it: a length, at most.

    A guarded field may begin at the failure, with only its end missing.
    """
    for kept in range(failure.offset, failure.offset + _LONGEST_LENGTH + 1):
        candidate = frame[:kept].ljust(len(frame), b"\0")
        again = read(candidate).failure
        if again is not None and _same(again, failure):
            return candidate
    return frame[: failure.offset]


def _same(left: DecodeFailure, right: DecodeFailure) -> bool:
    return (left.reason, left.path, left.offset) == (right.reason, right.path, right.offset)


def _blanked(frame: bytes, spans: list[tuple[int, int]]) -> bytes:
    blanked = bytearray(frame)
    for begin, end in spans:
        blanked[begin:end] = bytes(max(0, min(end, len(frame)) - begin))
    return bytes(blanked)
