"""The embedded broker: a real Kafka broker on loopback, one process with both roles of KRaft.

It has a listener WATCHED for real clients, the only one whose traffic is captured, and INTERNAL for
kipwatch's own clients. Its files are in a temporary folder: `server.properties` and the logging configuration
that are written here, data, and logs, of which the request log is the reference of tests. It has started when
a client reaches it and its log says that all listeners serve.
"""

from __future__ import annotations

import base64
import contextlib
import re
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streaming.broker import child_guard
from streaming.broker.child_guard import last_line
from streaming.broker.jars import jars, java
from streaming.broker.ports import HOST, Ports, reserve
from streaming.user_error import UserError

# Seconds until the broker must respond. It takes four on two idle cores, a minute on very busy ones.
_PATIENCE = 240.0

# A small heap and the cheapest collector and compiler: the broker starts faster and takes less CPU time.
_JVM_FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

# The line of the server log that says that all listeners serve. Each serves a moment before it.
_STARTED = "Kafka Server started"

# The beginning of an error in the server log, and the line of its exception, which may follow.
_ERROR = re.compile(r"[-0-9]+ [:,0-9]+ (?:ERROR|FATAL) ")
_EXCEPTION = re.compile(r"[\w.$]+: (.+)")


class EmbeddedBroker:
    """A Kafka broker on loopback. A context manager that starts it, ends it, and removes its files."""

    def __init__(
        self,
        watched_port: int = 0,
        internal_port: int = 0,
        watched_advertised_port: int = 0,
        *,
        auto_create_topics: bool = False,
    ) -> None:
        """Choose the ports. 0 means any free port, and the watched one for the advertised port.

        With `auto_create_topics` a topic is created when a client first uses it, as is Kafka's default.
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
        """The folder of the topics' logs."""
        return self._folder.data

    @property
    def request_log(self) -> Path:
        """The log of the requests that WATCHED served."""
        return self._folder.request_log

    def __enter__(self) -> Self:
        """Start the broker and wait until it responds. Raises `UserError` if it does not."""
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

    def __exit__(self, *_: object) -> None:
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
        # A log of an earlier start would say that this one is complete.
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
        """Whether all listeners serve. After the internal one, another may still fail."""
        return _STARTED in self._folder.server_log.read_text()

    def _java(self, *arguments: str | Path) -> list[str | Path]:
        own = [f"-Dlog4j2.configurationFile={self._folder.logging}", f"-Djava.io.tmpdir={self._folder.root}"]
        return [java(), *_JVM_FLAGS, *self._class_flags(), *own, *class_path(), *arguments]

    def _class_flags(self) -> list[str]:
        archive = archived_classes()
        return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []

    def _startup_error(self) -> str:
        """Return the first error of the server log, or else the last line of the JVM's output."""
        log = self._folder.server_log
        error = first_error(log.read_text()) if log.exists() else ""
        return error or last_line(self._folder.output.read_text())


def class_path() -> list[str]:
    """Return the JVM's arguments that name the broker's jars."""
    return ["-cp", ":".join(map(str, jars("broker")))]


def archived_classes() -> Path:
    """Return where the archive of the broker's classes is, if there is one: beside its jars.

    With it a JVM starts in half the time, since it maps classes that were read and verified before. A JVM
    that it does not fit, such as another Java, does without. `class_archive.py` makes it.
    """
    return jars("broker")[0].parents[1] / "broker.jsa"


def first_error(server_log: str) -> str:
    """Return the message of the first error in a server log, "" if there is none.

    The first error is the cause of later ones. Its exception, if logged, has the better message.
    """
    lines = iter(server_log.splitlines())
    error = next((line for line in lines if _ERROR.match(line)), "")
    exception = _EXCEPTION.match(next(lines, ""))
    return exception[1] if exception else _ERROR.sub("", error)


class Folder:
    """The files of an embedded broker."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.properties = root / "server.properties"
        self.logging = root / "log4j2.properties"
        self.data = root / "data"
        self.server_log = root / "server.log"
        self.request_log = root / "requests.log"
        self.output = root / "output.log"
        """Output of the JVM itself."""


def server_properties(
    ports: Ports, watched_advertised_port: int, data: Path, auto_create_topics: bool
) -> str:
    """Return the properties of a one-node KRaft broker.

    `watched_advertised_port` is the port that WATCHED advertises: the relay's, if one stands before it.
    """
    return f"""\
process.roles=broker,controller
node.id=1
listeners=WATCHED://{HOST}:{ports.watched},INTERNAL://{HOST}:{ports.internal},CONTROLLER://{HOST}:{ports.controller}
advertised.listeners=WATCHED://{HOST}:{watched_advertised_port},INTERNAL://{HOST}:{ports.internal}
listener.security.protocol.map=WATCHED:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={HOST}:{ports.controller}
log.dirs={data}
auto.create.topics.enable={str(auto_create_topics).lower()}

# One broker holds every replica.
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1

# Groups form at once and heartbeat every second, so that a short capture shows their heartbeats.
group.initial.rebalance.delay.ms=0
group.consumer.min.heartbeat.interval.ms=1000
group.consumer.heartbeat.interval.ms=1000

# The default, 128 MiB allocated at the start, is a quarter of the heap.
log.cleaner.dedupe.buffer.size=4194304
"""


def logging_properties(server_log: Path, request_log: Path) -> str:
    """Return the log4j2 configuration: the server's log, and every request that WATCHED served.

    At DEBUG `kafka.request.logger` writes one JSON object for each completed request. Those of other
    listeners are dropped, since the requests of feeder and Spark are many and large.
    """
    return f"""\
status=error
appender.server.type=File
appender.server.name=server
appender.server.fileName={server_log}
appender.server.layout.type=PatternLayout
appender.server.layout.pattern=%d %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.server.ref=server

appender.requests.type=File
appender.requests.name=requests
appender.requests.fileName={request_log}
appender.requests.layout.type=PatternLayout
appender.requests.layout.pattern=%m%n
appender.requests.filter.watched.type=RegexFilter
appender.requests.filter.watched.regex=.*"listener":"WATCHED".*
appender.requests.filter.watched.onMatch=ACCEPT
appender.requests.filter.watched.onMismatch=DENY
logger.requests.name=kafka.request.logger
logger.requests.level=debug
logger.requests.additivity=false
logger.requests.appenderRef.requests.ref=requests
"""
