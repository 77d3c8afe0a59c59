"""A standalone Spark cluster, whose workers have a Python without any of our packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from streaming.broker import child_guard
from streaming.broker.jars import java
from streaming.broker.ports import HOST, free_ports
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


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run a standalone master with two workers of one core each on loopback; yields its address."""
    port, *pages = free_ports(4)
    address = f"spark://{HOST}:{port}"
    flags, own = ["--host", HOST], [f"SPARK_LOCAL_IP={HOST}"]
    with ExitStack() as stack:
        listening = ["--port", str(port), "--webui-port", str(pages[0])]
        start(stack, folder / "master.log", daemon("master.Master", *flags, *listening, environment=own))
        for number in (1, 2):
            folders = ["--work-dir", str(folder / f"worker-{number}"), "--webui-port", str(pages[number])]
            size = ["--cores", "1", "--memory", "1g"]
            worker = daemon("worker.Worker", *flags, *size, *folders, address, environment=own)
            start(stack, folder / f"worker-{number}.log", worker)
        for number in (1, 2):
            wait_for(folder / f"worker-{number}.log", "Successfully registered")
        yield address


def spark_settings() -> str:
    """The table [spark] of a configuration whose driver is on loopback, as the executors of `cluster` are."""
    (driver_port,) = free_ports(1)
    settings = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.port": str(driver_port),
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
    }
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in settings.items()]
    return "\n".join(["[spark]", *lines, ""])


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
