"""Frames of KIP-1313, spliced from frames that Kafka wrote, without any encoder of ours.

A request on header 3 is one on header 2 with another version number and the instance ID put in: in the
plain layout 16 bytes between client ID and tagged fields, in the tagged one the header's one tagged field.
"""

from __future__ import annotations

import struct
from io import BytesIO

_KEY_AND_VERSION = struct.Struct(">hh")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
NO_TAGS = b"\0"
_INSTANCE_ID_TAG = bytes([1, 0, 16])
"""One tagged field, its tag 0, its size 16."""


def header_3(header_2: bytes, key: int, version: int, instance_id: bytes) -> bytes:
    """Splice a header 3 in the plain layout, with the tagged fields of the header 2."""
    tags = end_of_client_id(header_2)
    return _begun(header_2, key, version) + instance_id + header_2[tags:]


def tagged_header_3(header_2: bytes, key: int, version: int, instance_id: bytes) -> bytes:
    """Splice a header 3 in the tagged layout; other tagged fields are left out."""
    return _begun(header_2, key, version) + _INSTANCE_ID_TAG + instance_id


def has_tags(header_2: bytes) -> bool:
    """Whether a request header has tagged fields."""
    return header_2[end_of_client_id(header_2)] > 0


def _begun(header_2: bytes, key: int, version: int) -> bytes:
    end = end_of_client_id(header_2)
    return _KEY_AND_VERSION.pack(key, version) + header_2[_KEY_AND_VERSION.size : end]


def end_of_client_id(header: bytes) -> int:
    """Return the offset behind the client ID in a request header."""
    (size,) = _INT16.unpack_from(header, 8)
    return 10 + max(int(size), 0)


def without(body: bytes, begin: int) -> bytes:
    """Cut the 16 bytes of an ID out of a body."""
    return body[:begin] + body[begin + 16 :]


def flexible_offset_delete_request(body: bytes) -> bytes:
    """Convert the body of an OffsetDelete v0 request to the lengths and tags of a flexible version."""
    old = BytesIO(body)
    new = _string(old)
    topics = _int32(old)
    new += _varint(topics + 1)
    for _ in range(topics):
        new += _string(old)
        new += _partitions(old, 4) + NO_TAGS
    return new + NO_TAGS


def flexible_offset_delete_response(body: bytes) -> bytes:
    """Convert the body of a response in the same way: error code and throttle time come first."""
    old = BytesIO(body)
    new = old.read(2 + 4)
    topics = _int32(old)
    new += _varint(topics + 1)
    for _ in range(topics):
        new += _string(old)
        new += _partitions(old, 4 + 2) + NO_TAGS
    return new + NO_TAGS


def _partitions(old: BytesIO, size: int) -> bytes:
    count = _int32(old)
    return _varint(count + 1) + b"".join(old.read(size) + NO_TAGS for _ in range(count))


def _string(old: BytesIO) -> bytes:
    (size,) = _INT16.unpack(old.read(2))
    return _varint(size + 1) + old.read(size)


def _int32(old: BytesIO) -> int:
    (value,) = _INT32.unpack(old.read(4))
    return int(value)


def _varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])
