"""`kipwatch feed`: capture packets and publish frames, until a signal or the end of the source."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO, NamedTuple

from decoders.wire.columnar.packets import PacketBatch
from streaming.broker.topics import FramesTopic
from streaming.feeder.capture import InterfaceCapture
from streaming.feeder.capture_stream import follow_pipe, is_pipe
from streaming.feeder.feeder import Batches, Feeder
from streaming.feeder.key_log_files import FollowedKeyLogs, exposed_key_logs, read_key_logs
from streaming.feeder.outlet import DryRun
from streaming.feeder.pod_watch import ApiServer, PodWatch
from streaming.feeder.port_watch import nothing_published
from streaming.feeder.publisher import CLIENT_ID, Publisher
from streaming.feeder.source import follow, open_capture, run_of_file, run_of_followed
from streaming.feeder.unwatched_traffic import OwnTraffic
from streaming.log import FEEDER_LOG, configure_log
from streaming.metrics.exposition import Exposition, serve
from streaming.process import become, forbid_core_dumps
from streaming.settings.address import host_and_port
from streaming.settings.confidential import open_save, tls_context
from streaming.settings.configuration import Configuration, add_flags, configure
from streaming.settings.kafka_client import Setting
from streaming.settings.release import load_schemas
from streaming.user_error import UserError

SETTINGS = (
    "bootstrap",
    "frames_topic",
    "interface",
    "ports",
    "cluster",
    "feeder",
    "user",
    "ring_mebibytes",
    "queue_mebibytes",
    "block_milliseconds",
    "max_request_bytes",
    "tls_keylog",
    "keep",
    "kubernetes",
    "feeder_metrics_address",
    "schemas",
    "log_level",
)
POLL_SECONDS = 0.05
"""The longest single wait for packets: frames may not wait longer for their block."""
TOPIC_SECONDS = 3.0
"""How long the feeder waits at its start until it is known whether the frames topic exists."""
MEBIBYTE = 1024 * 1024


class PacketSource(NamedTuple):
    """The packets to feed, the run ID, and the capture if they are live.

    `batches` reads packets. It calls its argument again and again while it waits for some.
    """

    batches: Callable[[Callable[[], None]], Batches]
    run: int
    capture: InterfaceCapture | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="a capture file, a folder to follow, a pipe, or - for standard input (default: capture live)",
    )
    parser.add_argument(
        "--save",
        type=Path,
        metavar="FILE",
        help="also write the captured packets, passwords included, to this pcap file, for its owner only",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the records instead of publishing them; needs no Kafka"
    )
    add_flags(parser, SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Feed from the source that the arguments name."""
    configuration = configure(arguments)
    configure_log(configuration.log_level)
    if arguments.save and _is_source(arguments.save, arguments.source):
        raise UserError(f"--save would overwrite {arguments.save}, the source; name another file")
    with ExitStack() as stack:
        key_logs = _key_logs(stack, configuration, arguments.source)
        save = stack.enter_context(open_save(arguments.save)) if arguments.save else None
        stopping = threading.Event()
        source = _open(stack, configuration, arguments.source, stopping, key_logs)
        captured = _feed(
            stack, configuration, source, save, stopping, key_logs=key_logs, dry=arguments.dry_run
        )
        if arguments.source and arguments.source.is_file():
            _explain_nothing(arguments.source, configuration, captured, stopping)
    return 0


def _explain_nothing(
    path: Path, configuration: Configuration, captured: int, stopping: threading.Event
) -> None:
    """Raise UserError if a whole file held nothing on the watched ports."""
    if not captured and not stopping.is_set():
        schemas = load_schemas(configuration.schemas)
        raise UserError(nothing_published(path, configuration.ports, schemas))


def _is_source(path: Path, source: Path | None) -> bool:
    return source is not None and path.exists() and source.exists() and path.samefile(source)


def _key_logs(stack: ExitStack, configuration: Configuration, source: Path | None) -> FollowedKeyLogs | None:
    """Open the key logs and forbid core dumps. None if a live capture has no key log.

    Key logs of a capture file are read once and not followed. Raises UserError if one of these is missing.
    """
    paths = [Path(name) for name in configuration.tls_keylog]
    if source is None and not paths:
        return None
    forbid_core_dumps()
    if source and source.is_file():
        read = FollowedKeyLogs([], _log_key_log, read_key_logs(paths))
        for path in paths:
            _log_key_log("key-log-read", path, f"{path} is read")
        for line in exposed_key_logs(paths):
            FEEDER_LOG.warning("key-log-exposed", message=line)
        return read
    key_logs = stack.enter_context(closing(FollowedKeyLogs(paths, _log_key_log)))
    key_logs.poll()
    return key_logs


def _log_key_log(event: str, path: Path, message: str) -> None:
    log = FEEDER_LOG.info if event == "key-log-read" else FEEDER_LOG.warning
    log(event, file=str(path), message=message)


def _open(
    stack: ExitStack,
    configuration: Configuration,
    path: Path | None,
    stopping: threading.Event,
    key_logs: FollowedKeyLogs | None,
) -> PacketSource:
    key_log = key_logs.key_log if key_logs else None
    if path is None:
        ring_bytes = configuration.ring_mebibytes * MEBIBYTE
        excluded = configuration.excluded_networks
        capture = InterfaceCapture(configuration.interface, configuration.ports, ring_bytes, excluded)
        entered = stack.enter_context(capture)
        return PacketSource(lambda _: _polls(entered), time.time_ns(), capture)
    if is_pipe(path):
        return PacketSource(lambda idle: follow_pipe(path, stopping.is_set, idle, key_log), time.time_ns())
    if path.is_dir():
        message = f"{path} holds no capture with packets yet"
        run = run_of_followed(path, lambda: FEEDER_LOG.info("waiting", message=message))
        return PacketSource(lambda _: follow(path, key_log), run)
    opened = stack.enter_context(open_capture(path, key_log))
    return PacketSource(lambda _: opened.batches(), run_of_file(path))


def _feed(
    stack: ExitStack,
    configuration: Configuration,
    source: PacketSource,
    save: BinaryIO | None,
    stopping: threading.Event,
    *,
    key_logs: FollowedKeyLogs | None,
    dry: bool,
) -> int:
    """Feed until the source ends. Returns the bytes that were captured on the watched ports."""
    own = stack.enter_context(OwnTraffic(configuration.ports)) if source.capture else None
    pods = _pods(configuration)
    feeder = Feeder(
        configuration, source.run, save, source.capture, own, key_logs=key_logs, pods=pods, stopping=stopping
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    become(configuration.user)
    if key_logs:
        # Again, because the change of the user permits dumps.
        forbid_core_dumps()
    if pods:
        stack.enter_context(closing(pods)).start()
    # After the change of the user: librdkafka connects at once, and must not do so as root.
    mark = own.mark.settings if own else {}
    outlet = DryRun() if dry else _publisher(configuration, feeder, mark)
    if not dry:
        # Not before: the page of a feeder that ends at each start would hide from alerts that it is absent.
        stack.enter_context(closing(_serve(configuration, feeder)))
    feeder.run(source.batches(feeder.idle), outlet)
    return feeder.captured_bytes


def _pods(configuration: Configuration) -> PodWatch | None:
    if not configuration.kubernetes:
        return None
    if configuration.identities != "plain":
        raise UserError('kubernetes = true would name the clients that identities = "keyed-hash" hides')
    return PodWatch(ApiServer.of_this_pod())


def _serve(configuration: Configuration, feeder: Feeder) -> Exposition:
    host, port = host_and_port(configuration.feeder_metrics_address)
    flag = "--feeder-metrics-address"
    return serve(
        feeder.registry,
        port,
        feeder.is_healthy,
        feeder.is_ready,
        host=host,
        flag=flag,
        make_context=tls_context(configuration.metrics_tls),
    )


def _publisher(configuration: Configuration, feeder: Feeder, mark: Mapping[str, Setting]) -> Publisher:
    settings = {"client.id": CLIENT_ID, **configuration.kafka, **mark}
    topic = FramesTopic(configuration.bootstrap, configuration.frames_topic, configuration.topics, settings)
    if problem := topic.wait(TOPIC_SECONDS):
        raise UserError(problem)
    if topic.is_created:
        FEEDER_LOG.info("topic-created", topic=configuration.frames_topic)
    return Publisher(
        configuration.bootstrap,
        configuration.frames_topic,
        settings,
        configuration.queue_mebibytes * MEBIBYTE,
        feeder.waits,
        topic=topic,
        block_seconds=configuration.block_milliseconds / 1000,
        schemas=feeder.schemas.digest,
    )


def _polls(capture: InterfaceCapture) -> Iterator[PacketBatch]:
    while True:
        yield capture.packets(POLL_SECONDS)
