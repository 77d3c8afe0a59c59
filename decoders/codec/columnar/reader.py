"""The columnar reader: writes the tape for the wanted fields and runs it over columns of frames."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from decoders.codec.columnar import tape_format
from decoders.codec.columnar.frames import DecodedFrames, Frames
from decoders.codec.columnar.head import HEAD
from decoders.codec.columnar.kernel import read_frames
from decoders.codec.columnar.machine import FOUND, REMARKS
from decoders.codec.columnar.projection import Column, columns_of
from decoders.codec.columnar.tape import Tape, Wanted
from decoders.codec.program import compile_message
from decoders.protocol import API_VERSIONS
from decoders.schema.header_versions import Layout
from decoders.schema.model import Message
from decoders.schema.registry import Api, Schemas

_HEADER_BEFORE: Final = 2
"""The version of the request header before the one that KIP-1313 introduces."""

_FIRST_ROOM: Final = 64
"""Rows of each kind at first."""

_Rows = npt.NDArray[np.int64]


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
        self._entries, self._headers = writer.write()
        self._tape = writer.tape.rows()
        self._paths = writer.tape.paths
        self._found = np.empty((_FIRST_ROOM, 4), np.int64)
        self._remarks = np.empty((_FIRST_ROOM, 4), np.int64)
        self._rival_heads = np.empty(1, HEAD)
        self._counters = np.empty((writer.tape.levels, 4), np.int64)

    def read(self, frames: Frames) -> DecodedFrames:
        """Read frames. Raises nothing, whatever their bytes are. Not for several threads at once."""
        heads = np.empty(len(frames), HEAD)
        found, remarks = self._run(frames, heads)
        # The room for rows is used again, so they are copied: making it anew would cost more.
        return DecodedFrames(frames, heads, found.copy(), remarks.copy(), self.columns, self._paths)

    def _run(self, frames: Frames, heads: npt.NDArray[np.void]) -> tuple[_Rows, _Rows]:
        """Run the tape over all frames, with more room whenever rows need it; return the rows."""
        layouts = (self._tape, self._entries, self._headers)
        places = (frames.data, frames.begins, frames.lengths)
        known = (frames.is_cut, frames.is_request, frames.paired_keys, frames.paired_versions)
        counts, needed = np.zeros(2, np.int64), np.zeros(2, np.int64)
        number = 0
        while True:
            rows = (self._found, self._remarks, counts, needed, self._counters)
            number = read_frames(*layouts, *places, *known, number, heads, self._rival_heads, *rows)
            if number == len(frames):
                return self._found[: counts[FOUND]], self._remarks[: counts[REMARKS]]
            self._found = _enlarged(self._found, int(needed[FOUND]))
            self._remarks = _enlarged(self._remarks, int(needed[REMARKS]))


def _enlarged(rows: _Rows, needed: int) -> _Rows:
    if needed <= len(rows):
        return rows
    grown = np.empty((2 * needed, rows.shape[1]), rows.dtype)
    grown[: len(rows)] = rows
    return grown


def _wanted(paths: Sequence[Mapping[int, str]], api: Api) -> Wanted:
    return {by_key[api.key]: number for number, by_key in enumerate(paths) if api.key in by_key}


class _LayoutWriter:
    """Writes the layouts of all API versions of the schemas onto a tape, and notes where each begins."""

    def __init__(self, schemas: Schemas, columns: tuple[Column, ...]) -> None:
        self.tape = Tape()
        self._schemas = schemas
        self._columns = columns

    def write(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Write them; return the `entries` and `headers` of `kernel.read_frames`."""
        apis = [api for api in self._schemas.apis if api.versions]
        keys, versions = max(api.key for api in apis), max(api.versions.highest for api in apis)
        rows = np.full((tape_format.TABLES, keys + 1, versions + 1), tape_format.NOWHERE, np.int32)
        for api in apis:
            for version in range(api.versions.lowest, api.versions.highest + 1):
                self._write_version(rows[:, api.key, version], api, version)
        return rows, self._headers()

    def _write_version(self, rows: npt.NDArray[np.int32], api: Api, version: int) -> None:
        header_version = api.request_header_version(version)
        header = self._schemas.request_header
        rows[tape_format.REQUESTS] = self._request(api, header, header_version, version)
        rows[tape_format.RESPONSES] = self._response(api, version)
        if api.is_overlay(version):
            tagged = self._schemas.request_headers[Layout.TAGGED]
            rows[tape_format.TAGGED_REQUESTS] = self._request(api, tagged, header_version, version)
            rows[tape_format.RIVALS] = self._request(api, header, _HEADER_BEFORE, version - 1)

    def _request(self, api: Api, header: Message, header_version: int, version: int) -> int:
        wanted = _wanted([column.requests for column in self._columns], api)
        program = compile_message(header, header_version)
        return self.tape.write_frame(header_version, program, compile_message(api.request, version), wanted)

    def _response(self, api: Api, version: int) -> int:
        wanted = _wanted([column.responses for column in self._columns], api)
        header_version = api.response_header_version(version)
        program = compile_message(self._schemas.response_header, header_version)
        return self.tape.write_frame(header_version, program, compile_message(api.response, version), wanted)

    def _headers(self) -> npt.NDArray[np.int32]:
        """Write the request headers of ApiVersions below and above its known versions."""
        api = self._schemas.api(API_VERSIONS)
        if api is None:
            return np.full(2, tape_format.NOWHERE, np.int32)
        versions = (api.versions.lowest - 1, api.versions.highest + 1)
        return np.array([self._header(api.request_header_version(version)) for version in versions], np.int32)

    def _header(self, version: int) -> int:
        program = compile_message(self._schemas.request_header, version)
        return self.tape.write_frame(version, program, None, {})
