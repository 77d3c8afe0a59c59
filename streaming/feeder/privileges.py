"""Giving up root: once the sockets are open, nothing that the feeder does needs it."""

from __future__ import annotations

import os
import pwd

from streaming.user_error import UserError


def become(user: str) -> None:
    """Take on the user and its groups for good; without a user, stay.

    Raises UserError for a user that does not exist, and when the process is not root.
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
