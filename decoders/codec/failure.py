"""Defects: bytes that cannot be decoded; oddities of bytes that can; values that cannot be encoded."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Defect(enum.StrEnum):
    """Why a frame cannot be decoded. The readers of Kafka 4.4.0 refuse all of these."""

    TRUNCATED = "truncated"
    """The frame ends before the field does, or a length exceeds what is left of it."""
    NULL_NOT_ALLOWED = "null-not-allowed"
    INVALID_LENGTH = "invalid-length"
    """A string longer than 32767 bytes, or a negative number of tagged fields or size of one."""
    INVALID_TAG = "invalid-tag"
    """A tagged field that the schema knows, but not at this version."""
    INVALID_VARINT = "invalid-varint"
    """An unsigned varint of more than five bytes."""
    NEGATIVE_VERSION = "negative-version"
    """An API version below 0, which no release has or will have."""


class Oddity(enum.StrEnum):
    """A deviation that Kafka's readers accept and its writers never make."""

    TRAILING_BYTES = "trailing-bytes"
    """Bytes are left after the body."""
    TAG_SIZE_MISMATCH = "tag-size-mismatch"
    """A tagged field is longer or shorter than its stated size."""
    TAG_ORDER = "tag-order"
    """Tags that repeat or do not ascend."""
    OVERLONG_VARINT = "overlong-varint"
    """An unsigned varint with more bytes than its value needs, or with bits beyond the 32nd."""
    NEGATIVE_LENGTH = "negative-length"
    """A length below -1, which is read as null."""
    INVALID_UTF8 = "invalid-utf8"
    """A string that is not UTF-8; each invalid sequence is read as U+FFFD."""


@dataclass(frozen=True, slots=True)
class Remark:
    """An oddity, with the field (`path`, "" for the frame) and the byte offset in the frame."""

    oddity: Oddity
    path: str
    offset: int


class DecodeFailure(Exception):  # noqa: N818 - a property of a frame, not an error of the program
    """Bytes that cannot be decoded.

    `path` names the field as Kafka's JSON does, without indexes: `topics.partitions.index`, or
    `topics` for the length of the array itself. `offset` is the byte offset in the frame where the
    part that cannot be read begins.
    """

    def __init__(self, reason: Defect, path: str, offset: int) -> None:
        super().__init__(f"{reason.value} at {path or 'the frame'}, byte {offset}")
        self.reason, self.path, self.offset = reason, path, offset

    def __reduce__(self) -> tuple[type[DecodeFailure], tuple[Defect, str, int]]:
        return DecodeFailure, (self.reason, self.path, self.offset)


class EncodeError(ValueError):
    """A value that a message cannot carry: the field's path and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'message'}: {reason}")
        self.path, self.reason = path, reason
