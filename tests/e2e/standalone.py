"""A standalone Spark cluster, whose workers have a Python without any of our packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pyspark

from streaming.broker import child_guard
from streaming.broker.java import java
from streaming.query.session import WORKER_PYTHON

READY = 60.0
SPARK_HOME = Path(pyspark.__file__).parent


def bare_path() -> str:
    """A search path without this environment, with a Python that lacks our packages."""
    folders = [folder for folder in [*os.defpath.split(":"), "/usr/local/bin"] if folder]
    return ":".join(folder for folder in folders if not folder.startswith(sys.prefix))


def lacks_our_packages() -> bool:
    found = shutil.which(WORKER_PYTHON, path=bare_path())
    if found is None:
        return False
    return subprocess.run([found, "-c", "import msgspec"], capture_output=True, check=False).returncode != 0


def daemon(name: str, *arguments: str, environment: Sequence[str] = ()) -> list[str]:
    """The command that starts a master or a worker without this environment."""
    # Spark's own scripts export the Scala version.
    spark = [f"SPARK_HOME={SPARK_HOME}", "SPARK_SCALA_VERSION=2.13", *environment]
    command = ["env", "-i", f"PATH={bare_path()}", *spark, str(java()), "-Xmx256m"]
    return [*command, "-cp", f"{SPARK_HOME}/jars/*", f"org.apache.spark.deploy.{name}", *arguments]


def start(stack: ExitStack, log: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command that ends with the stack, with its output in a log; return its guard."""
    with log.open("wb") as output:
        guard = child_guard.start(command, output)
    stack.callback(child_guard.stop, guard)
    return guard


def wait_for(log: Path, text: str, seconds: float = READY) -> None:
    deadline = time.monotonic() + seconds
    while text not in log.read_text(errors="replace"):
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.2)
