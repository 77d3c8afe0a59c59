"""The scalar reader: bytes → dict. This simple code defines what is right; the columnar reader follows it.

The dict is what Kafka's own `*JsonConverter` classes print: lowerCamel names, a UUID as 22 characters of
unpadded base64url, bytes as padded base64, without the fields that the version lacks and without tagged
fields that have their default. It has more in two cases: records are base64, not their size, and tagged
fields that the schema does not know are under `_taggedFields`.

What Kafka's readers accept is read as they read it, with a `Remark` if it is odd; what they refuse is a
`DecodeFailure`. Nothing else is raised, whatever the bytes. A length is compared with the bytes that are left
before anything is allocated. Recursion is as deep as the schema.
"""

from __future__ import annotations

import re
import struct
from binascii import b2a_base64
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from decoders.codec.failure import DecodeFailure, Defect, Oddity, Remark
from decoders.codec.program import (
    HIGHEST_STRING_LENGTH,
    NUMBERS,
    UNKNOWN_TAGS,
    FieldKind,
    Instruction,
    Program,
)

Spans = dict[str, list[tuple[int, int]]]
"""For each requested path, where the contents of its fields begin and end in the frame."""

_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Java reads an encoded surrogate as one replacement character, Python as one for each byte."""
_REPLACEMENT: Final = "\ufffd".encode()
_INT16: Final = NUMBERS[FieldKind.INT16]
_INT32: Final = NUMBERS[FieldKind.INT32]


@dataclass(frozen=True, slots=True)
class Reading:
    """One attempt to read a frame as a header and a body.

    `header` holds the header fields that were read, all of them if `has_header`. `body` is None unless it was
    read whole. `failure` says why reading ended early; the end of a cut frame is not a failure. `is_exact`
    says that header and body end at the last byte of the frame.
    """

    header: dict[str, Any]
    has_header: bool
    body: dict[str, Any] | None
    remarks: tuple[Remark, ...]
    spans: Spans
    failure: DecodeFailure | None
    is_exact: bool


def read_frame(
    frame: bytes, header: Program, body: Program | None, cut: bool, spans: Collection[str]
) -> Reading:
    """Read a frame without its length prefix; if `body` is None, only the header.

    `cut` says that the frame's tail is missing. Raises nothing, whatever the bytes.
    """
    reader = Reader(frame, spans)
    fields: dict[str, Any] = {}
    content: dict[str, Any] | None = None
    has_header, failure = False, None
    try:
        reader.fill(header, fields)
        has_header = True
        content = reader.fill(body, {}) if body else None
    except DecodeFailure as found:
        failure = None if cut and found.reason is Defect.TRUNCATED else found
    is_exact = content is not None and reader.is_exhausted
    if content is not None and not is_exact and not cut:
        reader.remark(Oddity.TRAILING_BYTES, "", reader.position)
    return Reading(fields, has_header, content, reader.remarks, reader.spans, failure, is_exact)


class Reader:
    """Reads structs from a frame, one after the other.

    `position` is the offset of the next byte, `remarks` are the oddities so far, each once for a path.
    `spans` are collected for the given paths, which must name fields that are not structs, or the unknown
    tags of a struct; an array has one span for each element. A span excludes the length before a string,
    bytes or records; null has none.
    """

    __slots__ = ("_remarks", "data", "position", "read", "spans")

    def __init__(self, data: bytes, spans: Collection[str] = ()) -> None:
        self.data = data
        self.position = 0
        self.spans: Spans = {path: [] for path in spans}
        self.read = _MARK if self.spans else _READ
        self._remarks: dict[tuple[Oddity, str], Remark] = {}

    @property
    def remarks(self) -> tuple[Remark, ...]:
        return tuple(self._remarks.values())

    @property
    def is_exhausted(self) -> bool:
        """Whether the position is behind the last byte."""
        return self.position == len(self.data)

    def remark(self, oddity: Oddity, path: str, offset: int) -> None:
        """Record an oddity, once for each path."""
        self._remarks.setdefault((oddity, path), Remark(oddity, path, offset))

    def fill(self, program: Program, values: dict[str, Any]) -> dict[str, Any]:
        """Read a struct into `values`, which keeps what was read if a later field fails."""
        read = self.read
        for instruction in program.fields:
            values[instruction.name] = read[instruction.kind](self, instruction)
        if program.flexible:
            self._tags(program, values)
        return values

    def varint(self, path: str) -> int:
        """Read an unsigned varint as Kafka does: into an int32, which may become negative."""
        start = self.position
        encoded = self.data[start : start + 5]
        if encoded and encoded[0] < 0x80:
            self.position = start + 1
            return encoded[0]
        value = 0
        for offset, byte in enumerate(encoded):
            value |= (byte & 0x7F) << (7 * offset)
            if byte < 0x80:
                self.position = start + offset + 1
                if byte == 0 or value > 0xFFFFFFFF:
                    self.remark(Oddity.OVERLONG_VARINT, path, start)
                return _signed(value)
        raise DecodeFailure(Defect.INVALID_VARINT if len(encoded) == 5 else Defect.TRUNCATED, path, start)

    def take(self, size: int, path: str, start: int) -> bytes:
        """Read `size` bytes of a field that begins at `start`."""
        end = self.position + size
        if end > len(self.data):
            raise DecodeFailure(Defect.TRUNCATED, path, start)
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def _tags(self, program: Program, values: dict[str, Any]) -> None:
        start, path = self.position, program.tags_path
        count = self.varint(path)
        if count < 0:
            raise DecodeFailure(Defect.INVALID_LENGTH, path, start)
        previous = -1
        for _ in range(count):
            start = self.position
            tag, size = self.varint(path), self.varint(path)
            if tag <= previous:
                self.remark(Oddity.TAG_ORDER, path, start)
            previous = tag
            if tag in program.foreign_tags:
                raise DecodeFailure(Defect.INVALID_TAG, path, start)
            instruction = program.tagged.get(tag)
            if instruction is None:
                self._unknown_tag(tag, size, path, start, values)
            else:
                self._known_tag(instruction, size, values)

    def _unknown_tag(self, tag: int, size: int, path: str, start: int, values: dict[str, Any]) -> None:
        if size < 0:
            raise DecodeFailure(Defect.INVALID_LENGTH, path, start)
        data = _base64(self.take(size, path, start))
        if path in self.spans:
            self.spans[path].append((self.position - size, self.position))
        values.setdefault(UNKNOWN_TAGS, []).append({"tag": tag, "data": data})

    def _known_tag(self, instruction: Instruction, size: int, values: dict[str, Any]) -> None:
        start = self.position
        value = self.read[instruction.kind](self, instruction)
        if self.position != start + size:
            self.remark(Oddity.TAG_SIZE_MISMATCH, instruction.path, start)
        if value == instruction.default:
            values.pop(instruction.name, None)
        else:
            values[instruction.name] = value


_Read = Callable[[Reader, Instruction], Any]


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - 0x100000000 if value > 0x7FFFFFFF else value


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _length(reader: Reader, instruction: Instruction, layout: struct.Struct) -> int:
    """Read the length of a string, bytes, records or an array: -1 for a null that is allowed."""
    start = reader.position
    if instruction.compact:
        length = _signed(reader.varint(instruction.path) - 1)
    else:
        (length,) = layout.unpack(reader.take(layout.size, instruction.path, start))
    if length >= 0:
        return int(length)
    if not instruction.nullable:
        raise DecodeFailure(Defect.NULL_NOT_ALLOWED, instruction.path, start)
    if length < -1:
        reader.remark(Oddity.NEGATIVE_LENGTH, instruction.path, start)
    return -1


def _number(layout: struct.Struct) -> _Read:
    unpack, size = layout.unpack_from, layout.size

    def read(reader: Reader, instruction: Instruction) -> Any:
        start = reader.position
        try:
            (value,) = unpack(reader.data, start)
        except struct.error:
            raise DecodeFailure(Defect.TRUNCATED, instruction.path, start) from None
        reader.position = start + size
        return value

    return read


def _uuid(reader: Reader, instruction: Instruction) -> str:
    content = reader.take(16, instruction.path, reader.position)
    return b2a_base64(content, newline=False)[:22].translate(_URL_SAFE).decode("ascii")


def _string(reader: Reader, instruction: Instruction) -> str | None:
    start = reader.position
    length = _length(reader, instruction, _INT16)
    if length < 0:
        return None
    if length > HIGHEST_STRING_LENGTH:
        raise DecodeFailure(Defect.INVALID_LENGTH, instruction.path, start)
    content = reader.take(length, instruction.path, start)
    try:
        return content.decode()
    except UnicodeDecodeError:
        reader.remark(Oddity.INVALID_UTF8, instruction.path, start)
        return _SURROGATE.sub(_REPLACEMENT, content).decode(errors="replace")


def _bytes(reader: Reader, instruction: Instruction) -> str | None:
    start = reader.position
    length = _length(reader, instruction, _INT32)
    return None if length < 0 else _base64(reader.take(length, instruction.path, start))


def _struct(reader: Reader, instruction: Instruction) -> dict[str, Any] | None:
    assert instruction.program is not None
    if instruction.nullable and not _is_present(reader, instruction):
        return None
    return reader.fill(instruction.program, {})


def _is_present(reader: Reader, instruction: Instruction) -> bool:
    # The marker of a nullable struct is a signed byte, but a varint in a tagged field.
    if instruction.tag is not None:
        return reader.varint(instruction.path) > 0
    return reader.take(1, instruction.path, reader.position)[0] < 0x80


def _array(reader: Reader, instruction: Instruction) -> list[Any] | None:
    start, element = reader.position, instruction.element
    assert element is not None
    length = _length(reader, instruction, _INT32)
    if length < 0:
        return None
    # Kafka refuses an array with more elements than bytes are left, whatever the size of an element.
    if length > len(reader.data) - reader.position:
        raise DecodeFailure(Defect.TRUNCATED, instruction.path, start)
    read = reader.read[element.kind]
    return [read(reader, element) for _ in range(length)]


_READ: Final[dict[FieldKind, _Read]] = {
    **{kind: _number(layout) for kind, layout in NUMBERS.items()},
    FieldKind.UUID: _uuid,
    FieldKind.STRING: _string,
    FieldKind.BYTES: _bytes,
    FieldKind.RECORDS: _bytes,
    FieldKind.STRUCT: _struct,
    FieldKind.ARRAY: _array,
}


def _marking(read: _Read) -> _Read:
    """Make a reader of content also collect the spans of requested paths."""

    def mark(reader: Reader, instruction: Instruction) -> Any:
        start = reader.position
        value = read(reader, instruction)
        if value is not None and instruction.path in reader.spans:
            begin = start + _prefix_size(reader.data, start, instruction)
            reader.spans[instruction.path].append((begin, reader.position))
        return value

    return mark


def _prefix_size(data: bytes, start: int, instruction: Instruction) -> int:
    """Return the size of the length before a content, 0 if the content has a fixed size."""
    if instruction.kind not in (FieldKind.STRING, FieldKind.BYTES, FieldKind.RECORDS):
        return 0
    if not instruction.compact:
        return 2 if instruction.kind is FieldKind.STRING else 4
    return next(offset for offset in range(5) if data[start + offset] < 0x80) + 1


_MARK: Final[dict[FieldKind, _Read]] = {
    kind: read if kind in (FieldKind.STRUCT, FieldKind.ARRAY) else _marking(read)
    for kind, read in _READ.items()
}
