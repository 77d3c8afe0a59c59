"""How our processes run: rare garbage collections, delayed Ctrl-C, neither root's rights nor core dumps.

Also what becomes of output that nobody reads any more.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import os
import pwd
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from streaming.user_error import UserError

COLLECT_AFTER: Final = 100_000
"""New objects after which Python looks for reference cycles among them; the default is 700."""
COLLECT_OLDER_AFTER: Final = 1_000
"""Such looks after which it looks among older objects, too; the default is 10."""
_PR_SET_DUMPABLE: Final = 4


@functools.cache
def make_collections_rare() -> None:
    """Let this process look for reference cycles rarely, and not once more when it ends.

    Objects that are dropped often, such as connections, are in no cycles, and looking at long-lived objects
    is slow: with 50,000 open connections it takes half a second, in which a feeder reads no packets. What
    our modules alone consist of takes 0.3 s at the end of a process.
    """
    gc.set_threshold(COLLECT_AFTER, COLLECT_OLDER_AFTER)
    atexit.register(gc.freeze)


@contextmanager
def interrupt_held() -> Iterator[None]:
    """Delay a SIGINT that arrives within the block until the block ends. Only for the main thread.

    C code that calls back into Python while a module is loaded, such as llvmlite's, discards a
    KeyboardInterrupt that is raised there, and the program goes on. A signal mask does not help: the kernel
    gives the signal to any thread that does not mask it.
    """
    arrived: list[int] = []
    former = signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
    if arrived:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """End the block if the reader of standard output has closed the pipe, as `| head` does: that is no error.

    What is written later is discarded, and the exit status can still say what was found.
    """
    try:
        yield
        # Otherwise the flush at the end of the interpreter would print a traceback.
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Discard what is written to standard output from now on, and what is not flushed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def become(user: str) -> None:
    """Switch to a user and its groups for good. An empty name changes nothing.

    Raises UserError if the user does not exist, or the process is not root.
    """
    if not user:
        return
    try:
        entry = pwd.getpwnam(user)
        os.initgroups(user, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    except KeyError:
        raise UserError(f"there is no user {user!r} on this machine; choose another with --user") from None
    except PermissionError as error:
        raise UserError(f"only root can become the user {user!r}; leave --user out") from error


def forbid_core_dumps() -> None:
    """Forbid the kernel to dump the memory of this process, to a file or to a program that collects dumps.

    Only root can then read that memory, or trace the process (man 2 PR_SET_DUMPABLE). A later change of the
    user may undo this.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Programs that collect dumps are not bound by the limit.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
