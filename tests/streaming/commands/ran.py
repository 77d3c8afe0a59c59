"""Runs commands, and returns their status and output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class Ran(NamedTuple):
    """One run that has ended."""

    status: int
    output: str
    errors: str

    @property
    def error_line(self) -> str:
        """The one line of an error, without `kipwatch: `."""
        assert self.status == 2, (self.status, self.errors)
        assert self.errors.startswith("kipwatch: "), self.errors
        assert self.errors.count("\n") == 1, self.errors
        assert self.errors.endswith("\n")
        return self.errors.removeprefix("kipwatch: ").rstrip("\n")


Kipwatch = Callable[..., Ran]
"""Runs a command in this process, given its arguments."""


def run_process(*arguments: object, stdin: bytes = b"", **environment: str) -> Ran:
    """Run a command in a process of its own, with changes to the environment."""
    ran = subprocess.run(
        [sys.executable, "-m", "streaming.commands.main", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


WITHOUT_JAVA: dict[str, Any] = {"PATH": "/nowhere", "JAVA_HOME": ""}
