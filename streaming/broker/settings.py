"""The configuration of the embedded broker: its `server.properties` and its logging."""

from dataclasses import dataclass
from pathlib import Path

from streaming.broker.ports import HOST, Ports


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of one embedded broker."""

    root: Path

    @property
    def properties(self) -> Path:
        return self.root / "server.properties"

    @property
    def logging(self) -> Path:
        return self.root / "log4j2.properties"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def server_log(self) -> Path:
        return self.root / "server.log"

    @property
    def request_log(self) -> Path:
        return self.root / "requests.log"

    @property
    def output(self) -> Path:
        """Output of the JVM itself."""
        return self.root / "output.log"


def server_properties(
    ports: Ports, watched_advertised_port: int, data: Path, auto_create_topics: bool
) -> str:
    """Return the properties of a one-node KRaft broker.

    `watched_advertised_port` is the port that WATCHED advertises: that of the relay if one stands before it.
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

    At DEBUG `kafka.request.logger` writes one JSON object for each request, when it is completed. Only those
    of WATCHED are kept: the requests of the feeder and Spark on the other listeners are many and large.
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
