"""Opens files for their owner only: captures hold what clients send, even passwords of SASL/PLAIN."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

OWNER_ONLY: Final = 0o600


def open_private(path: Path) -> BinaryIO:
    """Open a file for writing, emptied, readable by its owner only. Raises OSError.

    A file that exists gets the same mode; a pipe or a device keeps its own.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_ONLY)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, OWNER_ONLY)
    return os.fdopen(descriptor, "wb")
