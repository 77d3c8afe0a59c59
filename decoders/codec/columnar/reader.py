"""The columnar reader: writes a tape for the wanted fields, and runs it over columns of frames.

`codec/columnar/tape.py` defines the rows. The fields of structs are written in place, so only arrays and
tagged fields need a level. Neighbouring fields of fixed size share a SPAN, and an array notes the size of its
elements if it is fixed: both are skipped in one step, unless a field in them is wanted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from decoders.codec.columnar import tape
from decoders.codec.columnar.frames import (
    HEAD,
    LEAD_PATHS,
    LENGTH,
    NO_LAYOUT,
    PLAIN_LAYOUT,
    TAGGED_LAYOUT,
    DecodedFrames,
    FieldColumn,
    Frames,
    columns_of,
)
from decoders.codec.columnar.kernel import read_frames
from decoders.codec.program import NUMBERS, FieldKind, Instruction, Program, compile_message
from decoders.codec.request import HEADER_BEFORE, layout_of
from decoders.memory import grown
from decoders.protocol import API_VERSIONS
from decoders.schema.header_versions import Layout
from decoders.schema.model import Message
from decoders.schema.registry import Api, Schemas

_FIRST_ROOM: Final = 64
"""Rows of found fields, and of remarks, that there is room for at first."""
_SIZES: Final = {kind: layout.size for kind, layout in NUMBERS.items()} | {FieldKind.UUID: 16}
_FLAGS: Final = {
    FieldKind.INT8: tape.SIGNED,
    FieldKind.INT16: tape.SIGNED,
    FieldKind.INT32: tape.SIGNED,
    FieldKind.UUID: tape.PLACE,
}
_LAYOUTS: Final = {
    None: NO_LAYOUT,
    Layout.PLAIN: PLAIN_LAYOUT,
    Layout.TAGGED: TAGGED_LAYOUT,
}
_HEADER_WANTED: Final = {
    "header.clientId": tape.CLIENT_ID,
    "header.clientInstanceId": tape.INSTANCE_ID,
}

_Rows = npt.NDArray[np.int64]
_Wanted = Mapping[str, int]
"""Paths of a message → the columns that want them."""


class ColumnarReader:
    """Reads columns of frames of any APIs and versions, without Python code for each frame.

    `wanted` names the columns of body fields to find, and the fields that each takes:
    `{"member_id": ["HeartbeatRequest.memberId", "ConsumerGroupHeartbeatRequest.memberId"]}`. Other fields
    are skipped, but still checked against the schema. Raises ValueError for fields that the schemas do not
    have or that do not make one column.
    """

    def __init__(self, schemas: Schemas, wanted: Mapping[str, Collection[str]] | None = None) -> None:
        self.columns = columns_of(schemas, wanted or {})
        writer = _LayoutWriter(schemas, self.columns)
        self._entries, self._places = writer.write()
        self._tape = writer.tape.rows()
        self._paths = writer.tape.paths
        self._found = np.empty((_FIRST_ROOM, 4), np.int64)
        self._remarks = np.empty((_FIRST_ROOM, 4), np.int64)
        self._rival_heads = np.empty(1, HEAD)
        self._counters = np.empty((writer.tape.levels, tape.COUNTERS), np.int64)

    def read(self, frames: Frames) -> DecodedFrames:
        """Read frames. Raises nothing, whatever their bytes are. Not for several threads at once."""
        heads = np.empty(len(frames), HEAD)
        found, remarks = self._run(frames, heads)
        # The rows are copied, since the room for them is reused: allocating it anew would cost more.
        return DecodedFrames(frames, heads, found.copy(), remarks.copy(), self.columns, self._paths)

    def _run(self, frames: Frames, heads: npt.NDArray[np.void]) -> tuple[_Rows, _Rows]:
        """Run the tape over all frames, with more room whenever rows need it; return the rows."""
        layouts = (self._tape, self._entries, self._places)
        spans = (frames.data, frames.begins, frames.lengths)
        known = (frames.is_cut, frames.is_request, frames.paired_keys, frames.paired_versions)
        counts, needed = np.zeros(2, np.int64), np.zeros(2, np.int64)
        number = 0
        while True:
            rows = (self._found, self._remarks, counts, needed, self._counters)
            number = read_frames(*layouts, *spans, *known, number, heads, self._rival_heads, *rows)
            if number == len(frames):
                return self._found[: counts[tape.FOUND]], self._remarks[: counts[tape.REMARKS]]
            self._found = grown(self._found, int(needed[tape.FOUND]))
            self._remarks = grown(self._remarks, int(needed[tape.REMARKS]))


def _wanted(paths: Sequence[Mapping[int, str]], api: Api) -> _Wanted:
    return {by_key[api.key]: number for number, by_key in enumerate(paths) if api.key in by_key}


class _LayoutWriter:
    """Writes the layouts of all API versions of the schemas onto a tape, and notes the first row of each."""

    def __init__(self, schemas: Schemas, columns: tuple[FieldColumn, ...]) -> None:
        self.tape = _TapeWriter()
        self._schemas = schemas
        self._columns = columns

    def write(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Write all layouts; return the `entries` and `places` of `kernel.read_frames`."""
        apis = [api for api in self._schemas.apis if api.versions]
        keys, versions = max(api.key for api in apis), max(api.versions.highest for api in apis)
        rows = np.full((tape.TABLES, keys + 1, versions + 1), tape.NOWHERE, np.int32)
        for api in apis:
            for version in range(api.versions.lowest, api.versions.highest + 1):
                self._write_version(rows[:, api.key, version], api, version)
            for version in range(api.versions.lowest):
                rows[tape.HEADERS, api.key, version] = self._header(api.request_header_version(version))
        return rows, self._places()

    def _write_version(self, rows: npt.NDArray[np.int32], api: Api, version: int) -> None:
        header_version = api.request_header_version(version)
        header = self._schemas.request_header
        rows[tape.REQUESTS] = self._request(api, header, header_version, version)
        rows[tape.RESPONSES] = self._response(api, version)
        if api.is_overlay(version):
            tagged = self._schemas.request_headers[Layout.TAGGED]
            rows[tape.TAGGED_REQUESTS] = self._request(api, tagged, header_version, version)
            rows[tape.RIVALS] = self._request(api, header, HEADER_BEFORE, version - 1)

    def _request(self, api: Api, header: Message, header_version: int, version: int) -> int:
        wanted = _wanted([column.requests for column in self._columns], api)
        program = compile_message(header, header_version)
        return self.tape.write_frame(header_version, program, compile_message(api.request, version), wanted)

    def _response(self, api: Api, version: int) -> int:
        wanted = _wanted([column.responses for column in self._columns], api)
        header_version = api.response_header_version(version)
        program = compile_message(self._schemas.response_header, header_version)
        return self.tape.write_frame(header_version, program, compile_message(api.response, version), wanted)

    def _places(self) -> npt.NDArray[np.int32]:
        """Write what is read of ApiVersions at versions that the schemas lack."""
        places = np.full(3, tape.NOWHERE, np.int32)
        api = self._schemas.api(API_VERSIONS)
        if api is not None:
            places[tape.BELOW] = self._header(api.request_header_version(api.versions.lowest - 1))
            places[tape.ABOVE] = self._header(api.request_header_version(api.versions.highest + 1))
            places[tape.REFUSAL] = self._response(api, 0)
        return places

    def _header(self, version: int) -> int:
        program = compile_message(self._schemas.request_header, version)
        return self.tape.write_frame(version, program, None, {})


class _TapeWriter:
    """Appends the programs of messages to a tape. `paths` are the paths of fields by number.

    `levels` counts the levels of nesting.
    """

    def __init__(self) -> None:
        self.levels = 1
        self._rows: list[list[int]] = []
        self._paths = {path: number for number, path in enumerate(LEAD_PATHS)}
        self._span: list[list[int]] = []

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def rows(self) -> npt.NDArray[np.int32]:
        """Return the rows written so far, as one array of int32 with WIDTH cells for each."""
        rows = np.array(self._rows, np.int32)
        rows[:, tape.NEXT] *= tape.WIDTH
        return rows.reshape(-1)

    def write_frame(self, header_version: int, header: Program, body: Program | None, wanted: _Wanted) -> int:
        """Write the layout of a frame, or of its header alone, after its lead; return its first row."""
        entry = self._here()
        self._struct(_without_lead(header), _HEADER_WANTED, 0)
        self._write(tape.HEADER_END, size=header_version, flags=_LAYOUTS[layout_of(header)])
        if body is not None:
            self._struct(body, wanted, 0)
        self._write(tape.END)
        return entry * tape.WIDTH

    def _here(self) -> int:
        """Write the pending span; return the number of the next row."""
        span, self._span = self._span, []
        if len(span) > 1:
            size = sum(row[tape.SIZE] for row in span)
            after = len(self._rows) + 1 + len(span)
            self._rows.append(_row(tape.SPAN, size=size, after=after))
        self._rows += span
        return len(self._rows)

    def _write(self, operation: int, path: str | None = None, **columns: int) -> int:
        number = self._here()
        self._rows.append(_row(operation, path=self._path(path), **columns))
        return number

    def _path(self, path: str | None) -> int:
        return -1 if path is None else self._paths.setdefault(path, len(self._paths))

    def _struct(self, program: Program, wanted: _Wanted, level: int) -> None:
        self.levels = max(self.levels, level + 1)
        for instruction in program.fields:
            self._field(instruction, wanted, level)
        if program.flexible:
            self._tags(program, wanted, level)

    def _field(self, instruction: Instruction, wanted: _Wanted, level: int) -> None:
        if instruction.kind in _SIZES:
            self._fixed(instruction, wanted)
        elif instruction.kind is FieldKind.STRUCT:
            self._nested(instruction, wanted, level)
        elif instruction.kind is FieldKind.ARRAY:
            self._array(instruction, wanted, level)
        else:
            operation = tape.STRING if instruction.kind is FieldKind.STRING else tape.BYTES
            self._write(
                operation, instruction.path, column=_column(instruction, wanted), flags=_flags(instruction)
            )

    def _fixed(self, instruction: Instruction, wanted: _Wanted) -> None:
        row = _row(
            tape.FIXED,
            path=self._path(instruction.path),
            size=_SIZES[instruction.kind],
            column=_column(instruction, wanted),
            flags=_FLAGS.get(instruction.kind, 0) | _flags(instruction),
        )
        if row[tape.COLUMN] == tape.UNWANTED:
            self._span.append(row)
        else:
            self._here()
            self._rows.append(row)

    def _nested(self, instruction: Instruction, wanted: _Wanted, level: int) -> None:
        assert instruction.program is not None
        if not instruction.nullable:
            self._struct(instruction.program, wanted, level)
            return
        marker = self._write(tape.STRUCT, instruction.path, flags=_flags(instruction))
        self._struct(instruction.program, wanted, level)
        self._rows[marker][tape.NEXT] = self._here()

    def _array(self, instruction: Instruction, wanted: _Wanted, level: int) -> None:
        assert instruction.element is not None
        self.levels = max(self.levels, level + 1)
        array = self._write(
            tape.ARRAY,
            instruction.path,
            column=wanted.get(instruction.path + LENGTH, tape.UNWANTED),
            flags=_flags(instruction),
            level=level,
        )
        first = self._here()
        self._field(instruction.element, wanted, level + 1)
        self._rows[array][tape.SIZE] = self._fixed_size(first, self._here())
        self._write(tape.ARRAY_NEXT, level=level, after=first)
        self._rows[array][tape.NEXT] = self._here()

    def _fixed_size(self, first: int, end: int) -> int:
        """Return the number of bytes that rows read; VARIABLE if it varies or one of them is wanted."""
        rows = [row for row in self._rows[first:end] if row[tape.OPERATION] != tape.SPAN]
        is_fixed = all(row[tape.OPERATION] == tape.FIXED for row in rows)
        if is_fixed and all(row[tape.COLUMN] < 0 for row in rows):
            return sum(row[tape.SIZE] for row in rows)
        return tape.VARIABLE

    def _tags(self, program: Program, wanted: _Wanted, level: int) -> None:
        known = len(program.tagged) + len(program.foreign_tags)
        section = self._write(tape.TAGS, program.tags_path, level=level)
        following = self._write(tape.TAGS_NEXT, program.tags_path, level=level, size=known)
        for tag in program.foreign_tags:
            self._write(tape.TAG, size=tag, after=tape.FOREIGN)
        entries = {tag: self._write(tape.TAG, size=tag) for tag in program.tagged}
        for tag, instruction in program.tagged.items():
            self._rows[entries[tag]][tape.NEXT] = self._here()
            self._field(instruction, wanted, level + 1)
            self._write(tape.TAG_END, instruction.path, level=level, after=following)
        self._rows[section][tape.NEXT] = self._rows[following][tape.NEXT] = self._here()


def _without_lead(header: Program) -> Program:
    return replace(header, fields=tuple(field for field in header.fields if field.path not in LEAD_PATHS))


def _row(
    operation: int,
    *,
    path: int = -1,
    column: int = tape.UNWANTED,
    size: int = 0,
    after: int = 0,
    flags: int = 0,
    level: int = 0,
) -> list[int]:
    # The cells in the order of their numbers in `tape`. The last one is not used.
    return [operation, path, column, size, after, flags, level, 0]


def _column(instruction: Instruction, wanted: _Wanted) -> int:
    return wanted.get(instruction.path, tape.UNWANTED)


def _flags(instruction: Instruction) -> int:
    return (
        tape.COMPACT * instruction.compact
        | tape.NULLABLE * instruction.nullable
        | tape.TAGGED * (instruction.tag is not None)
    )
