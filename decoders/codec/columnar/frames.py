"""Input and output of the columnar reader: frames, and their heads, wanted fields and remarks.

The reader returns a head for each frame, and a row for each value of a wanted field and each remark. Defects,
oddities, layouts and paths are numbers in these, because compiled code writes them.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from decoders.schema.model import Field, Message, Struct
from decoders.schema.registry import Schemas

# `failure_reason` in a head: the number of a Defect.
NO_FAILURE: Final = -1
TRUNCATED: Final = 0
NULL_NOT_ALLOWED: Final = 1
INVALID_LENGTH: Final = 2
INVALID_TAG: Final = 3
INVALID_VARINT: Final = 4

# The number of an Oddity in a remark.
TRAILING_BYTES: Final = 0
TAG_SIZE_MISMATCH: Final = 1
TAG_ORDER: Final = 2
OVERLONG_VARINT: Final = 3
NEGATIVE_LENGTH: Final = 4
INVALID_UTF8: Final = 5

# `layout` in a head: the number of a Layout.
NO_LAYOUT: Final = -1
PLAIN_LAYOUT: Final = 0
TAGGED_LAYOUT: Final = 1

LEAD_PATHS: Final = ("", "header.requestApiKey", "header.requestApiVersion", "header.correlationId")
"""The first paths by number: of the frame itself, then of the fields in the lead of a request."""
FRAME_PATH: Final = 0
FIRST_LEAD_PATH: Final = 1

HEAD: Final = np.dtype(
    [
        ("client_id_begin", np.int64),
        ("client_instance_id_begin", np.int64),
        ("correlation_id", np.int32),
        ("client_id_length", np.int32),
        ("failure_path", np.int32),
        ("failure_offset", np.int32),
        ("api_key", np.int16),
        ("api_version", np.int16),
        ("body_version", np.int16),
        ("header_version", np.int8),
        ("failure_reason", np.int8),
        ("layout", np.int8),
        ("has_correlation_id", np.bool_),
        ("has_unknown_header_tags", np.bool_),
        ("has_odd_header", np.bool_),
        ("has_body", np.bool_),
        ("known", np.bool_),
    ],
    align=True,
)
"""The head of a frame. -1 marks an absent value. Any correlation ID is valid, so `has_correlation_id` says
whether there is one.

Begins are indexes into the data of all frames, `failure_offset` counts from the beginning of the frame.
`failure_path` is the number of a path. Proofs of the KIP-1313 overlay need `has_unknown_header_tags` and
`has_odd_header`, which says that the header has a remark."""

LENGTH: Final = "[]"
"""Ends the path of an array whose length is wanted, instead of its elements."""
NULL_LENGTH: Final = -1
"""The length of an array that is null."""


@dataclass(frozen=True, slots=True)
class Frames:
    """A column of frames: the place of each in `data`, and what is known of it.

    `data` (uint8) holds the frames without their length prefixes, in any order and with anything between
    them. `begins` (int64) and `lengths` (int32, in bytes) are the place of each frame. `is_cut` (bool) says
    that its tail is missing, `is_request` (bool) that it is a request. `paired_keys` and `paired_versions`
    (int16) are the API key and version of the request that a response belongs to; those of requests are
    ignored. All but `data` have one element for each frame.
    """

    data: npt.NDArray[np.uint8]
    begins: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    is_cut: npt.NDArray[np.bool_]
    is_request: npt.NDArray[np.bool_]
    paired_keys: npt.NDArray[np.int16]
    paired_versions: npt.NDArray[np.int16]

    def __post_init__(self) -> None:
        """Raise ValueError for places outside the data: compiled code would read there."""
        ends = self.begins + self.lengths
        if len(self.begins) and (
            self.begins.min() < 0 or self.lengths.min() < 0 or ends.max() > len(self.data)
        ):
            raise ValueError("a frame lies outside the data")

    def __len__(self) -> int:
        return len(self.begins)


class ValueType(enum.Enum):
    """The type of a column's values in `DecodedFrames.found`."""

    INTEGER = enum.auto()
    BOOLEAN = enum.auto()
    FLOAT = enum.auto()
    """The 64 bits of the number, as an integer."""
    UUID = enum.auto()
    """The place of its 16 bytes, as that of BYTES."""
    BYTES = enum.auto()
    """The place of a string, bytes or records in the frame."""


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """One wanted column.

    `requests` and `responses` give the path of the field that it takes from each API, by key.
    """

    name: str
    type: ValueType
    requests: Mapping[int, str]
    responses: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class DecodedFrames:
    """A column of frames as read. No content is copied: places are indexes into `frames.data`.

    - `heads` (HEAD) has one element for each frame, in their order.
    - `found` (int64) has a row for each value of a wanted field, in wire order: number of the frame, number
      of the column, and either begin and length of the content in bytes, or a number and 0. A float is given
      as the integer of its bits, the length of an array as NULL_LENGTH if it is null. Any other null has no
      row, nor have the fields of a frame that was not read whole.
    - `remarks` (int64) has a row for each remark, in wire order: number of the frame, number of the
      oddity, number of the path, offset in the frame.

    `columns` are the wanted columns and `paths` the paths of fields, both by number.
    """

    frames: Frames
    heads: npt.NDArray[np.void]
    found: npt.NDArray[np.int64]
    remarks: npt.NDArray[np.int64]
    columns: tuple[FieldColumn, ...]
    paths: tuple[str, ...]


def columns_of(schemas: Schemas, wanted: Mapping[str, Collection[str]]) -> tuple[FieldColumn, ...]:
    """Make columns by the names of their fields: `Message.path.to.field`.

    `Message.path.to.array[]` is the length of an array. A column may take one field from each of several
    messages. Raises ValueError for a field that no version of the schemas has, for a struct, for a field that
    is wanted twice, and for fields whose values have different types.
    """
    counts = Counter(field for fields in wanted.values() for field in fields)
    for field, count in counts.items():
        if count > 1:
            raise ValueError(f"{field} is wanted twice")
    messages = {message.name: message for api in schemas.apis for message in (api.request, api.response)}
    return tuple(_column(messages, name, fields) for name, fields in wanted.items())


def _column(messages: Mapping[str, Message], name: str, fields: Collection[str]) -> FieldColumn:
    paths: dict[str, dict[int, str]] = {"request": {}, "response": {}}
    types = {_type_of(messages, field) for field in fields}
    for field in fields:
        owner, _, path = field.partition(".")
        message = messages[owner]
        assert message.api_key is not None  # every request and response has one
        if message.api_key in paths[message.kind]:
            raise ValueError(f"column {name}: two fields of {owner}")
        paths[message.kind][message.api_key] = path
    if len(types) != 1:
        raise ValueError(f"column {name}: its fields are not of one type")
    return FieldColumn(name, types.pop(), paths["request"], paths["response"])


def _type_of(messages: Mapping[str, Message], full_name: str) -> ValueType:
    found = _field(messages, full_name.removesuffix(LENGTH))
    if full_name.endswith(LENGTH):
        if not found.is_array:
            raise ValueError(f"{full_name}: the field is no array")
        return ValueType.INTEGER
    if found.struct is not None:
        raise ValueError(f"{full_name} is a struct: name its fields")
    return _VALUE_TYPES.get(found.type, ValueType.INTEGER)


def _field(messages: Mapping[str, Message], full_name: str) -> Field:
    """Find a field by its message and path."""
    message, *names = full_name.split(".")
    struct: Struct | None = messages[message].struct if message in messages else None
    found: Field | None = None
    for name in names:
        fields = struct.fields if struct else ()
        found = next((field for field in fields if field.name == name), None)
        struct = found.struct if found else None
    if found is None:
        raise ValueError(f"no message has the field {full_name}")
    return found


_VALUE_TYPES = {
    "bool": ValueType.BOOLEAN,
    "float64": ValueType.FLOAT,
    "uuid": ValueType.UUID,
    "string": ValueType.BYTES,
    "bytes": ValueType.BYTES,
    "records": ValueType.BYTES,
}
"""The types of columns, by those of fields. All other fields are integers."""
