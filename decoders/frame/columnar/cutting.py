"""Removes record payloads and secrets from batches of frames, as `frame/cutting.py` does from one.

Compiled code divides the frames by what their API may keep, the columnar reader finds the guarded fields, and
compiled code cuts and blanks them. Frames that the reader cannot read for certain, and those of unknown APIs
and versions, go through the scalar code. Calls of numpy for each column would take longer than the frames:
between two batches, tracking displaces the code and data of numpy from the processor's caches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import Frames
from decoders.codec.columnar.reader import ColumnarReader
from decoders.compilation import compiled, inlined
from decoders.frame.cutting import MAX_KEPT, classified_versions, cut
from decoders.frame.privacy import NO_GUARD, FieldGuard, Guards, guards_of
from decoders.frame.record import Flag, Kind, Pairing
from decoders.protocol import API_LEAD
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch, FrameColumns

_KEPT: Final = 0
"""The API has nothing to remove."""
_GUARDED: Final = 1
"""The columnar reader locates the fields that may not be kept."""
_UNKNOWN: Final = 2
"""An unknown API or version: the scalar code decides."""
_REQUEST: Final = int(Kind.REQUEST)
_MATCHED: Final = int(Pairing.MATCHED)
_READ_WHOLE: Final = int(Flag.READ_WHOLE)
_KEYS: Final = 1 << 16
_CUT: Final = "cut"
_BLANKED: Final = "blanked"


class ColumnarCutter:
    """Cuts batches. Not for several threads at once."""

    def __init__(self, schemas: Schemas) -> None:
        guards = guards_of(schemas)
        keys = [api.key for api in schemas.apis]
        self._schemas = schemas
        of_responses, of_requests = _treatments(keys, guards.responses), _treatments(keys, guards.requests)
        self._treatments = _Treatments(of_responses, of_requests, *_classified(schemas))
        wanted = _wanted(schemas, guards)
        self._reader = ColumnarReader(_guarded(schemas, guards), wanted)
        self._is_payload = np.array([name.startswith(_CUT) for name in wanted], np.bool_)

    def cut(self, batch: FrameBatch) -> FrameBatch:
        """Return the batch with only those bytes of its frames that may be kept. Blanks in its own data."""
        frames = batch.frames
        lengths, flags = frames.lengths.copy(), frames.flags.copy()
        guarded, unknown, of_reader = _divided(batch.data, frames, self._treatments)
        read, is_doubtful = self._reader.read(of_reader), np.empty(len(guarded), np.bool_)
        found = batch.data, of_reader.begins, read.heads, read.found, read.remarks
        kept = _Kept(guarded, self._is_payload, frames.true_lengths, lengths, flags)
        doubtful = guarded[is_doubtful].tolist() if _remove(*found, kept, is_doubtful) else []
        long = np.flatnonzero(lengths > MAX_KEPT)
        for row in {*doubtful, *unknown.tolist(), *long.tolist()}:
            lengths[row], flags[row] = self._cut_one(batch, row)
        events = batch.events.with_others(partial(cut, self._schemas))
        return dataclasses.replace(batch, frames=frames._replace(lengths=lengths, flags=flags), events=events)

    def _cut_one(self, batch: FrameBatch, number: int) -> tuple[int, int]:
        record = cut(self._schemas, batch.record(number))
        start = int(batch.frames.starts[number])
        batch.data[start : start + len(record.frame)] = np.frombuffer(record.frame, np.uint8)
        return len(record.frame), int(record.flags)


def _classified(schemas: Schemas) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Return the lowest and the highest classified version of each API, indexed like treatments."""
    lowest, highest = np.zeros(_KEYS, np.int16), np.full(_KEYS, -1, np.int16)
    for api in schemas.apis:
        versions = classified_versions(api)
        lowest[api.key], highest[api.key] = versions.lowest, versions.highest
    return lowest, highest


def _guarded(schemas: Schemas, guards: Guards) -> Schemas:
    """Return the schemas of the guarded APIs alone: writing layouts of all would take four times as long."""
    keys = guards.requests.keys() | guards.responses.keys()
    # The schemas of a draft may guard nothing, and a reader needs some API.
    by_key = {key: schemas.by_key[key] for key in keys} or schemas.by_key
    return dataclasses.replace(schemas, by_key=by_key)


def _treatments(keys: Iterable[int], guards: Mapping[int, FieldGuard]) -> NDArray[np.uint8]:
    """Return the treatment of each API, indexed by API key as an unsigned number."""
    treatments = np.full(_KEYS, _UNKNOWN, np.uint8)
    for key in keys:
        treatments[key] = _GUARDED if key in guards else _KEPT
    return treatments


def _wanted(schemas: Schemas, guards: Guards) -> Mapping[str, list[str]]:
    """Return the columns of all guarded fields. One column takes at most one field of a message."""
    wanted: dict[str, list[str]] = {}
    for api in schemas.apis:
        for message, by_key in ((api.request, guards.requests), (api.response, guards.responses)):
            guard = by_key.get(api.key, NO_GUARD)
            for name, paths in ((_CUT, guard.cut), (_BLANKED, guard.blanked)):
                for number, path in enumerate(paths):
                    wanted.setdefault(f"{name} {number}", []).append(f"{message.name}.{path}")
    return wanted


class _Treatments(NamedTuple):
    """_KEPT, _GUARDED or _UNKNOWN for each API, indexed by API key as an unsigned number.

    `lowest` and `highest` are its classified versions; without any, `lowest` is above `highest`.
    """

    of_responses: NDArray[np.uint8]
    of_requests: NDArray[np.uint8]
    lowest: NDArray[np.int16]
    highest: NDArray[np.int16]


def _divided(
    data: NDArray[np.uint8], columns: FrameColumns, treatments: _Treatments
) -> tuple[NDArray[np.int64], NDArray[np.int64], Frames]:
    """Return the _GUARDED and the _UNKNOWN rows of a batch, and the guarded frames for the reader."""
    rows = len(columns.starts)
    guarded, unknown, begins = (np.empty(rows, np.int64) for _ in range(3))
    lengths, is_request = np.empty(rows, np.int32), np.empty(rows, np.bool_)
    keys, versions = np.empty(rows, np.int16), np.empty(rows, np.int16)
    places = begins, lengths, is_request, keys, versions
    count, unknown_count = _divide(data, columns, treatments, guarded, unknown, *places)
    is_cut = np.zeros(count, np.bool_)
    frames = Frames(
        data,
        begins[:count],
        lengths[:count],
        is_cut,
        is_request[:count],
        keys[:count],
        versions[:count],
    )
    return guarded[:count], unknown[:unknown_count], frames


class _Kept(NamedTuple):
    """What is kept of frames. `rows` (int64) are the rows of the guarded frames in the batch.

    `is_payload` (bool) has a value for each column of the reader. `lengths` and `flags` have those of each
    row of the batch, and get the bytes that are kept, and which frames were read whole.
    """

    rows: NDArray[np.int64]
    is_payload: NDArray[np.bool_]
    true_lengths: NDArray[np.int64]
    lengths: NDArray[np.int64]
    flags: NDArray[np.uint8]


@compiled(None)
def _divide(  # noqa: PLR0917 - compiled functions are called by position
    data: Any,
    columns: FrameColumns,
    treatments: _Treatments,
    guarded: Any,
    unknown: Any,
    begins: Any,
    lengths: Any,
    is_request: Any,
    keys: Any,
    versions: Any,
) -> tuple[int, int]:
    """Write the guarded rows with their frames, and the unknown rows. Returns the number of each."""
    count, unknown_count = 0, 0
    for row in range(len(columns.starts)):
        treatment = _treatment(data, columns, treatments, row)
        if treatment == _UNKNOWN:
            unknown[unknown_count] = row
            unknown_count += 1
        elif treatment == _GUARDED:
            guarded[count] = row
            begins[count], lengths[count] = columns.starts[row], columns.lengths[row]
            is_request[count] = columns.kinds[row] == _REQUEST
            keys[count] = columns.paired_api_keys[row]
            versions[count] = columns.paired_api_versions[row]
            count += 1
    return count, unknown_count


@inlined
def _treatment(data: Any, columns: FrameColumns, treatments: _Treatments, row: int) -> Any:
    if columns.kinds[row] == _REQUEST:
        if columns.lengths[row] < API_LEAD:
            return _UNKNOWN
        start = columns.starts[row]
        key = np.int64(data[start]) << 8 | np.int64(data[start + 1])
        version = np.int16(np.int64(data[start + 2]) << 8 | np.int64(data[start + 3]))
        treatment = treatments.of_requests[key]
    else:
        if columns.pairings[row] != _MATCHED:
            return _UNKNOWN
        key = np.int64(columns.paired_api_keys[row]) & 0xFFFF
        version = columns.paired_api_versions[row]
        treatment = treatments.of_responses[key]
    return treatment if treatments.lowest[key] <= version <= treatments.highest[key] else _UNKNOWN


@compiled(None)
def _remove(  # noqa: PLR0917 - compiled functions are called by position
    data: Any,
    begins: Any,
    heads: Any,
    found: Any,
    remarks: Any,
    kept: _Kept,
    doubtful: Any,
) -> int:
    """Remove the found fields of frames: cut each frame at its first payload, and blank the other fields.

    Frames that were not read for certain are left unchanged, and marked. Returns how many are.
    """
    for number in range(len(kept.rows)):
        head = heads[number]
        doubtful[number] = not head["known"] or head["failure_reason"] >= 0
    for at in range(len(remarks)):
        doubtful[remarks[at, 0]] = True
    for at in range(len(found)):
        number, column, begin, size = found[at, 0], found[at, 1], found[at, 2], found[at, 3]
        if doubtful[number] or size <= 0:
            continue
        if kept.is_payload[column]:
            row = kept.rows[number]
            if kept.lengths[row] == kept.true_lengths[row]:
                kept.flags[row] |= _READ_WHOLE
            kept.lengths[row] = min(kept.lengths[row], begin - begins[number])
        else:
            for place in range(begin, begin + size):
                data[place] = 0
    count = 0
    for number in range(len(kept.rows)):
        count += doubtful[number]
    return count
