"""The files of an archive by their names: which query and batch wrote them, and whether they were merged."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MERGED: Final = "merged-"
_NAME: Final = re.compile(r"(?P<query>.+?)-(?P<merged>merged-)?(?P<batch>\d{12})\.parquet")


class BatchFile(NamedTuple):
    """A file of a batch, or of all batches up to one."""

    path: str
    query: str
    batch: int
    is_merged: bool


def batch_file(path: str) -> BatchFile | None:
    """Read the name of a file; None for one that no batch wrote, or that is not finished."""
    base = path.rpartition("/")[2]
    name = _NAME.fullmatch(base)
    if name is None or base.startswith("."):
        return None
    return BatchFile(path, name["query"], int(name["batch"]), name["merged"] is not None)
