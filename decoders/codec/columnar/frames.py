"""What the columnar reader takes: a column of frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


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
