"""Frames as columns: what the columnar reader takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Frames:
    """A column of frames: where each stands in `data`, and what else is known of it.

    `data` (uint8) holds the frames without their length prefixes, in any order, with anything
    between them. `begins` (int64) and `lengths` (int32, in bytes) are the place of each. `is_cut`
    (bool) says that its tail is missing, `is_request` (bool) what it is. `paired_keys` and
    `paired_versions` (int16) are the API key and version that a response answers; those of requests
    are not looked at. All but `data` have one element a frame.
    """

    data: npt.NDArray[np.uint8]
    begins: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    is_cut: npt.NDArray[np.bool_]
    is_request: npt.NDArray[np.bool_]
    paired_keys: npt.NDArray[np.int16]
    paired_versions: npt.NDArray[np.int16]

    def __post_init__(self) -> None:
        """Refuse, with ValueError, places outside the data: the machine would read there."""
        ends = self.begins + self.lengths
        if len(self.begins) and (
            self.begins.min() < 0 or self.lengths.min() < 0 or ends.max() > len(self.data)
        ):
            raise ValueError("a frame lies outside the data")

    @classmethod
    def of_arrow(
        cls,
        contents: pa.Array,
        is_request: pa.Array,
        is_cut: pa.Array,
        paired_keys: pa.Array,
        paired_versions: pa.Array,
    ) -> Self:
        """Take frames as Arrow has them, where they stand: `contents` is not copied.

        `contents` is binary or large_binary, `is_request` and `is_cut` are bool, the paired API keys
        and versions int16, null of a request. Raises ValueError for a frame that is null.
        """
        if contents.null_count:
            raise ValueError("a frame is null")
        _, offsets, data = contents.buffers()
        width = np.int64 if pa.types.is_large_binary(contents.type) else np.int32
        ends = np.frombuffer(offsets, width)[contents.offset : contents.offset + len(contents) + 1]
        return cls(
            data=np.frombuffer(data or b"", np.uint8),
            begins=ends[:-1].astype(np.int64),
            lengths=np.diff(ends).astype(np.int32),
            is_cut=is_cut.to_numpy(zero_copy_only=False),
            is_request=is_request.to_numpy(zero_copy_only=False),
            paired_keys=paired_keys.fill_null(-1).to_numpy(),
            paired_versions=paired_versions.fill_null(-1).to_numpy(),
        )

    def __len__(self) -> int:
        return len(self.begins)
