"""A Spark cluster of machines with addresses of their own, and a broker at their hub."""

from __future__ import annotations

import itertools
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import HOST
from streaming.broker.topics import create_topics
from streaming.demo.progress import scrape
from streaming.settings.configuration import FramesTopicSettings, Topics
from tests.captures import planted, real_clients
from tests.e2e.namespaces import Network
from tests.e2e.process_tree import tree
from tests.e2e.standalone import daemon, start, wait_for

JUDGED: Final = 900.0
"""Seconds; each new executor compiles first."""
DRIVER, WORKERS = "driver", ("worker-1", "worker-2")
MASTER_PORT, PAGE_PORT = 7077, 9108
TOPICS = Topics(frames=FramesTopicSettings(partitions=4))
CAPTURES = (real_clients.CAPTURE, 38433), (planted.CAPTURE, 37429)
"""Each with the port of its broker."""
_NUMBERS = itertools.count(1)


class HubBroker(EmbeddedBroker):
    """An embedded broker on the hub's address instead of loopback."""

    @property
    def internal(self) -> str:
        return f"{Network.hub}:{self.ports.internal}"

    def _write_settings(self) -> None:
        super()._write_settings()
        properties = self._folder.properties
        properties.write_text(properties.read_text().replace(f"//{HOST}:", f"//{Network.hub}:"))


class Machines:
    """The network, the cluster on it and the broker at its hub. `start_query` runs the driver."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self.checkpoints, self.spark = str(folder), {"spark.executor.memory": "600m"}
        self.network = stack.enter_context(Network(folder, [DRIVER, *WORKERS]))
        stack.enter_context(self.network.at_hub())
        self.broker = stack.enter_context(HubBroker())
        create_topics(self.broker.internal, "kipwatch.frames", "kipwatch.findings", TOPICS)
        listening = ["--host", Network.hub, "--port", str(MASTER_PORT)]
        start(stack, folder / "master.log", daemon("master.Master", *listening))
        self._workers = [self._start_worker(name) for name in WORKERS]
        for name in WORKERS:
            wait_for(folder / f"{name}.log", "Successfully registered")

    def start_query(self, buckets: int = 8, partitions: int = 4) -> subprocess.Popen[bytes]:
        """Run the query as docs/growing.md says: nothing tells Spark which address the driver has.

        Its checkpoint is the one of these numbers, below `checkpoints`.
        """
        self.log = self._folder / f"run-{next(_NUMBERS)}.log"
        configuration = self._folder / "kipwatch.toml"
        settings = "".join(f'"{name}" = "{value}"\n' for name, value in self.spark.items())
        configuration.write_text(f"[spark]\n{settings}")
        command = [sys.executable, "-m", "streaming.commands.main", "run", "--config", str(configuration)]
        command += ["--master", f"spark://{Network.hub}:{MASTER_PORT}", "--bootstrap", self.broker.internal]
        command += ["--buckets", str(buckets), "--shuffle-partitions", str(partitions)]
        command += ["--checkpoint", f"{self.checkpoints}/checkpoint-{buckets}-{partitions}"]
        command += ["--metrics-address", f"0.0.0.0:{PAGE_PORT}"]
        return start(self._stack, self.log, self.network.on(DRIVER, command))

    def feed(self, capture: Path, port: int) -> None:
        command = [sys.executable, "-m", "streaming.commands.main", "feed", str(capture)]
        command += ["--ports", str(port), "--bootstrap", self.broker.internal]
        command += ["--feeder-metrics-address", "127.0.0.1:9107"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def executors(self) -> dict[str, list[int]]:
        """The processes that are executors, by worker."""
        found = {name: tree(worker.pid) for name, worker in zip(WORKERS, self._workers, strict=True)}
        return {
            name: [process for process in all_of if is_executor(process)] for name, all_of in found.items()
        }

    def frames_judged(self) -> float:
        page = scrape(f"{self.network.addresses[DRIVER]}:{PAGE_PORT}")
        return page.total("kipwatch_frames_total") if page else 0.0

    def _start_worker(self, name: str) -> subprocess.Popen[bytes]:
        size = ["--cores", "2", "--memory", "1g", "--work-dir", str(self._folder / name)]
        command = daemon("worker.Worker", *size, f"spark://{Network.hub}:{MASTER_PORT}")
        return start(self._stack, self._folder / f"{name}.log", self.network.on(name, command))


def is_executor(process: int) -> bool:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return b"java" in command.split(b"\0")[0] and b"CoarseGrainedExecutorBackend" in command
