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

from decoders.codec.columnar.reader import ColumnarReader
from decoders.frame.columnar.treatments import GUARDED, KEPT, UNKNOWN, Treatments, divided, removed
from decoders.frame.cutting import MAX_KEPT, classified_versions, cut
from decoders.frame.privacy import NO_GUARD, Guard, Guards, guards_of
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
        self._is_payload = np.array([name.startswith(_CUT) for name in wanted], np.bool_)

    def cut(self, batch: FrameBatch) -> FrameBatch:
        """Return the batch with only those bytes of its frames that may be kept. Blanks in its own data."""
        frames = batch.frames
        lengths = frames.lengths.copy()
        guarded, unknown, of_reader = divided(batch.data, frames, self._treatments)
        doubtful = removed(self._reader.read(of_reader), guarded, self._is_payload, lengths)
        for row in (*doubtful.tolist(), *unknown.tolist()):
            lengths[row] = self._cut_one(batch, row)
        np.minimum(lengths, MAX_KEPT, out=lengths)
        events = batch.events.with_others(partial(cut, self._schemas))
        return dataclasses.replace(batch, frames=frames._replace(lengths=lengths), events=events)

    def _cut_one(self, batch: FrameBatch, number: int) -> int:
        kept = cut(self._schemas, batch.record(number)).frame
        start = int(batch.frames.starts[number])
        batch.data[start : start + len(kept)] = np.frombuffer(kept, np.uint8)
        return len(kept)


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
