"""Compiled: what is done with each frame of a batch before it may be kept."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled
from decoders.frame.record import Kind, Pairing
from decoders.wire.columnar.frames import FrameColumns

KEPT: Final = 0
"""The API has nothing to remove."""
GUARDED: Final = 1
"""The columnar reader finds what its frames may not keep."""
UNKNOWN: Final = 2
"""An unknown API or version: the scalar code decides."""
_LEAD: Final = 4
"""Bytes of a request's API key and version."""
_REQUEST: Final = int(Kind.REQUEST)
_MATCHED: Final = int(Pairing.MATCHED)


class Treatments(NamedTuple):
    """What is done with the frames of each API, indexed by API key as an unsigned number.

    `lowest` and `highest` are its classified versions; none is where the one is above the other.
    """

    of_responses: NDArray[np.uint8]
    of_requests: NDArray[np.uint8]
    lowest: NDArray[np.int16]
    highest: NDArray[np.int16]


def treatments_of(data: NDArray[np.uint8], frames: FrameColumns, treatments: Treatments) -> NDArray[np.uint8]:
    """Return for each frame KEPT, GUARDED or UNKNOWN."""
    found = np.empty(len(frames.starts), np.uint8)
    _find(data, frames, treatments, found)
    return found


@compiled(None)
def _find(data: Any, frames: FrameColumns, treatments: Treatments, found: Any) -> None:
    for row in range(len(found)):
        found[row] = UNKNOWN
        if frames.kinds[row] == _REQUEST:
            if frames.lengths[row] < _LEAD:
                continue
            start = frames.starts[row]
            key = np.int64(data[start]) << 8 | np.int64(data[start + 1])
            version = np.int16(np.int64(data[start + 2]) << 8 | np.int64(data[start + 3]))
            treatment = treatments.of_requests[key]
        else:
            if frames.pairings[row] != _MATCHED:
                continue
            key = np.int64(frames.paired_api_keys[row]) & 0xFFFF
            version = frames.paired_api_versions[row]
            treatment = treatments.of_responses[key]
        if treatments.lowest[key] <= version <= treatments.highest[key]:
            found[row] = treatment
