"""Gives up root privileges, which the feeder needs only to open its sockets."""

from __future__ import annotations

import os
import pwd

from streaming.user_error import UserError


def become(user: str) -> None:
    """Switch to a user and its groups permanently; an empty name changes nothing.

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
