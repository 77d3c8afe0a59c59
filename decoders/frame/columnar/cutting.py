"""Removes record payloads and secrets from batches of frames, as `frame/cutting.py` does from one.

The columnar reader finds the fields that may not be kept. Frames that it cannot read for certain, and those
of unknown APIs and versions, go through the scalar code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import Frames
from decoders.codec.columnar.reader import ColumnarReader
from decoders.frame.columnar.treatments import GUARDED, KEPT, UNKNOWN, Treatments, treatments_of
from decoders.frame.cutting import MAX_KEPT, classified_versions, cut
from decoders.frame.privacy import NO_GUARD, Guard, Guards, guards_of
from decoders.frame.record import Kind
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch

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
        self._treatments = Treatments(of_responses, of_requests, *_classified(schemas))
        wanted = _wanted(schemas, guards)
        self._reader = ColumnarReader(schemas, wanted)
        self._is_cut = np.array([name.startswith(_CUT) for name in wanted], np.bool_)

    def cut(self, batch: FrameBatch) -> FrameBatch:
        """Return the batch with only those bytes of its frames that may be kept. Blanks in its own data."""
        frames = batch.frames
        lengths = frames.lengths.copy()
        treatments = treatments_of(batch.data, frames, self._treatments)
        numbers = np.flatnonzero(treatments == GUARDED)
        kept, is_certain = self._guarded(batch, numbers)
        lengths[numbers] = kept
        for number in (*numbers[~is_certain].tolist(), *np.flatnonzero(treatments == UNKNOWN).tolist()):
            lengths[number] = self._cut_one(batch, number)
        np.minimum(lengths, MAX_KEPT, out=lengths)
        events = batch.events.with_others(partial(cut, self._schemas))
        return dataclasses.replace(batch, frames=frames._replace(lengths=lengths), events=events)

    def _guarded(
        self, batch: FrameBatch, numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Blank frames; return how many bytes of each may be kept, and whether it was read for certain.

        Frames that were not read for certain are left as they are.
        """
        frames = batch.frames
        begins, lengths = frames.starts[numbers], frames.lengths[numbers]
        read = self._reader.read(
            Frames(
                batch.data,
                begins,
                lengths.astype(np.int32),
                np.zeros(len(numbers), np.bool_),
                frames.kinds[numbers] == Kind.REQUEST,
                frames.paired_api_keys[numbers],
                frames.paired_api_versions[numbers],
            )
        )
        is_certain = read.heads["known"] & (read.heads["failure_reason"] < 0)
        is_certain[read.remarks[:, 0]] = False
        found = read.found[is_certain[read.found[:, 0]] & (read.found[:, 3] > 0)]
        is_cut = self._is_cut[found[:, 1]]
        _blank(batch.data, found[~is_cut, 2], found[~is_cut, 3])
        # In reverse, so that the first payload of a frame is written last.
        payloads = found[is_cut][::-1]
        lengths[payloads[:, 0]] = payloads[:, 2] - begins[payloads[:, 0]]
        return lengths, is_certain

    def _cut_one(self, batch: FrameBatch, number: int) -> int:
        kept = cut(self._schemas, batch.record(number)).frame
        start = int(batch.frames.starts[number])
        batch.data[start : start + len(kept)] = np.frombuffer(kept, np.uint8)
        return len(kept)


def _blank(data: NDArray[np.uint8], begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    """Overwrite the bytes of spans (int64, places in `data`) with zeros."""
    before = np.cumsum(lengths) - lengths
    data[np.repeat(begins - before, lengths) + np.arange(lengths.sum())] = 0


def _classified(schemas: Schemas) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Return the lowest and the highest classified version of each API, indexed like treatments."""
    lowest, highest = np.zeros(_KEYS, np.int16), np.full(_KEYS, -1, np.int16)
    for api in schemas.apis:
        versions = classified_versions(api)
        lowest[api.key], highest[api.key] = versions.lowest, versions.highest
    return lowest, highest


def _treatments(keys: Iterable[int], guards: Mapping[int, Guard]) -> NDArray[np.uint8]:
    """Return what is done with the frames of each API, indexed by API key as an unsigned number."""
    treatments = np.full(_KEYS, UNKNOWN, np.uint8)
    for key in keys:
        treatments[key] = GUARDED if key in guards else KEPT
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
