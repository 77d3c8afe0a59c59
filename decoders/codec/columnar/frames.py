"""What the columnar reader takes, and what it returns: frames, their heads, and places of wanted fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from decoders.codec.columnar import head
from decoders.codec.columnar.projection import Column
from decoders.codec.failure import Oddity, Reason
from decoders.schema.header_versions import Layout

REASONS: Final = {
    head.TRUNCATED: Reason.TRUNCATED,
    head.NULL_NOT_ALLOWED: Reason.NULL_NOT_ALLOWED,
    head.INVALID_LENGTH: Reason.INVALID_LENGTH,
    head.INVALID_TAG: Reason.INVALID_TAG,
    head.INVALID_VARINT: Reason.INVALID_VARINT,
}
ODDITIES: Final = {
    head.TRAILING_BYTES: Oddity.TRAILING_BYTES,
    head.TAG_SIZE_MISMATCH: Oddity.TAG_SIZE_MISMATCH,
    head.TAG_ORDER: Oddity.TAG_ORDER,
    head.OVERLONG_VARINT: Oddity.OVERLONG_VARINT,
    head.NEGATIVE_LENGTH: Oddity.NEGATIVE_LENGTH,
    head.INVALID_UTF8: Oddity.INVALID_UTF8,
}
LAYOUTS: Final = {
    head.NO_LAYOUT: None,
    head.PLAIN_LAYOUT: Layout.PLAIN,
    head.TAGGED_LAYOUT: Layout.TAGGED,
}


@dataclass(frozen=True, slots=True)
class Frames:
    """A column of frames: where each one is in `data`, and what is known of it.

    `data` (uint8) holds the frames without their length prefixes, in any order and with anything between
    them. `begins` (int64) and `lengths` (int32, in bytes) are the place of each frame. `is_cut` (bool) says
    that its tail is missing, `is_request` (bool) that it is a request. `paired_keys` and `paired_versions`
    (int16) are the API key and version of the request that a response belongs to; those of requests are
    ignored. All but `data` have one element for each frame.
    """

    data: npt.NDArray[np.uint8]
    begins: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    is_cut: npt.NDArray[np.bool_]
    is_request: npt.NDArray[np.bool_]
    paired_keys: npt.NDArray[np.int16]
    paired_versions: npt.NDArray[np.int16]

    def __post_init__(self) -> None:
        """Raise ValueError for places outside the data: compiled code would read there."""
        ends = self.begins + self.lengths
        if len(self.begins) and (
            self.begins.min() < 0 or self.lengths.min() < 0 or ends.max() > len(self.data)
        ):
            raise ValueError("a frame lies outside the data")

    def __len__(self) -> int:
        return len(self.begins)


@dataclass(frozen=True, slots=True)
class DecodedFrames:
    """What was read of a column of frames. No content is copied: places are indexes into `frames.data`.

    - `heads` (HEAD) has one element for each frame, in their order.
    - `found` (int64) has a row for each value of a wanted field, in wire order: number of the frame, number
      of the column, and either begin and length of the content in bytes, or a number and 0. A float is given
      as the integer of its bits, the length of an array as NULL_LENGTH if it is null. Fields of frames that
      were not read whole have no row, nor have other nulls.
    - `remarks` (int64) has a row for each remark, in wire order: number of the frame, oddity (a key of
      `ODDITIES`), number of the path, offset in the frame.

    `columns` are the wanted columns and `paths` the paths of fields, both by number.
    """

    frames: Frames
    heads: npt.NDArray[np.void]
    found: npt.NDArray[np.int64]
    remarks: npt.NDArray[np.int64]
    columns: tuple[Column, ...]
    paths: tuple[str, ...]
