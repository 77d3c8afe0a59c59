"""Keeps this process from dumping its memory, which holds secrets of TLS, when it crashes."""

from __future__ import annotations

import ctypes
import resource

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """Let the kernel write no core dump, neither to a file nor to a program that collects dumps.

    Nobody but root can read the memory of the process then, or trace it (man 2 PR_SET_DUMPABLE). A later
    change of the user may undo it.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The limit does not hold for programs that collect dumps.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
