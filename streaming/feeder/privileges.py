"""What the process gives up: root when its sockets are open, and core dumps, which hold secrets of TLS."""

from __future__ import annotations

import ctypes
import os
import pwd
import resource

from streaming.user_error import UserError

_PR_SET_DUMPABLE = 4


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
