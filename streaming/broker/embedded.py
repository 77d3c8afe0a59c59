"""The embedded broker: a real Kafka broker in one KRaft process, on loopback."""

import base64
import contextlib
import re
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streaming.broker import child_guard
from streaming.broker.guarded_process import last_line
from streaming.broker.jars import jars
from streaming.broker.java import java
from streaming.broker.ports import HOST, reserve
from streaming.broker.settings import Folder, logging_properties, server_properties
from streaming.user_error import UserError

# Seconds until the broker must respond. It takes four on two idle cores, and a minute on very busy ones.
_PATIENCE = 240.0

# A small heap, the cheapest collector and compiler: the broker starts faster and uses less of the cores.
_JVM_FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

# A line of the server log, written when all listeners serve. Each of them serves a moment before.
_STARTED = "Kafka Server started"

# How an error begins in the server log, and the line of its exception, which may follow.
_ERROR = re.compile(r"[-0-9]+ [:,0-9]+ (?:ERROR|FATAL) ")
_EXCEPTION = re.compile(r"[\w.$]+: (.+)")


class EmbeddedBroker:
    """A Kafka broker on loopback; a context manager that starts it and ends it.

    Data and logs are in a temporary folder, which is removed when the broker ends.
    """

    def __init__(
        self,
        watched_port: int = 0,
        internal_port: int = 0,
        watched_advertised_port: int = 0,
        *,
        auto_create_topics: bool = False,
    ) -> None:
        """Choose the ports. A port of 0 means any free one; an advertised port of 0, the watched one.

        With `auto_create_topics` a topic is created when a client first uses it, as Kafka does by default.
        Raises `UserError` if a port is in use.
        """
        self.ports = reserve(watched_port, internal_port)
        self._auto_create_topics = auto_create_topics
        self._advertised = watched_advertised_port or self.ports.watched
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

    @property
    def watched(self) -> str:
        """The `host:port` of the listener that is captured."""
        return f"{HOST}:{self.ports.watched}"

    @property
    def internal(self) -> str:
        """The `host:port` of the listener for kipwatch's own clients."""
        return f"{HOST}:{self.ports.internal}"

    @property
    def data(self) -> Path:
        """The folder of the topics' logs; it is removed with the broker."""
        return self._folder.data

    @property
    def request_log(self) -> Path:
        """The log of the requests that WATCHED served; it is removed with the broker."""
        return self._folder.request_log

    def __enter__(self) -> Self:
        """Start the broker and return when it responds. Raises `UserError` if it does not."""
        with contextlib.ExitStack() as undo:
            scratch = tempfile.TemporaryDirectory(prefix="kipwatch-broker-", ignore_cleanup_errors=True)
            self._folder = Folder(Path(undo.enter_context(scratch)))
            self._write_settings()
            self._format()
            process = self._start()
            undo.callback(child_guard.stop, process)
            self._await_response(process)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the broker's process and remove its folder."""
        self._undo.close()

    def _write_settings(self) -> None:
        properties = server_properties(
            self.ports, self._advertised, self._folder.data, self._auto_create_topics
        )
        self._folder.properties.write_text(properties)
        logging = logging_properties(self._folder.server_log, self._folder.request_log)
        self._folder.logging.write_text(logging)

    def _format(self) -> None:
        tool = self._java("kafka.tools.StorageTool", "format", "--standalone")
        tool += [f"--cluster-id={self.cluster_id}", "--config", self._folder.properties]
        done = subprocess.run(tool, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UserError(f"the embedded broker cannot format its storage: {last_line(done.stderr)}")

    def _start(self) -> subprocess.Popen[bytes]:
        # What is read there must be of this start.
        self._folder.server_log.unlink(missing_ok=True)
        with self._folder.output.open("wb") as output:
            return child_guard.start(self._java("kafka.Kafka", self._folder.properties), output)

    def _await_response(self, process: subprocess.Popen[bytes]) -> None:
        settings = {"bootstrap.servers": self.internal, "reconnect.backoff.max.ms": 200, "log_level": 0}
        admin = AdminClient(settings)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise UserError(f"the embedded broker ended while it started: {self._startup_error()}")
            with contextlib.suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers and self._has_started():
                    return
                time.sleep(0.05)
        raise UserError(f"the embedded broker did not respond in {_PATIENCE:.0f} s: {self._startup_error()}")

    def _has_started(self) -> bool:
        """Whether every listener serves, and not the internal one alone: another may still fail."""
        return _STARTED in self._folder.server_log.read_text()

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        classes = ":".join(map(str, jars("broker")))
        own = [f"-Dlog4j2.configurationFile={self._folder.logging}", f"-Djava.io.tmpdir={self._folder.root}"]
        return [java(), *_JVM_FLAGS, *own, "-cp", classes, *arguments]

    def _startup_error(self) -> str:
        """Return the first error of the server log, or else the last line of the JVM's output."""
        log = self._folder.server_log
        error = first_error(log.read_text()) if log.exists() else ""
        return error or last_line(self._folder.output.read_text())


def first_error(server_log: str) -> str:
    """Return the message of the first error in a server log: that of its exception, or else its own.

    The first error is the cause; later ones are its consequences. Returns "" if there is none.
    """
    lines = iter(server_log.splitlines())
    error = next((line for line in lines if _ERROR.match(line)), "")
    exception = _EXCEPTION.match(next(lines, ""))
    return exception[1] if exception else _ERROR.sub("", error)
