"""Finds the Java for the broker, Spark and Ivy."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from streaming.user_error import UserError

# The oldest Java that Spark 4.2 and Kafka 4.4 brokers support.
OLDEST = 17

# `openjdk version "17.0.15" 2025-04-15`; before Java 9 it read `java version "1.8.0_412"`.
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java() -> Path:
    """Return a `java` of version 17 or newer: that of JAVA_HOME, or else the first on PATH.

    Raises `UserError` if there is none.
    """
    seen = []
    for command in _candidates():
        version = _version(command)
        if version is not None and version >= OLDEST:
            return command
        seen.append(f"{command} is {'not a Java' if version is None else f'Java {version}'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    remedy = f"install openjdk-{OLDEST}-jre-headless or newer, or set JAVA_HOME"
    raise UserError(f"no Java {OLDEST}+ in JAVA_HOME or on PATH{found}: {remedy}")


def _candidates() -> list[Path]:
    home = os.environ.get("JAVA_HOME")
    of_home = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    return of_home + ([Path(on_path)] if on_path else [])


def _version(command: Path) -> int | None:
    """Return the major version of a command, None if it is no working Java."""
    try:
        report = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    return version_in(report)


def version_in(report: str) -> int | None:
    """Return the major version in the output of `java -version`, None if there is none."""
    match = _VERSION.search(report)
    return int(match[1]) if match else None
