"""Reads frames as columns, and decides which of them the scalar code must decode.

For most frames the columns hold all that a statement needs: header, error codes, and, of the bodies that
members and ApiVersions requests send, up to three texts, a number and a few bits (the *form*). A frame that
is malformed, or whose body has more that rules read, is left to the scalar code.

The TRAITS and TEXTS of a frame decide its statement. Frames that are equal in both make equal statements, so
only one of them is looked at (`statement_cache.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.acknowledgement import UNDECIDED, expected_responses, produce_layouts
from decoders.codec.columnar.frames import (
    LENGTH,
    NULL_LENGTH,
    DecodedFrames,
    Frames,
)
from decoders.codec.columnar.reader import ColumnarReader
from decoders.compilation import compiled, inlined
from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, HEARTBEAT_APIS, REQUEST_LEAD, RESPONSE_LEAD
from decoders.schema.registry import Api, Schemas
from decoders.wire.columnar.frames import FrameBatch
from expectations.conversation.bodies import LONGEST_OWN_MEMBER_ID
from expectations.conversation.body_reader import (
    COMMITS,
    MEMBER_REQUESTS,
    NO_TIMEOUT,
    REQUESTS_WITH_BODY,
    RESPONSES_WITH_BODY,
)
from expectations.conversation.statement_reader import error_code_paths, has_tagged_error_code
from expectations.conversation.texts import UUID_BYTES

MOST_ERROR_CODES: Final = 8
"""Distinct error codes of a response that its traits hold."""

TRAITS: Final = np.dtype(
    [
        ("error_codes", np.int16, MOST_ERROR_CODES),
        ("number", np.int32),
        ("api_key", np.int16),
        ("api_version", np.int16),
        ("kind", "u1"),
        ("direction", "u1"),
        ("pairing", "u1"),
        ("flags", "u1"),
        ("header_version", "i1"),
        ("layout", "u1"),
        ("has_body", "u1"),
        ("is_cut", "u1"),
        ("has_instance_id", "u1"),
        ("expects_response", "i1"),
        ("error_code_count", "u1"),
        ("form", "u1"),
        ("server", np.int32),
    ]
)
"""The columns in which frames with equal statements agree, besides their texts (TEXTS).

`error_codes` are distinct and ascending; a count above MOST_ERROR_CODES means that some are missing. `number`
is the member epoch of a heartbeat, the interval of its response, or the node ID of an ApiVersions request;
`form` has bits of what else is read of a heartbeat. For a frame that the scalar code reads, `number` is its
length and `server` a number of its server.
All bytes are compared as words, so the fields fill words of eight bytes.
"""
WORDS: Final = TRAITS.itemsize // 8

TEXTS: Final = ("client_id", "instance_id", "first", "second", "third")
"""The texts of a frame: those of its header, then those of its body. A group ID is `first`, a member ID
`second`; an ApiVersions request names its software, the version of that, and the cluster."""
TEXT: Final[Mapping[str, int]] = {name: number for number, name in enumerate(TEXTS)}
_BODY_TEXTS: Final = 2 * TEXT["first"]
_SOFTWARE: Final = {
    "first": "clientSoftwareName",
    "second": "clientSoftwareVersion",
    "third": "clusterId",
    "number": "nodeId",
}
_IN_REQUEST: Final = {
    "first": "groupId",
    "second": "memberId",
    "number": "memberEpoch",
    "static_id": "instanceId",
    "rack_id": "rackId",
    "topics": "subscribedTopicNames" + LENGTH,
    "regex": "subscribedTopicRegex",
    "partitions": "topicPartitions" + LENGTH,
    "timeout": "rebalanceTimeoutMs",
}
_IN_RESPONSE: Final = {"second": "memberId", "number": "heartbeatIntervalMs"}
_ROLES: Final = tuple(dict.fromkeys((*_SOFTWARE, *_IN_REQUEST)))
_FIRST: Final = _ROLES.index("first")
_NUMBER: Final = _ROLES.index("number")
_STATIC_ID: Final = _ROLES.index("static_id")
_RACK_ID: Final = _ROLES.index("rack_id")
_TOPICS: Final = _ROLES.index("topics")
_REGEX: Final = _ROLES.index("regex")
_PARTITIONS: Final = _ROLES.index("partitions")
_TIMEOUT: Final = _ROLES.index("timeout")
_NO_ROLE: Final = -1

# The bits of a form: what `body_reader.is_well_formed` asks, apart from the epoch.
_HAS_BLANK: Final = 1
_HAS_STATIC_ID: Final = 2
_HAS_TOPICS: Final = 4
_NAMES_TOPICS: Final = 8
_HAS_REGEX: Final = 16
_OWNS_NOTHING: Final = 32
_HAS_TIMEOUT: Final = 64
_BODY: Final = slice(_BODY_TEXTS, None)
_MEMBER_LENGTH: Final = 2 * TEXT["second"] + 1


class ReadFrames(NamedTuple):
    """The columns of a batch of frames, from which their statements follow.

    `traits` (TRAITS) has a row per frame. So has `texts` (int64), where each of TEXTS has a column for its
    begin in the data and one for its length, -1 if it is missing. Frames that are `complete` (bool) have all
    of their statement in these columns. The scalar code reads all others; everything behind their correlation
    ID is their text `first`.
    """

    decoded: DecodedFrames
    traits: NDArray[np.void]
    texts: NDArray[np.int64]
    complete: NDArray[np.bool_]


class ObservationReader:
    """Reads the columns that statements are made of."""

    def __init__(self, schemas: Schemas) -> None:
        wanted = _error_columns(schemas)
        self._error_columns = len(wanted)
        wanted |= body_columns(schemas)
        self._roles = roles_of(list(wanted))
        self._reads_software = reads_software(schemas)
        self._reader = ColumnarReader(schemas, wanted)
        self._produce_layouts = produce_layouts(schemas)
        tagged = [api.key for api in schemas.apis if has_tagged_error_code(api.response.struct)]
        self._responses_with_body = np.array([*RESPONSES_WITH_BODY, *tagged], np.int16)

    def read(self, batch: FrameBatch) -> ReadFrames:
        """Read the frames of a batch; its events have no columns."""
        columns = batch.frames
        frames = Frames(
            batch.data,
            columns.starts,
            columns.lengths.astype(np.int32),
            columns.true_lengths > columns.lengths,
            columns.kinds == Kind.REQUEST,
            columns.paired_api_keys,
            columns.paired_api_versions,
        )
        decoded = self._reader.read(frames)
        traits, texts = self._traits(batch, decoded), _header_texts(decoded)
        gather_body_fields(batch.data, decoded.found, self._roles, traits, texts)
        _remove_members_of_coordinators(traits, texts)
        complete = self._complete(decoded, traits)
        _take_whole(decoded, traits, texts, np.flatnonzero(~complete))
        return ReadFrames(decoded, traits, texts, complete)

    def _traits(self, batch: FrameBatch, decoded: DecodedFrames) -> NDArray[np.void]:
        columns, heads = batch.frames, decoded.heads
        traits = np.zeros(len(decoded.frames), TRAITS)
        for name in ("api_key", "api_version", "header_version", "layout", "has_body"):
            traits[name] = heads[name]
        traits["kind"], traits["direction"] = columns.kinds, columns.directions
        traits["pairing"], traits["flags"] = columns.pairings, columns.flags
        traits["is_cut"] = decoded.frames.is_cut
        traits["has_instance_id"] = heads["client_instance_id_begin"] >= 0
        traits["expects_response"] = expected_responses(decoded, self._produce_layouts)
        gather_error_codes(decoded.found, self._error_columns, traits)
        return traits

    def _complete(self, decoded: DecodedFrames, traits: NDArray[np.void]) -> NDArray[np.bool_]:
        """Return which frames were read whole, with all that rules read of their bodies."""
        heads, is_request = decoded.heads, decoded.frames.is_request
        keys = heads["api_key"]
        whole = heads["known"] & heads["has_correlation_id"] & (heads["failure_reason"] < 0)
        whole &= traits["error_code_count"] <= MOST_ERROR_CODES
        whole &= traits["expects_response"] != UNDECIDED
        whole &= ~heads["has_unknown_header_tags"]
        whole[decoded.remarks[:, 0]] = False
        has_body = np.where(
            is_request, np.isin(keys, REQUESTS_WITH_BODY), np.isin(keys, self._responses_with_body)
        )
        in_columns = np.isin(keys, list(HEARTBEAT_APIS))
        in_columns |= is_request & (keys == API_VERSIONS) & self._reads_software
        # A response with one error code has it at the top level of its body.
        in_columns &= heads["has_body"] & (traits["error_code_count"] <= 1)
        complete: NDArray[np.bool_] = whole & (~has_body | in_columns)
        return complete


def _header_texts(decoded: DecodedFrames) -> NDArray[np.int64]:
    heads = decoded.heads
    texts = np.full((len(decoded.frames), 2 * len(TEXTS)), -1, np.int64)
    texts[:, 0], texts[:, 1] = heads["client_id_begin"], heads["client_id_length"]
    texts[:, 2] = heads["client_instance_id_begin"]
    texts[:, 3] = np.where(texts[:, 2] < 0, -1, UUID_BYTES)
    return texts


def _remove_members_of_coordinators(traits: NDArray[np.void], texts: NDArray[np.int64]) -> None:
    """Remove group and member from requests without a member ID, or with one that a coordinator made."""
    keys, lengths = traits["api_key"], texts[:, _MEMBER_LENGTH]
    is_own = (lengths > 0) & (~np.isin(keys, COMMITS) | (lengths <= LONGEST_OWN_MEMBER_ID))
    texts[~is_own & np.isin(keys, MEMBER_REQUESTS), _BODY] = -1


def _take_whole(
    decoded: DecodedFrames, traits: NDArray[np.void], texts: NDArray[np.int64], numbers: NDArray[np.int64]
) -> None:
    """Lay out all bytes of frames but the correlation ID in their traits and texts."""
    frames = decoded.frames
    lengths = frames.lengths[numbers].astype(np.int64)
    leads = np.where(frames.is_request[numbers], REQUEST_LEAD, RESPONSE_LEAD)
    # What precedes the correlation ID of a request is part of the traits.
    skipped = np.where(lengths >= leads, leads, 0)
    texts[numbers] = -1
    texts[numbers, _BODY_TEXTS], texts[numbers, _BODY_TEXTS + 1] = (
        frames.begins[numbers] + skipped,
        lengths - skipped,
    )
    traits["number"][numbers], traits["form"][numbers] = lengths, 0


def _error_columns(schemas: Schemas) -> dict[str, list[str]]:
    """List the error code fields of all responses by column; a column holds one field of each message."""
    wanted: dict[str, list[str]] = {}
    for api in schemas.apis:
        for number, path in enumerate(error_code_paths(api.response.struct)):
            wanted.setdefault(f"error_code_{number}", []).append(f"{api.response.name}.{path}")
    return wanted


@compiled(None)
def gather_error_codes(found: Any, columns: int, traits: Any) -> None:
    """Insert the distinct values of the first `columns` columns into the traits of their frames, sorted."""
    for row in range(len(found)):
        if found[row, 1] >= columns:
            continue
        trait, code = traits[found[row, 0]], np.int16(found[row, 2])
        count = trait.error_code_count
        at = np.int64(0)
        while at < min(count, MOST_ERROR_CODES) and trait.error_codes[at] < code:
            at += 1
        if at < min(count, MOST_ERROR_CODES) and trait.error_codes[at] == code:
            continue
        if count >= MOST_ERROR_CODES:
            trait.error_code_count = MOST_ERROR_CODES + 1
            continue
        for later in range(count, at, -1):
            trait.error_codes[later] = trait.error_codes[later - 1]
        trait.error_codes[at] = code
        trait.error_code_count = count + 1


def reads_software(schemas: Schemas) -> bool:
    """Whether the schemas have all fields of an ApiVersions request that columns hold."""
    api = schemas.api(API_VERSIONS)
    return api is not None and set(_SOFTWARE.values()) <= {field.name for field in api.request.struct.fields}


def body_columns(schemas: Schemas) -> dict[str, list[str]]:
    """Return the fields to read as columns; the name of a column is its role."""
    wanted: dict[str, list[str]] = {}
    for role, field in _fields(schemas):
        wanted.setdefault(role, []).append(field)
    return wanted


def roles_of(columns: Sequence[str]) -> NDArray[np.int64]:
    """Return the role of each column as `gather_body_fields` expects it, given their names."""
    return np.array([_ROLES.index(name) if name in _ROLES else _NO_ROLE for name in columns], np.int64)


def _fields(schemas: Schemas) -> Iterator[tuple[str, str]]:
    for key in HEARTBEAT_APIS:
        if (api := schemas.api(key)) is not None:
            yield from _present(api, "Request", _IN_REQUEST)
            yield from _present(api, "Response", _IN_RESPONSE)
    for key in MEMBER_REQUESTS:
        if (api := schemas.api(key)) is not None:
            yield from _present(api, "Request", {role: _IN_REQUEST[role] for role in ("first", "second")})
    if (api := schemas.api(API_VERSIONS)) is not None and reads_software(schemas):
        yield from _present(api, "Request", _SOFTWARE)


def _present(api: Api, kind: str, fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    struct = (api.request if kind == "Request" else api.response).struct
    present = {field.name for field in struct.fields}
    return (
        (role, f"{api.name}{kind}.{field}")
        for role, field in fields.items()
        if field.removesuffix(LENGTH) in present
    )


@inlined
def _is_blank(data: Any, begin: Any, length: Any) -> Any:
    """Whether a text in UTF-8 is blank, see `texts.is_blank`."""
    at = np.int64(0)
    while at < length and data[begin + at] <= ord(" "):
        at += 1
    return at >= length


@inlined
def _form(data: Any, role: Any, value: Any, length: Any) -> Any:
    """Return the bits of a field; its value is a number, or the begin of a text of this length."""
    bits = np.int64(0)
    if role in (_FIRST, _STATIC_ID, _RACK_ID) and _is_blank(data, value, length):
        bits |= _HAS_BLANK
    if role == _STATIC_ID:
        bits |= _HAS_STATIC_ID
    if role == _TOPICS and value != NULL_LENGTH:
        bits |= _HAS_TOPICS
    if role == _TOPICS and value > 0:
        bits |= _NAMES_TOPICS
    if role == _REGEX:
        bits |= _HAS_REGEX
    if role == _PARTITIONS and value == 0:
        bits |= _OWNS_NOTHING
    if role == _TIMEOUT and value != NO_TIMEOUT:
        bits |= _HAS_TIMEOUT
    return bits


@compiled(None)
def gather_body_fields(data: Any, found: Any, roles: Any, traits: Any, texts: Any) -> None:
    """Insert what was found in bodies into the traits and the texts of their frames."""
    for row in range(len(found)):
        role = roles[found[row, 1]]
        if role == _NO_ROLE:
            continue
        frame, value, length = found[row, 0], found[row, 2], found[row, 3]
        traits[frame].form |= _form(data, role, value, length)
        if role == _NUMBER:
            traits[frame].number = value
        elif role < _NUMBER:
            texts[frame, _BODY_TEXTS + 2 * role] = value
            texts[frame, _BODY_TEXTS + 2 * role + 1] = length
