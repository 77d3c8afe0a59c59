"""Which Produce requests are owed an answer, as `decoders/codec/acknowledgement.py` says of one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.decoded import DecodedFrames
from decoders.compilation import compiled
from decoders.protocol import PRODUCE
from decoders.schema.registry import Schemas
from decoders.wire.columnar.acknowledgements import FLEXIBLE, PLAIN, produce_layouts

UNTOLD: Final = 0
"""It is no Produce request, or only a look at more of it could tell."""
OWED: Final = 1
UNOWED: Final = 2


class Acknowledgements:
    """Reads the acks of Produce requests."""

    def __init__(self, schemas: Schemas) -> None:
        self._layouts = produce_layouts(schemas)

    def read(self, decoded: DecodedFrames) -> NDArray[np.uint8]:
        """Tell UNTOLD, OWED or UNOWED of every frame."""
        frames, heads = decoded.frames, decoded.heads
        told = np.zeros(len(frames), np.uint8)
        versions = heads["api_version"]
        header_read = frames.is_request & (heads["api_key"] == PRODUCE) & (heads["header_version"] >= 0)
        (numbers,) = np.nonzero(header_read & (versions >= 0) & (versions < len(self._layouts)))
        begins = heads["client_id_begin"][numbers] + np.maximum(heads["client_id_length"][numbers], 0)
        # A null client ID has no place of its own: it is the length that stands behind the first eight bytes.
        is_null = heads["client_id_length"][numbers] < 0
        begins = np.where(is_null, frames.begins[numbers] + 10, begins)
        ends = (frames.begins + frames.lengths)[numbers]
        told[numbers] = _read(frames.data, begins, ends, self._layouts[versions[numbers]])
        return told


def _read(
    data: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64], layouts: NDArray[np.int64]
) -> NDArray[np.uint8]:
    told = np.zeros(len(begins), np.uint8)
    _read_acks(data, begins, ends, layouts, told)
    return told


@compiled(None)
def _read_acks(data: Any, begins: Any, ends: Any, layouts: Any, told: Any) -> None:
    """Pass over the transactional ID, and in a flexible header over its empty tag section."""
    for number in range(len(begins)):
        at, end = begins[number], ends[number]
        length = np.int64(-1)
        if layouts[number] == PLAIN and end - at >= 2:
            length = np.int64(np.int16(np.uint16(data[at]) << np.uint16(8) | np.uint16(data[at + 1])))
            at += 2
        elif layouts[number] == FLEXIBLE and end - at >= 2 and data[at] == 0 and data[at + 1] < 0x80:
            length = np.int64(data[at + 1]) - 1
            at += 2
        else:
            continue
        at += max(length, 0)
        if length >= -1 and end - at >= 2:
            told[number] = UNOWED if data[at] == 0 and data[at + 1] == 0 else OWED
