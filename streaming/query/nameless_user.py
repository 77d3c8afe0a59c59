"""Spark for a user without a name and a home, as in some containers and systemd units.

Hadoop looks the user's name up before Spark does anything, be it only to read a jar, and fails without one.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from streaming.user_error import UserError

NAME: Final = "kipwatch"
"""What Spark calls a user without a name."""


def is_nameless() -> bool:
    """Whether the machine has no name for the user of this process."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return True
    return False


def nameless_settings(master: str, jars: Sequence[Path], scratch: Path, java_options: str) -> dict[str, str]:
    """Settings by which a JVM starts without a login; they replace `spark.jars`.

    Raises UserError for a cluster: Spark would log in to send jars to it.
    """
    if not master.startswith("local"):
        raise UserError(
            f"user {os.getuid()} has no name on this machine, and Spark needs one for a cluster: "
            "add the user to /etc/passwd, or run as one that has a name"
        )
    return {
        "spark.jars": "",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        # Java takes it from the machine's list of users, not from the environment.
        "spark.driver.extraJavaOptions": f"{java_options} -Duser.home={scratch}",
    }


def log_in(gateway: Any) -> None:
    """Give the JVM a user by another way than the machine's list of users."""
    users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
    users.setLoginUser(users.createRemoteUser(NAME))
